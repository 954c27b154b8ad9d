"""The filters and the score for Pods that share chips."""

from collections.abc import Iterable
from typing import Final

import numpy as np

from scheduler.api.node import Column, Rows
from scheduler.framework.columns import Counts, Filter, MaskFilter, Scope
from scheduler.plugins.ascend.sharing.ledger import ShareLedger
from scheduler.plugins.ascend.sharing.quota import SHARED_NODE, ShareUse
from scheduler.plugins.ascend.sharing.selection import SharedChips, Used, choose, fits_job, rank, room

_STEP: Final = 1e6
"""As for whole chips, one step exceeds the scores of other plugins at usual weights."""


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
