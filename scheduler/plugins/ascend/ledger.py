"""The chips of all nodes in one session: free, allocated, pipelined, and held by terminating Pods.

A pipelined task reserves chips, free ones or those of terminating Pods: no other task can take them, but the task is
not bound. Evicting a Pod does not free its chips; it makes them available to pipelined tasks.
"""

from collections.abc import Sequence

import numpy as np

from scheduler.api.job import Job
from scheduler.api.node import Rows
from scheduler.api.task import Task, TaskClass
from scheduler.framework.ledger import Ledger
from scheduler.framework.session import Session
from scheduler.framework.statement import AllocationError
from scheduler.plugins.ascend.demand import Demand, skips_plugin
from scheduler.plugins.ascend.families import Family
from scheduler.plugins.ascend.inventory import NodeChips
from scheduler.plugins.ascend.rings import ALL, NONE, Masks, highest


class ChipLedger(Ledger[int]):
    """Columns of masks of shape (nodes,), and the chips of each task that the session placed."""

    def __init__(
        self, session: Session, family: Family, demand: Demand, rows: Rows, chips: Sequence[NodeChips]
    ) -> None:
        """``chips[i]``: the chips of the node at ``rows[i]``. Other nodes have none."""
        super().__init__()
        self._names = session.nodes.names
        self._family = family
        self._demand = demand
        columns = np.array(
            [(c.free, c.releasing, c.network_faults, c.unusable, c.capacity) for c in chips], dtype=np.uint8
        ).reshape(len(rows), 5)
        number = len(session.nodes)
        self.free = _column(number, rows, columns[:, 0])
        self.capacity = _column(number, rows, columns[:, 4])
        self._releasing = _column(number, rows, columns[:, 1])
        self._network_faults = _column(number, rows, columns[:, 2])
        self._unusable = _column(number, rows, columns[:, 3], ALL)
        self._pipelined_masks: Masks = np.zeros(number, dtype=np.uint8)
        self.has_network_faults = bool((self._network_faults[self._unusable == NONE] != NONE).any())
        """Whether a node with eight healthy chips has one with a network fault, which jobs of several Pods cannot
        use."""
        self._freed = {row: chips_of.freed for row, chips_of in zip(rows.tolist(), chips, strict=True)}
        self._taken: dict[str, int] = {}
        self._pipelined: dict[str, int] = {}
        """uid -> mask of the chips of a task that this session allocated (``_taken``) or pipelined."""

    # --- columns ---
    def usable(self, rows: Rows, distributed: bool) -> Masks:
        """Masks of the chips that are free and not pipelined. ``distributed``: for a job of several NPU Pods."""
        free: Masks = self.free[rows] & ~self._pipelined_masks[rows]
        return free & ~self._network_faults[rows] if distributed else free

    def future_usable(self, rows: Rows, distributed: bool) -> Masks:
        """Masks of the chips that are free after terminating Pods are deleted, and not pipelined."""
        later: Masks = (self.free[rows] | self._releasing[rows]) & ~self._pipelined_masks[rows]
        return later & ~self._network_faults[rows] if distributed else later

    def taken(self, task: Task) -> int:
        """The mask of the chips that this session allocated to a task; 0 if there are none."""
        return self._taken.get(task.uid, NONE)

    # --- placements ---
    def concerns(self, cls: TaskClass) -> bool:
        return self._demand.chips(cls) > 0

    def _take(self, job: Job, task: Task, row: int, *, pipelined: bool) -> None:
        distributed = self._demand.is_distributed(job) and not skips_plugin(task.cls)
        masks = (self.future_usable if pipelined else self.usable)(np.array([row]), distributed)
        mask = self._choose(task, row, int(masks[0]))
        if pipelined:
            self._pipelined_masks[row] |= mask
            self._pipelined[task.uid] = mask
        else:
            self.free[row] &= ALL & ~mask
            self._taken[task.uid] = mask

    def _choose(self, task: Task, row: int, free: int) -> int:
        number = self._demand.chips(task.cls)
        if skips_plugin(task.cls):
            # The device plugin chooses. As for unnamed chips, assuming the highest ids collides least.
            return highest(free, number)
        table = self._family.tables.get(number)
        mask = NONE if table is None else int(table.choice[free])
        if not mask:
            raise AllocationError(
                f"node {self._names[row]} has no place for {number} {self._family.resource} of Pod {task.key}"
            )
        return mask

    def _release(self, task: Task, row: int) -> None:
        if task.uid in self._pipelined:
            self._pipelined_masks[row] &= ALL & ~self._pipelined.pop(task.uid)
        else:
            self.free[row] |= self._taken.pop(task.uid, NONE)

    def _evict(self, task: Task, row: int) -> int:
        held = self._taken.get(task.uid)
        if held is None:
            held = self._freed[row].get(task.uid, NONE) if row in self._freed else NONE
        # Only chips that are not releasing already, so that undoing the eviction restores the column exactly.
        leaving = held & ~int(self._releasing[row] | self.free[row] | self._unusable[row])
        self._releasing[row] |= leaving
        return leaving

    def _restore(self, row: int, held: int) -> None:
        self._releasing[row] &= ALL & ~held


def _column(number: int, rows: Rows, values: Masks, default: int = NONE) -> Masks:
    column: Masks = np.full(number, default, dtype=np.uint8)
    column[rows] = values
    return column
