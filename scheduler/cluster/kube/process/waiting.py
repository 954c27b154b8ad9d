"""Waits that end when the process is to stop, and the end of tasks that are no longer needed."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

PROGRESS_SECONDS = 10.0
"""Seconds between two reports of progress during a wait."""
T = TypeVar("T")


async def unless_stopped(stop: asyncio.Event, awaitable: Awaitable[T], timeout: float | None = None) -> T | None:
    """Returns the result of ``awaitable``, or None if ``stop`` is set before. Raises TimeoutError."""
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
        await cancel(work, stopping)


async def wait_with_progress(
    stop: asyncio.Event,
    wait: Callable[[], Awaitable[T]],
    progress: Callable[[], None],
    seconds: float = PROGRESS_SECONDS,
) -> T | None:
    """Returns the result of ``wait``, or None if ``stop`` is set before. Calls ``progress`` every ``seconds``
    seconds, and starts the wait again after that."""
    while True:
        with contextlib.suppress(TimeoutError):
            return await unless_stopped(stop, wait(), timeout=seconds)
        progress()


async def cancel(*tasks: "asyncio.Future[Any]") -> None:
    """Cancels tasks and waits until they have ended. Drops their results and exceptions."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
