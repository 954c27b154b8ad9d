"""The chips of all nodes in one session: what is free, what was taken, what terminating Pods will give back.

A promise on what terminating Pods hold (a pipelined task) is kept apart: it binds nothing, it only keeps others off the
same chips. Evicting a Pod does not free its chips; it makes them promisable.
"""

from collections.abc import Sequence

import numpy as np

from scheduler.api.job import Job
from scheduler.api.node import Rows
from scheduler.api.task import Task, TaskClass
from scheduler.framework.ledger import Ledger
from scheduler.framework.session import Session
from scheduler.framework.statement import AllocationError
from scheduler.plugins.ascend.demand import Demand, skipped
from scheduler.plugins.ascend.families import Family
from scheduler.plugins.ascend.inventory import NodeChips
from scheduler.plugins.ascend.rings import ALL, NONE, Masks, highest


class ChipLedger(Ledger[int]):
    """Columns of masks of shape (nodes,), and which task took which chips."""

    def __init__(
        self, session: Session, family: Family, demand: Demand, rows: Rows, chips: Sequence[NodeChips]
    ) -> None:
        """``chips[i]`` are those of the node at ``rows[i]``; nodes not listed have none."""
        super().__init__()
        self._names = session.nodes.names
        self._family = family
        self._demand = demand
        columns = np.array(
            [(c.free, c.releasing, c.network, c.bad, c.capacity) for c in chips], dtype=np.uint8
        ).reshape(len(rows), 5)
        number = len(session.nodes)
        self.free = _column(number, rows, columns[:, 0])
        self.capacity = _column(number, rows, columns[:, 4])
        self._releasing = _column(number, rows, columns[:, 1])
        self._network = _column(number, rows, columns[:, 2])
        self._bad = _column(number, rows, columns[:, 3], ALL)
        self._promised: Masks = np.zeros(number, dtype=np.uint8)
        self.network_matters = bool((self._network[self._bad == NONE] != NONE).any())
        """Some node that could be taken whole is closed to jobs of several Pods only."""
        self._freed = {row: chips_of.freed for row, chips_of in zip(rows.tolist(), chips, strict=True)}
        self._taken: dict[str, int] = {}
        self._promises: dict[str, int] = {}
        """uid -> mask: of tasks placed and pipelined in this session."""

    # --- columns ---
    def usable(self, rows: Rows, several: bool) -> Masks:
        """Masks of the chips that can be taken now, promised to nobody; ``several``: by a job of several NPU Pods."""
        free: Masks = self.free[rows] & ~self._promised[rows]
        return free & ~self._network[rows] if several else free

    def promisable(self, rows: Rows, several: bool) -> Masks:
        """Masks of the chips that will be free once terminating Pods are gone and that nobody was promised."""
        later: Masks = (self.free[rows] | self._releasing[rows]) & ~self._promised[rows]
        return later & ~self._network[rows] if several else later

    def taken(self, task: Task) -> int:
        """The mask of the chips chosen for a task in this session; 0 if none were."""
        return self._taken.get(task.uid, NONE)

    # --- placements ---
    def concerns(self, cls: TaskClass) -> bool:
        return self._demand.chips(cls) > 0

    def _take(self, job: Job, task: Task, row: int, *, pipelined: bool) -> None:
        several = self._demand.of_several(job) and not skipped(task.cls)
        masks = (self.promisable if pipelined else self.usable)(np.array([row]), several)
        mask = self._choose(task, row, int(masks[0]))
        if pipelined:
            self._promised[row] |= mask
            self._promises[task.uid] = mask
        else:
            self.free[row] &= ALL & ~mask
            self._taken[task.uid] = mask

    def _choose(self, task: Task, row: int, free: int) -> int:
        number = self._demand.chips(task.cls)
        if skipped(task.cls):
            # The device plugin will choose; as for nameless Pods, the high end is the guess that collides least.
            return highest(free, number)
        table = self._family.tables.get(number)
        mask = NONE if table is None else int(table.choice[free])
        if not mask:
            raise AllocationError(
                f"node {self._names[row]} has no place for {number} {self._family.resource} of Pod {task.key}"
            )
        return mask

    def _give_back(self, task: Task, row: int) -> None:
        if task.uid in self._promises:
            self._promised[row] &= ALL & ~self._promises.pop(task.uid)
        else:
            self.free[row] |= self._taken.pop(task.uid, NONE)

    def _evict(self, task: Task, row: int) -> int:
        held = self._taken.get(task.uid)
        if held is None:
            held = self._freed[row].get(task.uid, NONE) if row in self._freed else NONE
        # Only what is not on its way already, so that undoing restores the column exactly.
        leaving = held & ~int(self._releasing[row] | self.free[row] | self._bad[row])
        self._releasing[row] |= leaving
        return leaving

    def _spare(self, row: int, held: int) -> None:
        self._releasing[row] &= ALL & ~held


def _column(number: int, rows: Rows, values: Masks, default: int = NONE) -> Masks:
    column: Masks = np.full(number, default, dtype=np.uint8)
    column[rows] = values
    return column
