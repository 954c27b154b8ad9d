"""The shares of the chips of one resource on all nodes in one session. Pods that share chips and Pods with whole chips
never have the same chip."""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from scheduler.api.job import Job
from scheduler.api.task import Task, TaskClass
from scheduler.framework.ledger import Ledger
from scheduler.framework.session import Session
from scheduler.framework.statement import AllocationError
from scheduler.plugins.ascend.chip_columns import ChipColumns
from scheduler.plugins.ascend.demand import ChipDemand
from scheduler.plugins.ascend.ledger import ChipLedger
from scheduler.plugins.ascend.masks import ALL, ids_of
from scheduler.plugins.ascend.sharing.quota import CHIP_MEMORY, Quota, chip_memory, rows_of_shared
from scheduler.plugins.ascend.sharing.selection import SharedChips, choose, total

Held = Mapping[str, tuple[int, Quota]]
"""uid -> the chip that a Pod shares, and its quota."""


class ShareLedger(Ledger[str]):
    """Follows the ledger of whole chips, of which it takes those that are shared."""

    def __init__(self, session: Session, demand: ChipDemand, whole: ChipLedger, chips: ChipColumns) -> None:
        super().__init__()
        self.resource = whole.resource
        self.whole = whole
        facts = session.nodes.facts
        self.memory = {
            row: chip_memory(facts.labels[row].get(CHIP_MEMORY, ""))
            for row in rows_of_shared(facts)
            if row in chips.by_row
        }
        """Row -> MiB of each chip, for the nodes whose chips are shared; 0: unknown."""
        self._demand = demand
        self._chips = chips
        self._names = session.nodes.names
        self._held: dict[int, dict[str, tuple[int, Quota]]] = {}
        """Row -> the shares of all Pods; nodes that did not change in this session are left out."""
        self._leaving: set[str] = set()
        """uids of the Pods that were evicted in this session."""
        self._taken: dict[str, int] = {}
        """uid -> chip of a task that this session allocated."""

    def shares(self, row: int, *, without: frozenset[str] = frozenset(), later: bool = False) -> SharedChips:
        """Returns the chips of a node that can be shared. ``without``: uids of Pods that do not count; ``later``: after
        terminating Pods are deleted."""
        leaving = self._leaving | self._chips.by_row[row].terminating if later else frozenset[str]()
        on_chip: dict[int, list[Quota]] = defaultdict(list)
        absent: set[int] = set()
        for uid, (chip, quota) in self.held(row).items():
            if uid in without:
                absent.add(chip)
            elif uid not in leaving:
                on_chip[chip].append(quota)
        usable = (self.whole.future_usable if later else self.whole.usable)(row, without_faults=False)
        unused = {*ids_of(int(usable)), *absent} - on_chip.keys()
        used = {chip: total(quotas) for chip, quotas in sorted(on_chip.items())}
        return SharedChips(used, tuple(sorted(unused)), self.memory[row])

    def held(self, row: int) -> Held:
        """Returns the shares of the Pods on a node, with those that this session placed."""
        return self._held.get(row) or self._chips.by_row[row].shares

    def chip(self, task: Task) -> int | None:
        """Returns the chip of which this session gave a task a share."""
        return self._taken.get(task.uid)

    # --- placements ---
    def concerns(self, cls: TaskClass) -> bool:
        return self._demand.chips(cls, self.resource) > 0

    def _take(self, job: Job, task: Task, row: int, *, pipelined: bool) -> None:
        use = self._demand.share_use(job)
        if use is None:
            return
        chip = choose(self.shares(row, later=pipelined), use.quota) if row in self.memory else None
        if chip is None:
            raise AllocationError(f"node {self._names[row]} has no chip with room for the quota of Pod {task.key}")
        self._held[row] = {**self.held(row), task.uid: (chip, use.quota)}
        self.whole.in_parts[row] |= np.uint64(1 << chip)
        if not pipelined:
            self._taken[task.uid] = chip

    def _release(self, task: Task, row: int) -> None:
        self._taken.pop(task.uid, None)
        if row not in self._held or task.uid not in self._held[row]:
            return
        chip, _ = self._held[row].pop(task.uid)
        if all(other != chip for other, _ in self._held[row].values()):
            self.whole.in_parts[row] &= np.uint64(ALL & ~(1 << chip))

    def _evict(self, task: Task, row: int) -> str:
        if row not in self.memory or task.uid not in self.held(row) or task.uid in self._leaving:
            return ""
        self._leaving.add(task.uid)
        return task.uid

    def _restore(self, row: int, held: str) -> None:
        self._leaving.discard(held)
