"""What ``explain`` and ``simulate`` share: garbage collection of a cluster in memory, and the usage of its nodes."""

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from scheduler.cli.input_warnings import WarningLog

if TYPE_CHECKING:
    from scheduler.api.usage import NodeUsage
    from scheduler.framework.usage_source import UsageSource

_SESSIONS: Final = 20
"""Sessions between two garbage collections."""


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Switches the garbage collector off: with millions of objects, most of which live until the process ends, the
    search for cycles takes as long as the work itself."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # the objects live until the process ends: the last collection does not search them either
        gc.enable()


def collect_garbage(sessions: int) -> None:
    """Frees the cycles that sessions leave behind, every 20 sessions. ``sessions``: how many have run."""
    if sessions % _SESSIONS == 0:
        gc.collect()


def query_usage(settings: "UsageSource | None", nodes: Sequence[str], log: WarningLog) -> "Mapping[str, NodeUsage]":
    """Reads the usage of nodes once from the monitoring system that the configuration names.

    Returns the usage by node, with moments in seconds from now (0 or less). Without an answer it prints a warning and
    returns an empty mapping.
    """
    if settings is None or not nodes:
        return {}
    import asyncio

    from msgspec.structs import replace

    from scheduler.cluster.usage import SourceError, measure_once

    try:
        usages = asyncio.run(measure_once(settings, nodes))
    except SourceError as error:
        log.warn(f"the load of nodes is not known: {error}")
        return {}
    now = time.time()
    return {name: replace(usage, moment=min(usage.moment - now, 0.0)) for name, usage in usages.items()}
