"""The shares of the chips of one resource on all nodes in one session, and the filters and score for Pods that share.
Pods that share chips and Pods with whole chips never have the same chip."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from scheduler.api.job import Job
from scheduler.api.names import SHARED_NODE
from scheduler.api.node import Column, Rows
from scheduler.api.task import Task, TaskClass
from scheduler.framework.columns import Counts, Filter, MaskFilter, Scope
from scheduler.framework.ledger import Ledger
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.statement import AllocationError
from scheduler.plugins.ascend.demand import ChipDemand
from scheduler.plugins.ascend.ledger import ChipColumns, ChipLedger
from scheduler.plugins.ascend.masks import ALL, ids_of
from scheduler.plugins.ascend.shares import (
    CHIP_MEMORY,
    Quota,
    SharedChips,
    ShareUse,
    Used,
    chip_memory,
    choose,
    fits_job,
    rank,
    room,
    rows_of_shared,
    total,
)

Held = Mapping[str, tuple[int, Quota]]
"""uid -> the chip that a Pod shares, and its quota."""


class ShareLedger(Ledger[str]):
    """Follows the ledger of whole chips, of which it takes those that are shared."""

    def __init__(self, session: PluginSession, demand: ChipDemand, whole: ChipLedger, chips: ChipColumns) -> None:
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
        use = self._demand.npu_use(job)
        if not isinstance(use, ShareUse):
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


_STEP: Final = 1e6
"""One step exceeds the scores of other plugins at usual weights, as the step for whole chips does."""


def share_filters(ledger: ShareLedger, use: ShareUse, own: frozenset[str], nodes: int) -> list[Filter]:
    """Returns the filters for Pods that share chips.

    ``own``: uids of the job's Pods; ``nodes``: the number of all nodes."""
    shared, sized = np.zeros((2, nodes), dtype=np.bool_)
    shared[list(ledger.memory)] = True
    sized[[row for row, memory in ledger.memory.items() if memory]] = True
    return [
        MaskFilter(shared, f"node(s) did not have the label {SHARED_NODE}=true"),
        MaskFilter(sized | ~shared, "node(s) had no label with the memory of a chip"),
        ShareFilter(ledger, use, own),
    ]


class ShareFilter:
    """Passes nodes with a chip that has room for the quota, and with room for the whole job. Evictions do not help:
    the NPU plugin evicts no Pod for a share."""

    scope = Scope.NODE
    unresolvable = True

    def __init__(self, ledger: ShareLedger, use: ShareUse, own: frozenset[str]) -> None:
        self._ledger = ledger
        self._use = use
        self._own = own

    def room(self, rows: Rows) -> Counts:
        return np.array([self._room(row, later=False) for row in rows.tolist()], dtype=np.int64)

    def future_room(self, rows: Rows) -> Counts:
        return np.array([self._room(row, later=True) for row in rows.tolist()], dtype=np.int64)

    def _room(self, row: int, *, later: bool) -> int:
        ledger, use = self._ledger, self._use
        if not ledger.memory.get(row):
            return 0
        if not fits_job(ledger.shares(row, without=self._own, later=later), use.quota, use.pods):
            return 0
        return room(ledger.shares(row, later=later), use.quota)

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        quota = self._use.quota
        text = (
            f"node(s) had no room for {self._use.pods} Pods with {quota.cores} % of the AI cores and "
            f"{quota.memory} MiB of a chip each, on chips with the policy {quota.policy}"
        )
        return ((text, len(rows)),)


class ShareScore:
    """Ranks nodes by how full the chip becomes that the Pod gets."""

    scope = Scope.NODE

    def __init__(self, ledger: ShareLedger, use: ShareUse) -> None:
        self._ledger = ledger
        self._use = use

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        quota = self._use.quota
        before = np.zeros(len(rows), dtype=np.int64) if ahead is None else ahead
        found = np.zeros(len(rows))
        for at, (row, number) in enumerate(zip(rows.tolist(), before.tolist(), strict=True)):
            if self._ledger.memory.get(row):
                found[at] = rank(self._after(self._ledger.shares(row), number), quota) * _STEP
        return found

    def _after(self, shares: SharedChips, number: int) -> SharedChips:
        """Returns the shares after this number of Pods was placed."""
        quota = self._use.quota
        for _ in range(number):
            chip = choose(shares, quota)
            if chip is None:
                break
            there = shares.used.get(chip, Used(0, 0, quota.policy))
            now = Used(there.cores + quota.cores, there.memory + quota.memory, quota.policy)
            shares = SharedChips(
                {**shares.used, chip: now}, tuple(c for c in shares.unused if c != chip), shares.memory
            )
        return shares
