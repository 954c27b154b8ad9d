"""Turns of questions that are answered one at a time: namespaces are served round-robin.

A namespace with many questions cannot keep others from asking: if all places are taken, a question of a namespace with
fewer of them takes the place of the last one of the namespace with the most.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from scheduler.api.fair_queue import FairQueue


class BusyError(Exception):
    """Too many questions wait, or the answer takes too long."""

    def __init__(self, message: str, retry_after: float) -> None:
        """``retry_after``: seconds."""
        super().__init__(message)
        self.retry_after = retry_after


class Turns:
    """Belongs to one event loop."""

    def __init__(self, places: int, retry_after: float) -> None:
        """``places``: questions that wait or are being answered; ``retry_after``: seconds, for the others."""
        self._places = places
        self._retry_after = retry_after
        self._taken = False
        """Whether a question is being answered."""
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()

    @asynccontextmanager
    async def turn(self, namespace: str) -> AsyncIterator[None]:
        """Waits for the turn of a question about a namespace, and has it for the duration of the block. Raises
        BusyError if there is no place for the question, or if it loses its place to another namespace."""
        if self._taken:
            await self._wait(namespace)
        self._taken = True
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, namespace: str) -> None:
        if 1 + len(self._waiting) >= self._places:
            self._make_room(namespace)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.add(namespace, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(KeyError):  # it has been taken out meanwhile
                    self._waiting.remove(namespace, turn)
            elif turn.exception() is None:  # it came at the same moment
                self._pass_on()
            raise

    def _make_room(self, namespace: str) -> None:
        """Refuses a waiting question of the namespace with the most, or raises BusyError if this one has as many."""
        busy = BusyError(f"{1 + len(self._waiting)} questions wait for an answer", self._retry_after)
        if not self._waiting:
            raise busy
        longest = self._waiting.longest()
        if self._waiting.count(longest) <= self._waiting.count(namespace) + 1:
            raise busy
        refused = self._waiting.take_last(longest)
        if not refused.cancelled():
            refused.set_exception(busy)

    def _pass_on(self) -> None:
        """Gives the turn to the next question."""
        while self._waiting:
            turn = self._waiting.take()
            if not turn.cancelled():
                turn.set_result(None)
                return
        self._taken = False
