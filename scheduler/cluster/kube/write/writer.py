"""Carries out what sessions decide: bindings first, then evictions, then admissions and the writes of plugins, then
status, then Events.

Nothing here decides. A write that fails temporarily is retried; one that fails for good is reported to the cache, and
the next session decides again. ``placements`` and ``object_writers`` make the requests.
"""

import asyncio
import heapq
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, count
from typing import Final

import msgspec

from scheduler.api.decisions import Bind, Decisions
from scheduler.api.kinds import POD_GROUP
from scheduler.api.names import GPU_PREDICATE_TIME, PREDICATE_TIME
from scheduler.cluster.kube.write.lanes import URGENT, Urgency, Work
from scheduler.cluster.kube.write.object_writers import ObjectWriter, StatusWriter, WriteContext
from scheduler.cluster.kube.write.placements import Binding, Eviction, PlacementContext, not_prepared
from scheduler.cluster.kube.write.preparation_run import PreparationRun, Preparer

PREDICATE_TIMES: Final = frozenset({PREDICATE_TIME, GPU_PREDICATE_TIME})
"""Annotations of the Pods whose bindings have an order."""


BACKLOG = 10_000
"""Unfinished bindings and evictions above which no session is run."""


class BindingOrder:
    """Carries out the bindings of each node with a device plugin one after the other. Belongs to one event loop.

    The kubelet does not tell a device plugin which Pod it starts. The plugin takes the Pod with the smallest predicate
    time of those on the node that request as many devices. Two bindings in flight at once can reach the kubelet in
    either order, and the Pods would get each other's devices. A binding starts when the first attempt of the one before
    it is over: one that has to be repeated does not hold up the others.
    """

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


class Writer:
    """Belongs to one event loop. ``submit`` returns at once."""

    def __init__(self, context: WriteContext) -> None:
        self._lanes = context.lanes
        self._statuses = StatusWriter(context)
        self._objects = ObjectWriter(context)
        self._preparer = Preparer(context)
        self._order = BindingOrder(self._start_binding)
        self._context = PlacementContext(
            **msgspec.structs.asdict(context), preparer=self._preparer, statuses=self._statuses
        )

    def submit(self, decisions: Decisions) -> None:
        """Queues everything. Call it before the cache assumes the decisions: it reads the previous message of a Pod's
        condition from the task."""
        together: dict[int, list[Bind]] = {}
        for bind in decisions.binds:
            if bind.together:
                together.setdefault(bind.together, []).append(bind)
            else:
                self._bind(bind)
        for binds in together.values():
            prepared = partial(self._bind, began=time.perf_counter())
            self._preparer.begin(binds, prepared, partial(not_prepared, self._context))
        for eviction in decisions.evictions:
            self._lanes.submit(Urgency.EVICTION, ("evict", eviction.task.uid), Eviction(self._context, eviction))
        for write in decisions.writes:
            self._objects.submit(write)
        for ungate in decisions.ungates:
            self._statuses.ungate(ungate)
        bound = {bind.task.job for bind in decisions.binds}
        for group in decisions.pod_groups:
            if not group.uid:
                continue  # it does not exist yet
            self._statuses.group(group, awaited=f"{group.namespace}/{group.name}" not in bound)
        for update in decisions.pods:
            for pod in update.pods():
                self._statuses.pod(pod)
        for queue in decisions.queues:
            self._statuses.queue(queue)
        for event in chain(decisions.events, *(update.events() for update in decisions.pods)):
            if event.about.uid or event.about.kind != POD_GROUP.name:
                self._context.recorder.record(event)

    async def started(self) -> None:
        """Waits until the first writes have been sent, as far as they wait for nothing else."""
        await self._lanes.started()

    def _bind(self, bind: Bind, runs: Sequence[PreparationRun] = (), began: float | None = None) -> None:
        """``began``: when its preparations began, by ``time.perf_counter``; None: it needs none."""
        self._statuses.drop_pod(bind.task)  # the reason why it waited is obsolete
        binding = Binding(self._context, bind, runs, None if began is None else time.perf_counter() - began)
        if PREDICATE_TIMES.isdisjoint(bind.annotations):
            self._start_binding(bind, binding)
        else:
            self._order.add(bind, binding)

    def _start_binding(self, bind: Bind, work: Work) -> None:
        self._lanes.submit(Urgency.BINDING, ("bind", bind.task.uid), work)

    @property
    def overloaded(self) -> bool:
        """Whether the backlog is too long for another session to help."""
        lanes = self._lanes
        return self._order.size + lanes.backlog(Urgency.BINDING) + lanes.backlog(Urgency.EVICTION) > BACKLOG

    async def close(self) -> None:
        """Gives up bindings that still wait for other objects."""
        await self._preparer.close()

    async def flush(self, timeout: float) -> bool:
        """Waits for bindings, evictions and statuses; returns whether they finished within ``timeout`` seconds."""
        return await self._lanes.drain((*URGENT, Urgency.STATUS), timeout)
