"""Requests of commands to the API server. An error names the request, the reason, and a remedy.

The commands interpret the answers and print them.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from scheduler.cli.errors import CommandError, Interrupted
from scheduler.cli.text import echo

if TYPE_CHECKING:
    from scheduler.api.kinds import Kind
    from scheduler.cluster.kube.transport.client import ApiClient
    from scheduler.cluster.kube.transport.sources import WatchSource

T = TypeVar("T")
Raw = dict[str, Any]
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
PAGE: Final = 500
"""Objects per page of a list."""
MAX_WARNINGS: Final = 1000
"""Different warnings that a command prints."""


@dataclass(frozen=True, slots=True)
class Connection:
    """The API server, the credentials and the namespace, as the flags give them."""

    kubeconfig: str = ""
    master: str = ""
    context: str = ""
    namespace: str = ""
    """"" for the namespace of the context."""
    all_namespaces: bool = False
    compressed: bool = True
    """Whether the API server may compress lists, which takes longer than to send them over the network of a cluster."""

    def run(self, work: "Callable[[Cluster], Awaitable[T]]", *, timeout: float = 30.0) -> T:
        """Runs ``work`` with a connected cluster and returns its result. ``timeout``: seconds for one request.

        Raises CommandError, Interrupted.
        """
        import asyncio

        from scheduler.observability import logs

        logs.configure(0, "console")
        results: list[T] = []
        try:
            asyncio.run(self._run(work, timeout, results))
        except KeyboardInterrupt:
            raise Interrupted from None
        return results[0]

    async def _run(self, work: "Callable[[Cluster], Awaitable[T]]", timeout: float, results: list[T]) -> None:
        """Appends the result to ``results`` instead of returning it.

        ``asyncio.run`` restores the handler of SIGINT with ``signal.signal``, which converts the old handler, and with
        it the task and its result, to text. That takes seconds if the result is a cluster.
        """
        import asyncio

        from scheduler.cluster.kube.transport.client import ApiClient
        from scheduler.cluster.kube.transport.credentials import Credentials, CredentialsError
        from scheduler.observability.role_metrics import RoleMetrics

        credentials = Credentials(kubeconfig=self.kubeconfig, master=self.master, context=self.context)
        client = ApiClient(credentials, RoleMetrics(), qps=0, timeout=timeout, warn=_Warnings().show)
        try:
            await client.start()
            namespace = self.namespace or await asyncio.to_thread(credentials.namespace)
            scope = "" if self.all_namespaces else namespace
            results.append(await work(Cluster(client, namespace, scope, compressed=self.compressed)))
        except CredentialsError as error:
            message = str(error).rstrip(".")
            raise CommandError(
                f"{message}; name a cluster with --kubeconfig FILE, --context NAME or --master URL, or set KUBECONFIG"
            ) from None
        finally:
            await client.close()


class _Warnings:
    """Prints the warnings of the API server on standard error as kubectl does, equal ones once."""

    def __init__(self) -> None:
        self._printed: set[str] = set()

    def show(self, text: str) -> None:
        if text not in self._printed and len(self._printed) < MAX_WARNINGS:
            self._printed.add(text)
            echo(f"Warning: {text}", err=True)


class Cluster:
    """Requests to one API server. Each raises CommandError, whose message begins with the request."""

    def __init__(self, client: "ApiClient", namespace: str, scope: str, *, compressed: bool = True) -> None:
        self.client = client
        self._compressed = compressed
        self.namespace = namespace
        self.scope = scope
        """The namespace of lists; "" for all namespaces."""

    async def fetch(
        self, source: "WatchSource", *, fields: str = "", at_most: int | None = None, page: int = PAGE, parts: Any = Raw
    ) -> list[Raw]:
        """Returns all objects of a source, or the first ``at_most``. The other arguments are those of ``receive``."""
        found: list[Raw] = []
        await self.receive(source, found.extend, fields=fields, at_most=at_most, page=page, parts=parts)
        return found

    async def receive(
        self, source: "WatchSource", take: Callable[[list[Raw]], object], *, fields: str = "",
        at_most: int | None = None, page: int = PAGE, parts: Any = Raw,
    ) -> None:  # fmt: skip
        """Calls ``take`` with all objects of a source, or the first ``at_most``, some at a time as they arrive.

        ``fields``: a field selector; ``page``: objects per request; ``parts``: a TypedDict with the parts of an object
        to keep.
        """
        request = f"list {_listed(source.kind, source.namespace)}"
        if source.namespace:
            _check_name(source.namespace)
        params = {"limit": str(at_most or page), **source.selection, **({"fieldSelector": fields} if fields else {})}
        head = {"apiVersion": source.kind.api_version, "kind": source.kind.name}

        def take_whole(items: list[Raw]) -> None:
            if items:
                take([head | item for item in items])

        while True:
            continuation = await self._page(request, source, params, parts, take_whole)
            params = {**params, "continue": continuation}
            if not continuation or at_most:
                return

    async def _page(
        self,
        request: str,
        source: "WatchSource",
        params: Mapping[str, str],
        parts: Any,
        take: Callable[[list[Raw]], object],
    ) -> str:
        """Passes the objects of a page to ``take``. Returns the token of the next page; "": there is none."""
        from scheduler.cluster.decoding import ListDecoder

        decoder: ListDecoder[Raw] = ListDecoder(parts)
        await self._send(
            request,
            source.kind,
            "GET",
            source.path,
            params=params,
            receive=lambda part: take(decoder.feed(part)),
        )
        rest = self._decoded(request, decoder.finish)
        take(rest.items or [])
        return rest.metadata.continuation

    async def get(self, kind: "Kind", namespace: str, name: str) -> Raw:
        return await self._object_request("get", "GET", kind, namespace, name)

    async def create(self, kind: "Kind", namespace: str, body: Raw) -> Raw:
        """Creates an object and returns it as the API server stored it."""
        metadata = body["metadata"]
        name = metadata.get("name") or f"{metadata.get('generateName', '')}..."
        request = f"create {kind.name} {name}" + (f" in namespace {namespace}" if kind.namespaced else "")
        path = _source(kind, namespace).path
        return await self._request(request, kind, "POST", path, body=body, answer=Raw)

    async def patch(self, kind: "Kind", namespace: str, name: str, body: Raw, subresource: str = "") -> Raw:
        """Applies a JSON merge patch and returns the object."""
        return await self._object_request("patch", "PATCH", kind, namespace, name, body=body, subresource=subresource)

    async def delete(self, kind: "Kind", namespace: str, name: str) -> None:
        await self._object_request("delete", "DELETE", kind, namespace, name)

    async def log(
        self, namespace: str, pod: str, params: Mapping[str, str], receive: Callable[[list[bytes]], object]
    ) -> None:
        """Calls ``receive`` with the lines of the log of a Pod, each time with all that have arrived."""
        from scheduler.api.kinds import POD
        from scheduler.cluster.kube.transport.errors import RequestError

        try:
            await self.client.follow(f"{_path(POD, namespace, pod)}/log", params, receive, unfinished=True)
        except RequestError as error:
            raise self._error(f"read the log of Pod {pod} in namespace {namespace}", POD, error) from None

    async def _object_request(
        self, verb: str, method: str, kind: "Kind", namespace: str, name: str, *, body: Raw | None = None,
        subresource: str = "",
    ) -> Raw:  # fmt: skip
        request = f"{verb} {kind.name} {name}" + (f" in namespace {namespace}" if kind.namespaced else "")
        path = _path(kind, namespace, name) + (f"/{subresource}" if subresource else "")
        return await self._request(request, kind, method, path, body=body, answer=Raw)

    async def _request(
        self, request: str, kind: "Kind", method: str, path: str, *, answer: type[T], body: Raw | None = None
    ) -> T:
        import msgspec

        from scheduler.cluster.decoding import decode

        received = await self._send(request, kind, method, path, body=body)
        return self._decoded(request, lambda: decode(msgspec.json.Decoder(answer), received))

    async def _send(
        self, request: str, kind: "Kind", method: str, path: str, *, body: Raw | None = None,
        params: Mapping[str, str] | None = None, receive: Callable[[bytes], object] | None = None,
    ) -> bytes:  # fmt: skip
        """Returns the body of the answer; ``receive`` is as in ``ApiClient.request``."""
        import msgspec

        from scheduler.cluster.kube.transport.client import JSON, MERGE_PATCH
        from scheduler.cluster.kube.transport.errors import RequestError
        from scheduler.cluster.kube.transport.ratelimit import CallPriority

        try:
            return await self.client.request(
                method,
                path,
                priority=CallPriority.READ,
                body=None if body is None else msgspec.json.encode(body),
                params=params,
                content_type=MERGE_PATCH if method == "PATCH" else JSON,
                compressed=method == "GET" and self._compressed,
                receive=receive,
            )
        except RequestError as error:
            raise self._error(request, kind, error) from None

    def _decoded(self, request: str, decode: Callable[[], T]) -> T:
        from scheduler.cluster.decoding import DECODE_ERRORS

        try:
            return decode()
        except DECODE_ERRORS as error:
            raise CommandError(
                f"{request}: the API server at {self.client.host} sent an answer that is malformed: {error}"
            ) from None

    def _error(self, request: str, kind: "Kind", error: Exception) -> CommandError:
        """The error with the message of the API server, followed by what the user can do."""
        from scheduler.cluster.kube.transport.errors import ApiError

        host = self.client.host
        if not isinstance(error, ApiError):
            return CommandError(
                f"{request}: no answer from the API server at {host} ({error}); is it running, and do --kubeconfig, "
                "--context and --master name the right one?"
            )
        message = error.message or f"the API server at {host} answered {error.status} {error.reason}".rstrip()
        if error.status == 401:
            message += (
                f"; the API server at {host} does not know these credentials: log in again, or choose others with "
                "--kubeconfig or --context"
            )
        elif error.status == 403 and "forbidden: User" in message:
            message += f"; an administrator of the API server at {host} can grant it"
        elif error.status == 404 and not error.reason:
            message = (
                f"the API server at {host} does not serve {kind}: install the resource definitions "
                "(kubectl apply --server-side -f deploy/crds/)"
            )
        return CommandError(f"{request}: {message}", error.status, error.message)


def _check_name(name: str) -> None:
    """Raises CommandError for a name that would lead to another path; the empty name would mean all objects."""
    if not _NAME.fullmatch(name):
        raise CommandError(f"{name!r} cannot be a name: lower case letters and digits, and between them '-' and '.'")


def _source(kind: "Kind", namespace: str) -> "WatchSource":
    from scheduler.cluster.kube.transport.sources import WatchSource

    if namespace:
        _check_name(namespace)
    return WatchSource(kind, namespace if kind.namespaced else "")


def _path(kind: "Kind", namespace: str, name: str) -> str:
    _check_name(name)
    return f"{_source(kind, namespace).path}/{name}"


def _listed(kind: "Kind", namespace: str) -> str:
    if not kind.namespaced:
        return str(kind)
    return f"{kind} in namespace {namespace}" if namespace else f"{kind} in all namespaces"
