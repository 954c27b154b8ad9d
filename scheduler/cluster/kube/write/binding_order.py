"""The order of bindings on nodes with device plugins.

The kubelet does not tell a device plugin which Pod it starts. The plugin takes the Pod with the smallest predicate time
of those on the node that request as many devices. Two bindings in flight at once can reach the kubelet in either order,
and the Pods would get each other's devices. So bindings with predicate times go one after the other on each node.
"""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from typing import Final

from scheduler.api.decisions import Bind
from scheduler.api.names import GPU_PREDICATE_TIME, PREDICATE_TIME
from scheduler.cluster.kube.write.lanes import Work

PREDICATE_TIMES: Final = frozenset({PREDICATE_TIME, GPU_PREDICATE_TIME})
"""Annotations of the Pods whose bindings have an order."""


class BindingOrder:
    """Belongs to one event loop. A binding starts when the first attempt of the one before it is over: one that has to
    be repeated does not hold up the others."""

    def __init__(self, submit: Callable[[Bind, Work], None]) -> None:
        """``submit`` is called with each binding when it is its turn."""
        self._submit = submit
        self._waiting: dict[str, list[tuple[int, int, Bind, Work]]] = {}
        """By node the bindings that wait for their turn, as a heap. A node without a binding in flight has no entry."""
        self._numbers = count()
        self.size = 0
        """The number of bindings that wait."""

    def add(self, bind: Bind, work: Work) -> None:
        """Submits a binding with a predicate time, at once if no other one of its node is in flight."""
        time = next(bind.annotations[key] for key in PREDICATE_TIMES if key in bind.annotations)
        if (waiting := self._waiting.get(bind.node)) is None:
            self._waiting[bind.node] = []
            self._start(bind, work)
        else:
            number = int(time) if time.isascii() and time.isdecimal() else 0
            heapq.heappush(waiting, (number, next(self._numbers), bind, work))
            self.size += 1

    def _start(self, bind: Bind, work: Work) -> None:
        holds_up_others = True

        async def attempt() -> float | None:
            nonlocal holds_up_others
            try:
                return await work()
            except asyncio.CancelledError:  # the process ends: nothing more is started
                holds_up_others = False
                raise
            finally:
                if holds_up_others:
                    holds_up_others = False
                    self._next(bind.node)

        self._submit(bind, attempt)

    def _next(self, node: str) -> None:
        waiting = self._waiting[node]
        if not waiting:
            del self._waiting[node]
            return
        _, _, bind, work = heapq.heappop(waiting)
        self.size -= 1
        self._start(bind, work)
