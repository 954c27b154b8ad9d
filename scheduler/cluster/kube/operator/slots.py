"""Limits the writes in flight; urgent ones go before deferrable ones."""

import asyncio
import heapq
from itertools import count


class WriteSlots:
    """Belongs to one event loop."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._waiting: list[tuple[bool, int, asyncio.Future[None]]] = []
        self._numbers = count()

    async def acquire(self, deferrable: bool) -> None:
        """Takes a slot, to be given back by ``release``. A ``deferrable`` write gets one when nothing else waits."""
        if self._free and not self._waiting:
            self._free -= 1
        else:
            await self._wait(deferrable)

    def release(self) -> None:
        """Gives a slot back: to the most urgent write that waits, if any."""
        while self._waiting:
            turn = heapq.heappop(self._waiting)[2]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    async def _wait(self, deferrable: bool) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (deferrable, next(self._numbers), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it arrived at the same moment: pass it on
                self.release()
            raise
