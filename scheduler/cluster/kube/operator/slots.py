"""So many writes at a time, and of those that wait the urgent ones first."""

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count


class Slots:
    """For one event loop."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._waiting: list[tuple[bool, int, asyncio.Future[None]]] = []
        self._numbers = count()

    @asynccontextmanager
    async def taken(self, relaxed: bool) -> AsyncIterator[None]:
        """Hold a slot. What is ``relaxed`` gets one when nothing else waits."""
        if self._free and not self._waiting:
            self._free -= 1
        else:
            await self._wait(relaxed)
        try:
            yield
        finally:
            self._release()

    async def _wait(self, relaxed: bool) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (relaxed, next(self._numbers), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it came in the same moment: hand it on
                self._release()
            raise

    def _release(self) -> None:
        while self._waiting:
            turn = heapq.heappop(self._waiting)[2]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
