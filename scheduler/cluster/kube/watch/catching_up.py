"""Waits until a watch has delivered everything that there is now.

Versions are compared with those of a list of metadata, which costs a fraction of a whole one. If there are many
objects, another watch that begins at the version of the first shows which changes are missing: an API server sends a
bookmark, whose version says how far the watch is, about a second after a short watch has begun.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import Final

import msgspec
import structlog

from scheduler.cluster.decoding import DECODE_ERRORS, decode
from scheduler.cluster.kube.transport.errors import ApiError, TransportError
from scheduler.cluster.kube.watch.informer import Informer, WatchEvent, watch_params
from scheduler.cluster.kube.watch.pages import GoneError, Headed, pages_of_heads, present_version
from scheduler.cluster.kube.watch.problems import Key

LAG: Final = 1.0
"""Seconds that a watch has to reach the versions that a list or another watch has shown."""
POLL_SECONDS: Final = 0.01
"""Seconds between two checks whether it has."""
SHORT: Final = 3
"""Requested seconds of a watch that shows which changes are missing. API servers send a bookmark two seconds before the
end of a watch; one of two seconds or less gets none."""
OVERDUE: Final = 1.0
"""Seconds after the requested end at which it is broken off."""
log = structlog.get_logger(__name__)


class _ReachedError(Exception):
    """A watch has shown everything that it is needed for."""


_events = msgspec.json.Decoder(WatchEvent[Headed])


async def catch_up(informer: Informer) -> bool:
    """Waits until the watch of an informer has delivered everything there is now. False where that is unknown, or takes
    longer than ``LAG``."""
    try:
        if informer.version and len(informer.versions) > informer.page:
            change = await _last_change(informer)
            if change is not None:
                return await _within_lag(lambda: _reached(informer.version, change))
        return await _catch_up_with_list(informer)
    except (GoneError, ApiError, TransportError, *DECODE_ERRORS) as error:
        log.info("not known whether a watch is up to date", source=str(informer.source), why=str(error))
        return False


async def _last_change(informer: Informer) -> str | None:
    """The version of the last change until now, or that of the informer if there is none after it. None if the API
    server does not show it within a short watch. Raises ApiError, TransportError, DECODE_ERRORS."""
    client, source, change = informer.client, informer.source, informer.version
    version = await present_version(client, source)
    if _reached(change, version):
        return change

    def receive(lines: list[bytes]) -> None:
        nonlocal change
        for line in filter(None, lines):
            event = decode(_events, line)
            seen = event.object.metadata.resource_version
            if event.type in ("ADDED", "MODIFIED", "DELETED"):
                change = seen
            if _reached(seen, version):
                raise _ReachedError

    try:
        await client.follow(source.path, watch_params(source, change, SHORT), receive, longest=SHORT + OVERDUE)
    except _ReachedError:
        return change
    except (ApiError, TransportError, *DECODE_ERRORS) as error:
        log.debug("a short watch failed", source=str(source), why=str(error))
    return None


async def _catch_up_with_list(informer: Informer) -> bool:
    """Waits until the watch of an informer has delivered what a list of metadata shows. Raises GoneError, ApiError,
    TransportError, DECODE_ERRORS."""
    source = informer.source
    there: dict[Key, str] = {}
    version = ""
    async with aclosing(pages_of_heads(informer.client, source, informer.page)) as pages:
        async for page in pages:
            version = page.metadata.resource_version
            if _reached(informer.version, version):
                return True
            for meta in (item.metadata for item in page.items or ()):
                if meta.name.startswith(source.name_prefix):
                    there[meta.namespace, meta.name] = meta.resource_version
    return await _within_lag(lambda: _reached(informer.version, version) or _has_all(informer.versions, there))


async def _within_lag(condition: Callable[[], bool]) -> bool:
    """Waits for a condition, and returns whether it is fulfilled within ``LAG``."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LAG):
            while not condition():
                await asyncio.sleep(POLL_SECONDS)
            return True
    return False


def _has_all(known: dict[Key, str], there: dict[Key, str]) -> bool:
    """Whether exactly these objects are known, in these versions or later ones."""
    return known.keys() == there.keys() and all(_reached(known[key], version) for key, version in there.items())


def _reached(ours: str, theirs: str) -> bool:
    """Whether resource version ``ours`` equals ``theirs`` or is later."""
    return ours == theirs != "" or (ours.isdecimal() and theirs.isdecimal() and int(ours) >= int(theirs))
