"""An event loop whose clock skips the time in which nothing happens, for tests of periods and deadlines.

Sockets of the test's own process are real: what one end sends, the other end receives at once. So when no socket is
ready, the test waits only for the next timer, and the clock jumps to it. If code under test measures time with another
clock than the loop's, the test has to replace this clock.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, Final, TypeVar, TypeVarTuple

import pytest

from scheduler.cluster.kube.process import election, lease
from scheduler.cluster.kube.transport import fence

QUIET: Final = 0.001
"""The real seconds without an event before the clock jumps; longer before a long jump, which may end the test."""
SHARE: Final = 1 / 500
"""The real seconds to wait in addition, per second of the jump."""
MAX_WAIT: Final = 0.1
"""The largest number of real seconds to wait."""
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _Selector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.skipped = 0.0
        self.threads = 0
        """The calls in other threads, which take real time."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0 or self.threads:
            return super().select(timeout)
        found = super().select(min(timeout, QUIET + timeout * SHARE, MAX_WAIT))
        if not found:
            self.skipped += timeout
        return found


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose ``time`` runs ahead of real time by the skipped time."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    @property
    def skipped(self) -> float:
        """The seconds by which the clock has jumped so far; unlike ``time``, they do not depend on the load of the
        machine."""
        return self._virtual.skipped

    def time(self) -> float:
        return super().time() + self.skipped

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._virtual.threads += 1
        future.add_done_callback(self._thread_ended)
        return future

    def _thread_ended(self, future: asyncio.Future[T]) -> None:
        self._virtual.threads -= 1


def run(scenario: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine like ``asyncio.run``, with virtual time; leases and fences measure virtual time too."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner, pytest.MonkeyPatch.context() as patch:
        clock = runner.get_loop().time
        patch.setattr(election, "clock", clock)
        patch.setattr(lease, "clock", clock)
        patch.setattr(fence, "clock", clock)
        return runner.run(scenario)
