"""Lists and watches one kind of object and updates the cache.

A list returns the state at one resource version, and the watch continues from there. A broken watch resumes where it
ended; only a version too old for the server costs another list. Objects are decoded one by one, so that one that cannot
be decoded is ignored (its last good version stays in force) and all others are processed.

A connection can be open and yet deliver nothing, when a load balancer or a firewall has dropped it. Bookmarks do not
reveal that in time: API servers send them about once a minute, and guarantee no interval. They do guarantee to end a
watch after ``timeoutSeconds``. So each watch is requested for less than a minute, and one that has not ended shortly
after is dead. Resuming is cheap: one request per watch and ``WATCH_SECONDS`` on an open connection and no list, because
a bookmark arrives two seconds before the end with a version that the server still has. TCP keepalive would cost
nothing, but it only shows that the next hop is alive.
"""

import asyncio
import random
import sys
import time
from contextlib import aclosing
from typing import Final, Generic, Protocol, TypeVar

import msgspec
import structlog

from scheduler.api.kinds import Kind
from scheduler.api.objects import KubeObject
from scheduler.api.reasons import field_and_problem
from scheduler.api.times import parse_timestamp
from scheduler.cluster.decoding import DECODE_ERRORS, decode
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.errors import REQUEST_ERRORS, ApiError, TransportError, status_of
from scheduler.cluster.kube.transport.ratelimit import Backoff
from scheduler.cluster.kube.transport.sources import WatchSource
from scheduler.cluster.kube.watch.list_preconditions import may_list
from scheduler.cluster.kube.watch.lists_ahead import ListsAhead
from scheduler.cluster.kube.watch.pages import PAGE, GoneError, Listed, pages_of_objects
from scheduler.cluster.kube.watch.problems import Key, ProblemReports, Report, identity_of
from scheduler.observability.role_metrics import RoleMetrics

WATCH_SECONDS = (45, 50)
"""The requested duration of a watch, at least and at most."""
_SHARE = random.random()
"""Where this process is between the two: watches of different clients do not end together, but the watches of one
process do if they began together. It wakes up once for all of them, which takes a fraction of the processor time."""
OVERDUE = 10.0
"""Seconds after the requested end at which a watch is considered dead, which is therefore noticed within 60 s."""
TAKEN_AT_ONCE: Final = 1000
"""Objects of a list that are stored before other tasks of the event loop run."""
RIGHTS_SECONDS = 60.0
"""Seconds between two checks of the right to list optional objects."""
log = structlog.get_logger(__name__)
T = TypeVar("T")


class Sink(Protocol):
    """Receives the objects."""

    def upsert(self, kind: Kind, obj: KubeObject) -> None: ...

    def delete(self, kind: Kind, namespace: str, name: str) -> None: ...


class OriginalStore(Protocol):
    """Keeps objects as they were written."""

    def wants_original(self, kind: Kind) -> bool: ...

    def keep_original(self, kind: Kind, namespace: str, name: str, original: object) -> None: ...


class WatchEvent(msgspec.Struct, Generic[T]):
    """An event of a watch."""

    type: str
    object: T


class _Status(msgspec.Struct):
    code: int = 0
    message: str = ""


