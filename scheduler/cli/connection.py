"""Access to the API server for commands: flags, requests, and refusals that say what was asked and what to do.

What the answers mean, and how they are shown, is the commands' business.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from scheduler.cli.failure import Failed, Interrupted

if TYPE_CHECKING:
    from scheduler.api.kinds import Kind
    from scheduler.cluster.kube.transport.client import ApiClient
    from scheduler.cluster.kube.transport.sources import Source

T = TypeVar("T")
Raw = dict[str, Any]
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
PAGE: Final = 500
"""Objects per page of a list."""


@dataclass(frozen=True, slots=True)
class Connection:
    """Which API server, as whom, and in which namespace: what the flags say."""

    kubeconfig: str = ""
    master: str = ""
    context: str = ""
    namespace: str = ""
    """"" for the one of the context."""
    all_namespaces: bool = False

    def run(self, work: "Callable[[Cluster], Awaitable[T]]", *, timeout: float = 30.0) -> T:
        """Do something with the cluster. ``timeout``: seconds for one request. Raises Failed, Interrupted."""
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
        """The result goes into the list: what a coroutine returns to ``asyncio.run`` is converted to text there, since
        ``signal.signal`` does that with handlers, and the handler of SIGINT refers to the task. That takes seconds if
        the result is a cluster."""
        import asyncio

        from scheduler.cluster.kube.transport.client import ApiClient
        from scheduler.cluster.kube.transport.credentials import Credentials, CredentialsError
        from scheduler.observability.role_metrics import RoleMetrics

        credentials = Credentials(kubeconfig=self.kubeconfig, master=self.master, context=self.context)
        client = ApiClient(credentials, RoleMetrics(), qps=0, timeout=timeout)
        try:
            await client.start()
            namespace = self.namespace or await asyncio.to_thread(credentials.namespace)
            results.append(await work(Cluster(client, namespace, "" if self.all_namespaces else namespace)))
        except CredentialsError as error:
            said = str(error).rstrip(".")
            raise Failed(
                f"{said}; name a cluster with --kubeconfig FILE, --context NAME or --master URL, or set KUBECONFIG"
            ) from None
        finally:
            await client.close()


class Cluster:
    """Requests to one API server. Each raises Failed, whose message begins with what was asked."""

    def __init__(self, client: "ApiClient", namespace: str, scope: str) -> None:
        self.client = client
        self.namespace = namespace
        self.scope = scope
        """The namespace that lists are about; "" for all."""

    async def fetch(
        self, source: "Source", *, fields: str = "", at_most: int | None = None, page: int = PAGE
    ) -> list[Raw]:
        """All objects of a source, ``page`` at a time, or the first ``at_most``; ``fields``: a field selector."""
        from msgspec import Struct, field

        class Meta(Struct):
            continuation: str = field(default="", name="continue")

        class Answer(Struct):
            items: list[Raw] | None = None
            metadata: Meta = field(default_factory=Meta)

        asked = f"list {_in(source.kind, source.namespace)}"
        if source.namespace:
            _check(source.namespace)
        params = {"limit": str(at_most or page), **source.selection, **({"fieldSelector": fields} if fields else {})}
        found: list[Raw] = []
        while True:
            answer = await self._request(asked, source.kind, "GET", source.path, params=params, answer=Answer)
            head = {"apiVersion": source.kind.api_version, "kind": source.kind.name}
            found += [head | item for item in answer.items or ()]
            params = {**params, "continue": answer.metadata.continuation}
            if not answer.metadata.continuation or at_most:
                return found

    async def get(self, kind: "Kind", namespace: str, name: str) -> Raw:
        return await self._one("get", "GET", kind, namespace, name)

    async def create(self, kind: "Kind", namespace: str, body: Raw) -> Raw:
        """The object as it was stored."""
        metadata = body["metadata"]
        name = metadata.get("name") or f"{metadata.get('generateName', '')}..."
        asked = f"create {kind.name} {name}" + (f" in namespace {namespace}" if kind.namespaced else "")
        path = _source(kind, namespace).path
        return await self._request(asked, kind, "POST", path, body=body, answer=Raw)

    async def patch(self, kind: "Kind", namespace: str, name: str, body: Raw, subresource: str = "") -> Raw:
        """A JSON merge patch."""
        return await self._one("patch", "PATCH", kind, namespace, name, body=body, subresource=subresource)

    async def delete(self, kind: "Kind", namespace: str, name: str) -> None:
        await self._one("delete", "DELETE", kind, namespace, name)

    async def log(self, namespace: str, pod: str, params: Mapping[str, str]) -> AsyncIterator[list[bytes]]:
        """The log of a Pod, as many lines at a time as have arrived; to be closed by the caller."""
        from scheduler.api.kinds import POD
        from scheduler.cluster.kube.transport.client import ApiError, TransportError

        path = f"{_path(POD, namespace, pod)}/log"
        stream = self.client.lines(path, params, unfinished=True)
        try:
            async with aclosing(stream):  # type: ignore[type-var]
                async for lines in stream:
                    yield lines
        except (ApiError, TransportError) as error:
            raise self._failed(f"read the log of Pod {pod} in namespace {namespace}", POD, error) from None

    async def _one(
        self, verb: str, method: str, kind: "Kind", namespace: str, name: str, *, body: Raw | None = None,
        subresource: str = "",
    ) -> Raw:  # fmt: skip
        asked = f"{verb} {kind.name} {name}" + (f" in namespace {namespace}" if kind.namespaced else "")
        path = _path(kind, namespace, name) + (f"/{subresource}" if subresource else "")
        return await self._request(asked, kind, method, path, body=body, answer=Raw)

    async def _request(
        self, asked: str, kind: "Kind", method: str, path: str, *, answer: type[T], body: Raw | None = None,
        params: Mapping[str, str] | None = None,
    ) -> T:  # fmt: skip
        import msgspec

        from scheduler.cluster.faults import UNREADABLE
        from scheduler.cluster.kube.transport.client import JSON, MERGE_PATCH, ApiError, TransportError
        from scheduler.cluster.kube.transport.ratelimit import Priority
        from scheduler.cluster.nesting import decode

        try:
            received = await self.client.request(
                method,
                path,
                priority=Priority.READ,
                body=None if body is None else msgspec.json.encode(body),
                params=params,
                content_type=MERGE_PATCH if method == "PATCH" else JSON,
            )
            return decode(msgspec.json.Decoder(answer), received)
        except (ApiError, TransportError) as error:
            raise self._failed(asked, kind, error) from None
        except UNREADABLE as error:
            raise Failed(
                f"{asked}: the API server at {self.client.host} sent an answer that is malformed: {error}"
            ) from None
        except ValueError as error:  # an address that is no URL
            raise Failed(f"{asked}: {self.client.host or 'the address of the API server'}: {error}") from None

    def _failed(self, asked: str, kind: "Kind", error: Exception) -> Failed:
        """The server's own words, then what to do."""
        from scheduler.cluster.kube.transport.client import ApiError

        host = self.client.host
        if not isinstance(error, ApiError):
            return Failed(
                f"{asked}: no answer from the API server at {host} ({error}); is it running, and do --kubeconfig, "
                "--context and --master name the right one?"
            )
        said = error.message or f"the API server at {host} answered {error.status} {error.reason}".rstrip()
        if error.status == 401:
            said += (
                f"; the API server at {host} does not know these credentials: log in again, or choose others with "
                "--kubeconfig or --context"
            )
        elif error.status == 403 and "forbidden: User" in said:
            said += f"; whoever administers the API server at {host} can grant it"
        elif error.status == 404 and not error.reason:
            said = (
                f"the API server at {host} does not serve {kind}: install the resource definitions "
                "(kubectl apply --server-side -f deploy/crds/)"
            )
        return Failed(f"{asked}: {said}", error.status)


def _check(name: str) -> None:
    """Raises Failed for what would lead to another place than meant; the empty name is that of all objects."""
    if not _NAME.fullmatch(name):
        raise Failed(f"{name!r} cannot be a name: lower case letters and digits, and between them '-' and '.'")


def _source(kind: "Kind", namespace: str) -> "Source":
    from scheduler.cluster.kube.transport.sources import Source

    if namespace:
        _check(namespace)
    return Source(kind, namespace if kind.namespaced else "")


def _path(kind: "Kind", namespace: str, name: str) -> str:
    _check(name)
    return f"{_source(kind, namespace).path}/{name}"


def _in(kind: "Kind", namespace: str) -> str:
    if not kind.namespaced:
        return str(kind)
    return f"{kind} in namespace {namespace}" if namespace else f"{kind} in all namespaces"
