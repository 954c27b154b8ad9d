"""Waits that end when the process is to stop."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

PATIENCE = 10.0
"""Seconds of waiting after which progress is reported."""
T = TypeVar("T")


async def unless(stop: asyncio.Event, awaitable: Awaitable[T], timeout: float | None = None) -> T | None:
    """The result, or None if ``stop`` is set before. Raises TimeoutError."""
    work = asyncio.ensure_future(awaitable)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((work, stopping), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        if stopping.done():
            return None
        raise TimeoutError
    finally:
        for future in (work, stopping):
            future.cancel()
        await asyncio.gather(work, stopping, return_exceptions=True)


async def patiently(stop: asyncio.Event, wait: Callable[[], Awaitable[T]], progress: Callable[[], None]) -> T | None:
    """The result of ``wait``, or None if ``stop`` is set before. ``progress`` is called every ``PATIENCE`` seconds, and
    the wait begins again after that."""
    while True:
        with contextlib.suppress(TimeoutError):
            return await unless(stop, wait(), timeout=PATIENCE)
        progress()