class Informer:
    """One source. ``run`` until cancelled; ``synced`` is set once the first list is in the cache."""

    def __init__(
        self,
        client: ApiClient,
        source: WatchSource,
        sink: Sink,
        report: Report,
        metrics: RoleMetrics,
        *,
        page: int = PAGE,
        backoff: Backoff | None = None,
        originals: OriginalStore | None = None,
        ahead: ListsAhead | None = None,
        struct: type[KubeObject] | None = None,
    ) -> None:
        """``report`` is called with objects that could not be decoded. ``ahead``: may have begun the first list.
        ``struct``: the part of the objects to decode; None: all that is known of the kind."""
        struct = struct or source.kind.struct
        if struct is None:
            raise ValueError(f"{source.kind.name} has no struct to decode into")
        self.source = source
        self.synced = asyncio.Event()
        self.client = client
        self._sink = sink
        self._metrics = metrics
        self._delay = metrics.watch_delay.labels(source.kind.name)
        self._synced_gauge = metrics.synced.labels(str(source))
        self.listed = 0
        """Objects that the last list has delivered so far."""
        self.expected = 0
        """Objects that it will have delivered at its end, as far as the API server says it."""
        self.page = page
        self._backoff = backoff or Backoff(0.5, 30.0)
        self._originals = originals
        self._ahead = ahead
        self._decoder = msgspec.json.Decoder(struct)
        self._events = msgspec.json.Decoder(WatchEvent[struct])  # type: ignore[valid-type]
        self._raw_events = msgspec.json.Decoder(WatchEvent[msgspec.Raw])
        self.version = ""
        """The resource version of the latest list or change; "": a list comes next."""
        self.versions: dict[Key, str] = {}
        """The latest version of every object, also of objects that could not be decoded."""
        self._problems = ProblemReports(source.kind, report)
        self.problem = ""
        """Why the last attempt failed, or ""; logged while ``synced`` is awaited."""

    async def run(self) -> None:
        """Lists and watches until it is cancelled."""
        while True:
            try:
                if not self.version:
                    if self.source.optional:
                        await self._until_allowed()
                    await self._list()
                    self._complete()
                await self._watch()
                self._succeeded()
            except GoneError as gone:
                log.info("listing again", source=str(self.source), why=str(gone))
                self._metrics.watch_restarts.labels(self.source.kind.name, "gone").inc()
                self.version = ""
                await asyncio.sleep(self._backoff.next())
            except REQUEST_ERRORS as error:
                await self._failed(error)
            except Exception as error:  # without its watch, the role would decide on stale data for ever
                log.exception("watch failed", source=str(self.source))
                await self._failed(error)

    async def _until_allowed(self) -> None:
        """Waits for the right to list the objects. Until it is granted, there are none."""
        while not await may_list(self.client, self.source):
            if not self.problem:
                self.problem = "no right to list them"
                log.info("not watched", source=str(self.source), why=self.problem)
            self._complete()
            await asyncio.sleep(RIGHTS_SECONDS)
        self.problem = ""

    def forget_version(self) -> None:
        """Makes the next ``run`` begin with a list."""
        self.version = ""
        self.synced.clear()
        self._synced_gauge.set(0)

    def _complete(self) -> None:
        """Records that the first list is in the cache, or that there is nothing to list."""
        self.synced.set()
        self._synced_gauge.set(1)

    def _succeeded(self) -> None:
        self._backoff.reset()
        self.problem = ""

    async def _failed(self, error: Exception) -> None:
        text, status = str(error), status_of(error)
        if status == 404:
            kind = self.source.kind
            text = f"the API server does not serve {kind.api_version} {kind.plural}: is the CRD installed?"
            if kind.optional:  # there are none, until the definition is installed
                self._complete()
        elif isinstance(error, ApiError) and status == 403:
            text = f"not allowed: {error.message}"
        if self.source.optional and status in (403, 404):
            self._complete()  # the right was withdrawn, or the namespace does not exist
        self._metrics.watch_restarts.labels(self.source.kind.name, "error").inc()
        seconds = self._backoff.next(error.retry_after if isinstance(error, ApiError) else None)
        if text != self.problem:
            log.warning("cannot watch", source=str(self.source), error=text, synced=self.synced.is_set())
        self.problem = text
        await asyncio.sleep(seconds)

    # --- list ---------------------------------------------------------------------------------------------------------
    async def _list(self) -> None:
        """Lists one consistent state, page by page, into the cache. What the list does not have is deleted at its
        end."""
        try:
            deleted = await self._take_pages(self.page)
        except GoneError:
            deleted = await self._take_pages(0)
        for key in deleted:
            self._delete(key)
        log.debug("listed", source=str(self.source), objects=self.listed, version=self.version)

    async def _take_pages(self, size: int) -> set[Key]:
        """Stores the objects of a list and returns the keys of known objects that it does not have. Raises
        GoneError."""
        missing = set(self.versions)
        version, listed = "", 0
        self._count(0, 0)
        keep_raw = self._keeps_originals
        pages = self._ahead.take(self.source) if self._ahead is not None and size and not keep_raw else None
        if pages is None:
            pages = pages_of_objects(self.client, self.source, size, self._decoder, keep_raw=keep_raw)
        async with aclosing(pages):
            async for page in pages:
                version = page.metadata.resource_version
                items = page.items or []
                listed += len(items)
                await self._take_page(items, missing)
                self._count(listed, page.metadata.remaining_item_count)
        self.version = version
        return missing

    async def _take_page(self, items: list[Listed[KubeObject]], missing: set[Key]) -> None:
        """Stores the objects of a page and removes their keys from ``missing``. Empties ``items``: an object takes
        several times the memory of what the cache keeps of it."""
        items.reverse()
        while items:
            next_ones = items[: -TAKEN_AT_ONCE - 1 : -1]
            del items[-TAKEN_AT_ONCE:]
            missing.difference_update(map(self._take, next_ones))
            await asyncio.sleep(0)

    def _take(self, listed: Listed[KubeObject]) -> Key:
        """Stores an object of a list and returns its key."""
        obj = listed.object
        if obj is None:
            assert listed.raw is not None and listed.error is not None
            return self._set_aside(listed.raw, listed.error)
        key = _key_of(obj)
        self._upsert(key, obj)
        if listed.raw is not None:
            self._keep_original(key, listed.raw)
        return key

    def _count(self, listed: int, remaining: int) -> None:
        """Publishes how far the list is."""
        self.listed, self.expected = listed, listed + remaining
        self._metrics.listed_objects.labels(str(self.source)).set(listed)
        self._metrics.expected_objects.labels(str(self.source)).set(listed + remaining)

    # --- watch --------------------------------------------------------------------------------------------------------
    async def _watch(self) -> None:
        """Follows the changes until the server ends the stream. Raises GoneError."""
        shortest, longest = WATCH_SECONDS
        seconds = shortest + int(_SHARE * (longest - shortest + 1))
        params = watch_params(self.source, self.version, seconds)
        started = asyncio.get_running_loop().time()
        received = False

        def receive(lines: list[bytes]) -> None:
            nonlocal received
            if not received:
                received = True
                self._succeeded()
            for line in lines:
                if line:
                    self._event(line)

        try:
            await self.client.follow(self.source.path, params, receive, longest=seconds + OVERDUE)
        except ApiError as error:
            if error.status == 410:
                raise GoneError(error.message) from None
            raise
        if not received and asyncio.get_running_loop().time() - started < 1:
            raise TransportError("the watch ended as soon as it began", sent=True)

    def _event(self, line: bytes) -> None:
        try:
            event = decode(self._events, line)
        except DECODE_ERRORS:
            self._exceptional_event(line)
            return
        obj: KubeObject = event.object
        self.version = obj.metadata.resource_version or self.version
        key = _key_of(obj)
        if event.type in ("ADDED", "MODIFIED"):
            if event.type == "ADDED":
                self._observe_delay(obj)
            self._upsert(key, obj)
            if self._keeps_originals:
                self._keep_original(key, decode(self._raw_events, line).object)
        elif event.type == "DELETED":
            self._delete(key)
        elif event.type == "ERROR":
            self._exceptional_event(line)

    def _observe_delay(self, obj: KubeObject) -> None:
        created = parse_timestamp(obj.metadata.creation_timestamp)
        if created is not None:
            self._delay.observe(max(time.time() - created, 0.0))

    def _exceptional_event(self, line: bytes) -> None:
        """Handles an ERROR, or an object that cannot be decoded. Raises GoneError, ApiError, DECODE_ERRORS (not
        JSON)."""
        event = decode(self._raw_events, line)
        if event.type == "ERROR":
            status = msgspec.json.decode(event.object, type=_Status)
            if status.code == 410:
                raise GoneError(status.message)
            raise ApiError(status.code, "", status.message)
        identity = identity_of(event.object)
        self.version = identity.version or self.version
        if event.type == "DELETED":
            self._delete(identity.key)
        elif event.type in ("ADDED", "MODIFIED"):
            try:
                decode(self._decoder, event.object)
            except DECODE_ERRORS as error:
                self._set_aside(event.object, error)

    # --- into the cache -----------------------------------------------------------------------------------------------
    def _upsert(self, key: Key, obj: KubeObject) -> None:
        prefix = self.source.name_prefix
        if prefix and not key[1].startswith(prefix):
            return
        if self._problems.reported:
            self._problems.forget(key)
        self.versions[key] = obj.metadata.resource_version
        try:
            self._sink.upsert(self.source.kind, obj)
        except Exception as error:  # whatever an object holds, it must not stop the others
            log.exception("object could not be processed", source=str(self.source), namespace=key[0], name=key[1])
            problem = f"could not be taken in ({type(error).__name__}: {error})"
            self._problems.report(key, obj.metadata.uid, "metadata", problem)

    @property
    def _keeps_originals(self) -> bool:
        """Whether objects of this kind are kept as they were written."""
        return self._originals is not None and self._originals.wants_original(self.source.kind)

    def _keep_original(self, key: Key, raw: msgspec.Raw) -> None:
        """Keeps the original of an object that was just processed."""
        if self._originals is not None and key[1].startswith(self.source.name_prefix):
            self._originals.keep_original(self.source.kind, *key, raw.copy())

    def _delete(self, key: Key) -> None:
        self._problems.forget(key)
        self.versions.pop(key, None)
        if not key[1].startswith(self.source.name_prefix):
            return
        try:
            self._sink.delete(self.source.kind, *key)
        except Exception:
            log.exception("object could not be removed", source=str(self.source), namespace=key[0], name=key[1])

    def _set_aside(self, raw: msgspec.Raw, error: Exception) -> Key:
        """Reports an object that cannot be decoded, and returns its key."""
        key, uid, version = identity_of(raw)
        if key[1].startswith(self.source.name_prefix):
            self.versions[key] = version
            field, problem = field_and_problem(error)
            self._problems.report(key, uid, field or "object", problem)
        return key


def watch_params(source: WatchSource, version: str, seconds: int) -> dict[str, str]:
    """The query parameters of a watch with bookmarks that begins at a version and ends after some seconds."""
    return {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": version,
        "timeoutSeconds": str(seconds),
        **source.selection,
    }


def _key_of(obj: KubeObject) -> Key:
    """The key of an object. It lives as long as the object: the keys of a namespace share its name."""
    return sys.intern(obj.metadata.namespace), obj.metadata.name
