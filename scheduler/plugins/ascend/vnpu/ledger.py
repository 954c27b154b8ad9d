"""The parts of chips in one session: free, allocated, pipelined, and held by terminating Pods.

The state of a node follows from what Pods have of its chips, so undoing a placement restores it exactly. Equal states
of nodes have one number; filter and score look up answers by these numbers. A chip is used whole or in parts, never
both: chips that ``ChipLedger`` assigned are not divided, and chips with parts are marked there.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from scheduler.api.job import Job
from scheduler.api.node import Rows
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.ledger import Ledger
from scheduler.framework.session import Session
from scheduler.framework.statement import AllocationError
from scheduler.plugins.ascend.demand import Demand
from scheduler.plugins.ascend.ledger import ChipLedger
from scheduler.plugins.ascend.masks import ALL, NONE, Masks, ids_of, mask_of
from scheduler.plugins.ascend.resources import ChipResource
from scheduler.plugins.ascend.vnpu.answers import NO_STATE, Answers, States
from scheduler.plugins.ascend.vnpu.inventory import NodeParts
from scheduler.plugins.ascend.vnpu.models import MODELS
from scheduler.plugins.ascend.vnpu.requests import request_of
from scheduler.plugins.ascend.vnpu.selection import CoreRequest, Node, PartChoice, Use, node_of, select


class PartLedger(Ledger[str]):
    """What each Pod has of the chips of each node."""

    def __init__(
        self,
        session: Session,
        demand: Demand,
        position: int,
        rows: Rows,
        parts: Sequence[NodeParts],
        ledgers: Mapping[ChipResource, ChipLedger],
    ) -> None:
        """``position``: that of the AI cores in resource vectors; ``parts[i]``: those of the node at ``rows[i]``;
        ``ledgers``: the whole chips per resource."""
        super().__init__()
        self._names = session.nodes.names
        self._demand = demand
        self.position = position
        self.parts = dict(zip(rows.tolist(), parts, strict=True))
        """Row -> the node at the start of the session."""
        self.known: list[Node] = []
        """The states of nodes; the number of a state is its position."""
        self._numbers: dict[Node, int] = {}
        self._answers: dict[CoreRequest, Answers] = {}
        self.number = number = len(session.nodes)
        self._now: States = np.full(number, NO_STATE, dtype=np.intp)
        self._later: States = np.full(number, NO_STATE, dtype=np.intp)
        self._assigned: Masks = np.zeros(number, dtype=np.uint64)
        """The chips that ``ChipLedger`` had assigned when the states were computed."""
        self._ledgers = {
            row: ledgers[ChipResource(found.model.resource)]
            for row, found in self.parts.items()
            if found.model is not None and ChipResource(found.model.resource) in ledgers
        }
        self._preset = {row: int(ledger.in_parts[row]) for row, ledger in self._ledgers.items()}
        """Row -> mask of the chips that were divided beforehand."""
        self._with_whole = [
            (ledger, np.isin(np.arange(number), [row for row, other in self._ledgers.items() if other is ledger]))
            for ledger in dict.fromkeys(self._ledgers.values())
        ]
        self._uses: dict[int, dict[str, tuple[Use, ...]]] = {}
        """Row -> uid -> what a Pod has, or is pipelined to."""
        self._leaving: dict[int, set[str]] = {}
        """Row -> uids of terminating Pods."""
        self._barred: dict[int, int] = {}
        """Row -> mask of the chips of which Pods may have parts that are not known."""
        self._taken: dict[str, PartChoice] = {}
        self._pipelined: set[str] = set()
        releasing = {
            task.uid
            for tasks in session.snapshot.chips.values()
            for task in tasks
            if task.status is TaskStatus.RELEASING
        }
        for row, found in self.parts.items():
            self._uses[row] = {uid: held.uses for uid, held in found.holdings.items() if held.uses}
            self._leaving[row] = releasing & self._uses[row].keys()
            self._barred[row] = ALL if any(held.unknown for held in found.holdings.values()) else NONE
            for held in found.holdings.values():
                self._barred[row] |= held.doubtful
            self._update(row)

    # --- states ---
    def states(self, rows: Rows, *, later: bool) -> States:
        """The numbers of the states of nodes, or NO_STATE. ``later``: after terminating Pods are deleted. What is
        pipelined counts as used in both."""
        self._follow(rows)
        found: States = (self._later if later else self._now)[rows]
        return found

    def answers(self, request: CoreRequest) -> Answers:
        """What the states mean for a request."""
        return self._answers.setdefault(request, Answers(self.known, request))

    def _follow(self, rows: Rows) -> None:
        """Updates the states of nodes on which whole chips were assigned or released."""
        for ledger, member in self._with_whole:
            here = rows[member[rows]]
            for row in here[ledger.assigned(here) != self._assigned[here]].tolist():
                self._update(row)

    def _update(self, row: int) -> None:
        parts, uses = self.parts[row], self._uses[row]
        if parts.model is None:
            return
        ledger = self._ledgers.get(row)
        free = parts.chips & ~self._preset.get(row, NONE)
        if ledger is not None:
            self._assigned[row] = ledger.assigned(np.array([row]))[0]
            free &= ~int(self._assigned[row])
            held = mask_of({use.chip for found in uses.values() for use in found})
            ledger.in_parts[row] = np.uint64(held | self._barred[row] | self._preset[row])
        chips = ids_of(free)
        everything = [use for found in uses.values() for use in found]
        self._now[row] = self._later[row] = self._number(node_of(parts.model, parts.size, chips, everything))
        if self._leaving[row]:
            staying = [use for uid, found in uses.items() if uid not in self._leaving[row] for use in found]
            self._later[row] = self._number(node_of(parts.model, parts.size, chips, staying))

    def _number(self, node: Node) -> int:
        number = self._numbers.setdefault(node, len(self.known))
        if number == len(self.known):
            self.known.append(node)
        return number

    def taken(self, task: Task) -> PartChoice | None:
        """What this session allocated to a task."""
        return self._taken.get(task.uid)

    # --- placements ---
    def concerns(self, cls: TaskClass) -> bool:
        return self._demand.cores(cls) > 0

    def _take(self, job: Job, task: Task, row: int, *, pipelined: bool) -> None:
        cores = self._demand.cores(task.cls)
        state = int(self.states(np.array([row]), later=pipelined)[0])
        choice = None
        if state != NO_STATE and self._demand.core_use(job) is not None:
            node = self.known[state]
            choice = select(MODELS[node.model], node, request_of(task.cls, cores))
        if choice is None:
            raise AllocationError(f"node {self._names[row]} has no place for {cores} AI cores of Pod {task.key}")
        self._uses[row][task.uid] = choice.uses
        if pipelined:
            self._pipelined.add(task.uid)
        else:
            self._taken[task.uid] = choice
        self._update(row)

    def _release(self, task: Task, row: int) -> None:
        self._pipelined.discard(task.uid)
        self._taken.pop(task.uid, None)
        self._uses[row].pop(task.uid, None)
        self._update(row)

    def _evict(self, task: Task, row: int) -> str:
        """Returns the uid if the task was not terminating and has parts, else ""."""
        if task.uid not in self._uses.get(row, {}) or task.uid in self._leaving[row]:
            return ""
        self._leaving[row].add(task.uid)
        self._update(row)
        return task.uid

    def _restore(self, row: int, held: str) -> None:
        if held:
            self._leaving[row].remove(held)
            self._update(row)
