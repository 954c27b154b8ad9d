"""The parts of chips in one session: free, allocated, pipelined, and held by terminating Pods.

The state of a node follows from what Pods have of its chips, so undoing a placement restores it exactly. Equal states
of nodes have one number; filter and score look up answers by these numbers. A chip is used whole or in parts, never
both: chips that ``ChipLedger`` assigned are not divided, and chips with parts are marked there.
"""

from collections.abc import Mapping

import numpy as np

from scheduler.api.job import Job
from scheduler.api.node import Rows
from scheduler.api.task import Task, TaskClass
from scheduler.framework.ledger import Ledger
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.statement import AllocationError
from scheduler.plugins.ascend.demand import ChipDemand, CoreUse
from scheduler.plugins.ascend.ledger import ChipLedger
from scheduler.plugins.ascend.masks import ALL, NONE, Masks
from scheduler.plugins.ascend.npu_requests import ChipResource
from scheduler.plugins.ascend.vnpu.inventory import REPORT_DELAY, PartColumns, chips_of, state_of
from scheduler.plugins.ascend.vnpu.models import MODELS, CoreRequest, request_of
from scheduler.plugins.ascend.vnpu.selection import (
    NO_STATE,
    DividedNode,
    PartChoice,
    PartUse,
    StateAnswers,
    States,
    select,
    without_chips,
)
from scheduler.plugins.support.vnpu_failures import ANY_CHIP, AvoidedChips


