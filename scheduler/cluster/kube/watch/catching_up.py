"""Waits until a watch has delivered everything that there is now.

Versions are compared with those of a list of metadata, which costs a fraction of a whole one.
"""

import asyncio
from contextlib import aclosing
from typing import Final

import structlog

from scheduler.cluster.decoding import DECODE_ERRORS
from scheduler.cluster.kube.transport.errors import ApiError, TransportError
from scheduler.cluster.kube.watch.informer import Informer
from scheduler.cluster.kube.watch.pages import GoneError, pages_of_heads
from scheduler.cluster.kube.watch.problems import Key

LAG: Final = 1.0
"""Seconds that a watch has to reach the versions that a list has shown."""
POLL_SECONDS: Final = 0.01
"""Seconds between two checks whether it has."""
log = structlog.get_logger(__name__)


async def catch_up(informer: Informer) -> bool:
    """Waits until the watch of an informer has delivered everything there is now. False where that is unknown, or takes
    longer than ``LAG``."""
    source = informer.source
    there: dict[Key, str] = {}
    version = ""
    try:
        async with aclosing(pages_of_heads(informer.client, source, informer.page)) as pages:
            async for page in pages:
                version = page.metadata.resource_version
                if _reached(informer.version, version):
                    return True
                for meta in (item.metadata for item in page.items or ()):
                    if meta.name.startswith(source.name_prefix):
                        there[meta.namespace, meta.name] = meta.resource_version
    except (GoneError, ApiError, TransportError, *DECODE_ERRORS) as error:
        log.info("not known whether a watch is up to date", source=str(source), why=str(error))
        return False
    clock = asyncio.get_running_loop().time
    end = clock() + LAG
    while not (_reached(informer.version, version) or _has_all(informer.versions, there)):
        if clock() >= end:
            return False
        await asyncio.sleep(POLL_SECONDS)
    return True


def _has_all(known: dict[Key, str], there: dict[Key, str]) -> bool:
    """Whether exactly these objects are known, in these versions or later ones."""
    return known.keys() == there.keys() and all(_reached(known[key], version) for key, version in there.items())


def _reached(ours: str, theirs: str) -> bool:
    """Whether resource version ``ours`` equals ``theirs`` or is later."""
    return ours == theirs != "" or (ours.isdecimal() and theirs.isdecimal() and int(ours) >= int(theirs))
