"""The web page: its files, and the events that keep it up to date.

``pages/`` is the page; ``pages`` is what it shows, as JSON, or with ``watch=true`` as server-sent events. API servers
take a request with this parameter for a watch, and do not end it after a minute. The files say nothing about the
cluster, so they are served to clients that are not known yet.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec
import structlog
from aiohttp import web

from scheduler.api.kinds import NODE, POD_GROUP, QUEUE
from scheduler.api.names import VISIBILITY_API_VERSION
from scheduler.cluster.kube.scheduler.visibility.limits import Allowance
from scheduler.cluster.kube.scheduler.visibility.overviews import Overviews
from scheduler.cluster.kube.scheduler.visibility.user import (
    RefusedError,
    ResourceAccess,
    User,
    answer_or_refusal,
    authorize,
    is_allowed,
    name_in,
    status_response,
)
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.errors import RequestError
from scheduler.observability.overview import Overview, OverviewView, Rights, changes, view
from scheduler.observability.role_metrics import VisibilityMetrics

PAGES: Final = "pages"
STREAMS: Final = 48
"""Maximum of pages that are open, less than the connections of the server."""
STREAMS_OF_USER: Final = 6
STREAMS_OF_NAMESPACE: Final = 12
"""Open pages about a namespace, and open pages of its ServiceAccounts."""
HEARTBEAT: Final = 15.0
"""Seconds without a change after which a comment is sent, so that both sides notice when the connection is gone."""
RECHECK: Final = 60.0
"""Seconds after which the rights of the viewer of an open page are checked again."""
FIRST: Final = 20.0
"""Seconds that the answer in JSON waits for an overview."""
_KEPT: Final = 10.0
"""Seconds for which rights are remembered."""
_KEPT_RIGHTS: Final = 256
_TYPES: Final = {"index.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}
_HEADERS: Final = {
    # With kubectl proxy, a script in this page could do all that the user may do.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
Known = Callable[[web.Request], Awaitable[User]]
"""Returns who sends a request. Raises RefusedError."""
Counted = Callable[[str], None]
"""Counts a request about a namespace. Raises RefusedError if there were too many."""
log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _OpenPage:
    """A page that a user has opened, about a namespace or the whole cluster ("")."""

    request: web.Request
    known: Known
    namespace: str
    rights: Rights


class WebPage:
    """Belongs to one event loop."""

    def __init__(
        self,
        client: ApiClient,
        overviews: Overviews,
        metrics: VisibilityMetrics,
        *,
        streams: int = STREAMS,
        recheck: float = RECHECK,
        heartbeat: float = HEARTBEAT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``streams``: the maximum of pages that are open."""
        self._client = client
        self._overviews = overviews
        self._metrics = metrics
        self._most = streams
        self._recheck = recheck
        self._heartbeat = heartbeat
        self._clock = clock
        self._open_pages = 0
        self._streams = Allowance("pages {} are open", STREAMS_OF_USER, STREAMS_OF_NAMESPACE, 30.0)
        self._rights: dict[bytes, tuple[float, Rights]] = {}
        """User and scope -> since when these are the user's rights."""
        self._version = 0
        self._messages: dict[tuple[str, Rights, OverviewView | None], asyncio.Future[tuple[OverviewView, bytes]]] = {}
        """Scope, rights, and what a page shows -> what the page is sent of this version of the overview."""

    def add_routes(self, app: web.Application, prefix: str, known: Known, counted: Counted) -> None:
        """``prefix``: the path of the API group."""

        async def from_root(request: web.Request) -> web.Response:
            raise web.HTTPFound(f"{prefix}/{PAGES}/")

        async def data(request: web.Request) -> web.StreamResponse:
            response = await answer_or_refusal(self._data(request, known, counted), "a page")
            self._metrics.requests.labels(PAGES, str(response.status)).inc()
            return response

        app.router.add_get("/", from_root)
        for scope in (f"{prefix}/{PAGES}", f"{prefix}/namespaces/{{namespace}}/{PAGES}"):
            app.router.add_get(scope, data)
            app.router.add_get(f"{scope}/{{file:[a-z.]*}}", _file)

    # --- data ---------------------------------------------------------------------------------------------------------
    async def _data(self, request: web.Request, known: Known, counted: Counted) -> web.StreamResponse:
        namespace = name_in(request, "namespace") if "namespace" in request.match_info else ""
        watches = request.query.get("watch", "") in ("true", "1")
        user = await known(request)
        if self._open_pages >= self._most:
            raise RefusedError(503, f"{self._open_pages} pages are open, at most {self._most}", 30.0)
        with self._streams.of(user), self._counted_as_open():
            rights = await self._rights_of(user, namespace, "watch" if watches else "list")
            counted(namespace)
            with self._streams.about(namespace):
                return await self._show(_OpenPage(request, known, namespace, rights), watches=watches)

    @contextmanager
    def _counted_as_open(self) -> Iterator[None]:
        self._open_pages += 1
        self._metrics.streams.set(self._open_pages)
        try:
            yield
        finally:
            self._open_pages -= 1
            self._metrics.streams.set(self._open_pages)

    async def _show(self, page: "_OpenPage", *, watches: bool) -> web.StreamResponse:
        """The page as JSON, or as a stream of its changes if ``watches``."""
        async with self._overviews.viewing():
            if watches:
                return await self._stream(page)
            _, overview = await self._overviews.newer(0, FIRST)
            if overview is None:
                raise RefusedError(503, "no session has ended yet", 5.0)
            document = {"apiVersion": VISIBILITY_API_VERSION, "kind": "Page", "namespace": page.namespace}
            body = msgspec.json.encode({**document, **changes(None, view(overview, page.namespace, page.rights))})
            return web.Response(body=body, content_type="application/json", headers=_HEADERS)

    async def _stream(self, page: "_OpenPage") -> web.StreamResponse:
        """Sends what has changed, until the client leaves or may no longer see it. A client that does not read loses
        its connection after a while, as with every answer."""
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
        await response.prepare(page.request)
        with suppress(ConnectionError):  # the client has left
            await self._send(response, page)
        return response

    async def _send(self, response: web.StreamResponse, page: "_OpenPage") -> None:
        sent: OverviewView | None = None
        version, checked = 0, self._clock()
        await response.write(b": open\n\n")
        while True:
            version, overview = await self._overviews.newer(version, self._heartbeat)
            if self._clock() - checked >= self._recheck:
                try:
                    user = await page.known(page.request)
                    page.rights = await self._rights_of(user, page.namespace, "watch")
                except RefusedError as refusal:
                    await response.write(_event("refused", {"code": refusal.status, "message": str(refusal)}))
                    return
                except (RequestError, msgspec.MsgspecError):
                    return  # the page connects again
                checked = self._clock()
            if overview is None:
                await response.write(b": still here\n\n")
                continue
            sent, message = await self._message(version, overview, page.namespace, page.rights, sent)
            await response.write(message)

    async def _message(
        self, version: int, overview: Overview, namespace: str, rights: Rights, sent: OverviewView | None
    ) -> tuple[OverviewView, bytes]:
        """What a page shows now, and the event that says so to a page that shows ``sent``. It is computed once for all
        pages that show the same."""
        if version != self._version:
            self._version, self._messages = version, {}
        key = namespace, rights, sent
        message = self._messages.get(key)
        if message is None:
            work = asyncio.to_thread(_message, overview, namespace, rights, sent)
            message = self._messages[key] = asyncio.ensure_future(work)
        return await asyncio.shield(message)

    # --- rights -------------------------------------------------------------------------------------------------------
    async def _rights_of(self, user: User, namespace: str, verb: str) -> Rights:
        """What a user may see. Raises RefusedError unless the user may see the page at all."""
        key = msgspec.json.encode((user.name, user.uid, user.groups, user.extra, namespace, verb))
        at, rights = self._rights.get(key, (float("-inf"), Rights()))
        if self._clock() - at < _KEPT:
            return rights
        await authorize(self._client, user, ResourceAccess(verb, namespace, PAGES))
        queues, pod_groups, nodes = [
            await is_allowed(self._client, user, ResourceAccess("list", "", kind.plural, api_version=kind.api_version))
            for kind in (QUEUE, POD_GROUP, NODE)
        ]
        rights = Rights(queues, pod_groups, nodes)
        self._rights.pop(key, None)
        self._rights[key] = self._clock(), rights
        if len(self._rights) > _KEPT_RIGHTS:
            del self._rights[next(iter(self._rights))]
        return rights


def _message(
    overview: Overview, namespace: str, rights: Rights, sent: OverviewView | None
) -> tuple[OverviewView, bytes]:
    seen = view(overview, namespace, rights)
    return seen, _event("changes", changes(sent, seen))


def _event(name: str, data: Mapping[str, Any]) -> bytes:
    """A server-sent event. JSON has no line breaks outside of texts, and escapes them there."""
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"


# --- files ------------------------------------------------------------------------------------------------------------
async def _file(request: web.Request) -> web.Response:
    name = request.match_info["file"] or "index.html"
    if name not in _TYPES:
        return status_response(404, f"the page has no file {name!r}")
    return web.Response(body=_content(name), content_type=_TYPES[name], charset="utf-8", headers=_HEADERS)


@cache
def _content(name: str) -> bytes:
    return (files(__package__) / "files" / name).read_bytes()
