"""Work that grows with a request, off the event loop.

One thread does it: several would not be faster, since Python runs one at a time, and the loop would wait for each of
them in turn. What is small is done at once, for it takes less time than to hand it over; of the rest, the smallest is
next, so that no small review waits behind a large one.
"""

import asyncio
import gc
import heapq
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar

SMALL: Final = 16 * 1024
"""Bytes of a request that is worked on at once: a few milliseconds."""
MOST: Final = 32
"""Requests that may wait."""
T = TypeVar("T")


class BusyError(Exception):
    """Too many requests wait."""


class Offload:
    """For one event loop."""

    def __init__(self, *, small: int = SMALL, most: int = MOST) -> None:
        self._small = small
        self._most = most
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reviews")
        self._waiting: list[tuple[int, float, int, asyncio.Future[Any], Callable[[], Any]]] = []
        self._number = count()
        self._works = False

    async def run(self, size: int, work: Callable[[], T], came: float = 0.0) -> T:
        """What the work comes to; ``size``: bytes of the request; ``came``: when it came, so that of two requests of
        one size the first is finished before the second begins, and few are in memory decoded. Raises BusyError."""
        if size <= self._small:
            return work()
        if len(self._waiting) >= self._most:
            raise BusyError(f"{self._most} requests of more than {self._small} bytes wait already")
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (size, came, next(self._number), done, work))
        self._next()
        return await done

    def _next(self) -> None:
        while self._waiting and not self._works:
            *_, done, work = heapq.heappop(self._waiting)
            if done.cancelled():
                continue
            self._works = True
            task = asyncio.get_running_loop().run_in_executor(self._thread, partial(_without_garbage_collection, work))
            task.add_done_callback(partial(self._finish, done))

    def _finish(self, done: "asyncio.Future[Any]", task: "asyncio.Future[Any]") -> None:
        self._works = False
        if not done.cancelled():
            error = task.exception()
            if error is None:
                done.set_result(task.result())
            else:
                done.set_exception(error)
        self._next()


def _without_garbage_collection(work: Callable[[], T]) -> T:
    """Nothing is searched for cycles meanwhile: a request is a tree by the hundred thousand objects, and the event loop
    would wait for each search."""
    gc.disable()
    try:
        return work()
    finally:
        gc.enable()