class PartLedger(Ledger[str]):
    """What each Pod has of the chips of each node."""

    def __init__(
        self,
        session: PluginSession,
        demand: ChipDemand,
        position: int,
        columns: PartColumns,
        ledgers: Mapping[ChipResource, ChipLedger],
    ) -> None:
        """``position``: the index of the AI cores in resource vectors; ``ledgers``: the whole chips per resource."""
        super().__init__()
        self._names = session.nodes.names
        self._rows = session.nodes.index
        self._demand = demand
        self.position = position
        self.columns = columns
        """The nodes at the start of the session."""
        self.known: list[DividedNode] = list(columns.known)
        """The states of nodes; the number of a state is its position."""
        self._numbers = {node: number for number, node in enumerate(self.known)}
        self._answers: dict[CoreRequest, StateAnswers] = {}
        self._now: States = columns.now.copy()
        self._later: States = columns.later.copy()
        self._assigned: Masks = np.zeros(len(session.nodes), dtype=np.uint64)
        """The chips that ``ChipLedger`` had assigned when the states were computed."""
        self._ledgers = {resource.name: ledger for resource, ledger in ledgers.items()}
        self._with_whole = [(ledger, columns.rows_of(name)) for name, ledger in self._ledgers.items()]
        self._uses: dict[int, dict[str, tuple[PartUse, ...]]] = {}
        """Row -> uid -> what a Pod has, or is pipelined to; nodes that did not change in this session are left out."""
        self._leaving: dict[int, set[str]] = {}
        """Row -> uids of terminating Pods; nodes on which none was evicted in this session are left out."""
        self._taken: dict[str, PartChoice] = {}
        self._preset: dict[int, int] = {}
        """Row -> mask of the chips that were divided beforehand."""
        for ledger, member in self._with_whole:
            for row in np.flatnonzero(member & (ledger.in_parts != NONE)).tolist():
                self._preset[row] = int(ledger.in_parts[row])
            ledger.in_parts[member] |= columns.held[member]
        recent = session.now - REPORT_DELAY
        self._released = {row: each.chips for row, each in columns.released.items() if each.since > recent}
        """Row -> mask of the chips that the device plugin is about to report as free."""
        for row in self._preset.keys() | self._released.keys():
            self._update(row)

    # --- states ---
    def states(self, rows: Rows, *, later: bool) -> States:
        """Returns the numbers of the states of nodes, or NO_STATE. ``later``: after terminating Pods are deleted. What
        is pipelined counts as used in both."""
        self._follow(rows)
        found: States = (self._later if later else self._now)[rows]
        return found

    def answers(self, request: CoreRequest) -> StateAnswers:
        """Returns what the states mean for a request."""
        return self._answers.setdefault(request, StateAnswers(self.known, request))

    def avoided(self, avoided: AvoidedChips) -> dict[int, int]:
        """Returns row -> mask of the chips that a job avoids, for the nodes where it avoids some."""
        masks: dict[int, int] = {}
        for name, chip in avoided:
            row = self._rows.get(name)
            if row is not None:
                masks[row] = masks.get(row, NONE) | (ALL if chip == ANY_CHIP else 1 << chip)
        return masks

    def _follow(self, rows: Rows) -> None:
        """Updates the states of nodes on which whole chips were assigned or released."""
        for ledger, member in self._with_whole:
            here = rows[member[rows]]
            for row in here[ledger.assigned(here) != self._assigned[here]].tolist():
                self._update(row)

    def _uses_of(self, row: int) -> dict[str, tuple[PartUse, ...]]:
        """Returns uid -> what a Pod has on a node; the caller may change it."""
        if row not in self._uses:
            self._uses[row] = self.columns.by_row[row].uses
        return self._uses[row]

    def _leaving_of(self, row: int) -> set[str]:
        """Returns the uids of the terminating Pods on a node; the caller may change it."""
        if row not in self._leaving:
            self._leaving[row] = set(self.columns.by_row[row].leaving)
        return self._leaving[row]

    def _update(self, row: int) -> None:
        parts = self.columns.by_row[row]
        if parts.model is None:
            return
        uses, leaving = self._uses_of(row), self._leaving_of(row)
        preset = self._preset.get(row, NONE)
        ledger = self._ledgers.get(parts.model.resource)
        free, later = parts.chips & ~preset, (parts.chips | self._released.get(row, NONE)) & ~preset
        if ledger is not None:
            self._assigned[row] = ledger.assigned(np.array([row]))[0]
            free, later = free & ~int(self._assigned[row]), later & ~int(self._assigned[row])
            ledger.in_parts[row] = np.uint64(chips_of(uses) | parts.barred | preset)
        staying = {uid: found for uid, found in uses.items() if uid not in leaving}
        self._now[row] = self._number(state_of(parts, free, uses))
        self._later[row] = self._number(state_of(parts, later, staying))

    def _number(self, node: DividedNode) -> int:
        number = self._numbers.setdefault(node, len(self.known))
        if number == len(self.known):
            self.known.append(node)
        return number

    def chip_of(self, row: int, uid: str) -> int:
        """Returns the first chip of which a Pod on a node has a part; -1 if it has none."""
        uses = self._uses_of(row).get(uid, ()) if row in self.columns.by_row else ()
        return min((use.chip for use in uses), default=-1)

    def taken(self, task: Task) -> PartChoice | None:
        """Returns what this session allocated to a task."""
        return self._taken.get(task.uid)

    # --- placements ---
    def concerns(self, cls: TaskClass) -> bool:
        return self._demand.cores(cls) > 0

    def _take(self, job: Job, task: Task, row: int, *, pipelined: bool) -> None:
        cores = self._demand.cores(task.cls)
        state = int(self.states(np.array([row]), later=pipelined)[0])
        choice = None
        use = self._demand.npu_use(job)
        if state != NO_STATE and use is not None:
            avoided = self.avoided(use.avoided) if isinstance(use, CoreUse) and use.avoided else {}
            node = without_chips(self.known[state], avoided.get(row, NONE))
            choice = select(MODELS[node.model], node, request_of(task.cls, cores))
        if choice is None:
            raise AllocationError(f"node {self._names[row]} has no place for {cores} AI cores of Pod {task.key}")
        self._uses_of(row)[task.uid] = choice.uses
        if not pipelined:
            self._taken[task.uid] = choice
        self._update(row)

    def _release(self, task: Task, row: int) -> None:
        self._taken.pop(task.uid, None)
        self._uses_of(row).pop(task.uid, None)
        self._update(row)

    def _evict(self, task: Task, row: int) -> str:
        """Returns the uid if the task was not terminating and has parts, else ""."""
        if row not in self.columns.by_row or task.uid not in self._uses_of(row) or task.uid in self._leaving_of(row):
            return ""
        self._leaving_of(row).add(task.uid)
        self._update(row)
        return task.uid

    def _restore(self, row: int, held: str) -> None:
        if held:
            self._leaving_of(row).remove(held)
            self._update(row)
