"""The filter and the score for parts of chips. They look up answers by the states of nodes."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.names import NPU_CORE
from scheduler.api.node import Column, Mask, Nodes, Rows
from scheduler.framework.columns import Counts, Filter, MaskFilter, Scope
from scheduler.plugins.ascend.npu_requests import MILLI
from scheduler.plugins.ascend.vnpu.ledger import PartLedger
from scheduler.plugins.ascend.vnpu.models import MODELS, CoreRequest, is_valid
from scheduler.plugins.ascend.vnpu.selection import NO_STATE, DividedNode, States, without_chips
from scheduler.plugins.support.vnpu_failures import AvoidedChips

_AVOIDED: Final = "node(s) had room only on chips on which a virtual NPU of the job could not be created before"
_STEP: Final = 1e6
_MAX_SCORE: Final = 9e8
"""One step exceeds the scores of other plugins at usual weights, as the step for whole chips does."""


def part_filters(ledger: PartLedger, resource: str, request: CoreRequest, avoided: AvoidedChips = ()) -> list[Filter]:
    """Returns the filters for Pods with a request for AI cores of the chips of a resource. ``avoided``: the chips of
    which their job gets no part."""
    columns = ledger.columns
    kinds = [kind for kind in columns.kinds if kind.model.resource == resource]
    fitting = [
        columns.kinds.index(kind)
        for kind in kinds
        if is_valid(kind.model, request) and (request.cores % kind.size == 0 or request.cores in kind.model.requests)
    ]
    divided, valid = columns.rows_of(resource), np.isin(columns.kind, fitting)
    name = resource.partition("/")[2]
    return [
        MaskFilter(divided, f"node(s) had no {name} chips with {NPU_CORE}"),
        MaskFilter(
            valid | ~divided, f"node(s) had {name} chips of which {request.cores} AI cores cannot be requested so"
        ),
        PartFilter(ledger, request, avoided),
    ]


class _JobAnswers:
    """What nodes mean for a request of a job that avoids some chips."""

    def __init__(self, ledger: PartLedger, request: CoreRequest, avoided: AvoidedChips) -> None:
        self._ledger = ledger
        self._answers = ledger.answers(request)
        self._avoided = ledger.avoided(avoided)

    def room(self, rows: Rows, *, later: bool = False) -> Counts:
        """Returns the number of Pods that fit one after the other. ``later``: after terminating Pods are deleted."""
        states = self._ledger.states(rows, later=later)
        return self._without_avoided(rows, states, self._answers.room(states), 0)

    def preferred(self, rows: Rows) -> Counts:
        """Returns how many of them get the preferred template, before one is downgraded."""
        states = self._ledger.states(rows, later=False)
        return self._without_avoided(rows, states, self._answers.preferred(states), 1)

    def with_room_on_avoided(self, rows: Rows) -> Mask:
        """Returns which of some nodes without room have room on chips that the job avoids."""
        found: Mask = self._answers.room(self._ledger.states(rows, later=False)) > 0
        return found

    def _without_avoided(self, rows: Rows, states: States, found: Counts, part: int) -> Counts:
        if not self._avoided:
            return found
        for position, (row, state) in enumerate(zip(rows.tolist(), states.tolist(), strict=True)):
            if row in self._avoided and state != NO_STATE:
                node = without_chips(self._ledger.known[state], self._avoided[row])
                found[position] = self._answers.of_node(node)[part]
        return found


class PartFilter:
    """Passes nodes on which the request fits."""

    scope = Scope.NODE
    unresolvable = False

    def __init__(self, ledger: PartLedger, request: CoreRequest, avoided: AvoidedChips = ()) -> None:
        self._ledger = ledger
        self._request = request
        self._answers = _JobAnswers(ledger, request, avoided)

    def room(self, rows: Rows) -> Counts:
        return self._answers.room(rows)

    def future_room(self, rows: Rows) -> Counts:
        return self._answers.room(rows, later=True)

    def device_of(self, row: int, uid: str) -> int:
        return self._ledger.chip_of(row, uid)

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        avoided = self._answers.with_room_on_avoided(rows)
        states = self._ledger.states(rows[~avoided], later=False)
        texts: Counter[str] = Counter({_AVOIDED: int(avoided.sum())} if avoided.any() else ())
        for state, number in zip(*np.unique(states[states != NO_STATE], return_counts=True), strict=True):
            texts[_reason(self._ledger.known[int(state)], self._request)] += int(number)
        return sorted(texts.items())


def _reason(node: DividedNode, request: CoreRequest) -> str:
    cores, model = request.cores, MODELS[node.model]
    if cores % node.size == 0:
        free = sum(c.cores == node.size and c.cpus == model.cpus and not c.divided for c in node.chips)
        return f"node(s) had {free} of {len(node.chips)} chips free, {cores // node.size} are needed"
    most = max((chip.cores for chip in node.chips), default=0)
    if most < cores:
        return f"node(s) had at most {most} AI cores free on one chip, {cores} are needed"
    template = model.template(cores, request.high, request.dvpp)
    name = "" if template is None else template.name
    waiting = [chip.unstable or bool(chip.unconfirmed - {name}) for chip in node.chips if chip.cores >= cores]
    if all(waiting):
        return f"node(s) had {cores} AI cores free only on chips where another virtual NPU is being created"
    return f"node(s) had no chip with the AI CPUs and the DVPP for {cores} AI cores free"


class PartScore:
    """Ranks nodes: first those on which the preferred template fits, then those with the fewest idle AI cores."""

    scope = Scope.NODE

    def __init__(self, ledger: PartLedger, nodes: Nodes, request: CoreRequest, avoided: AvoidedChips = ()) -> None:
        self._idle: NDArray[np.float64] = nodes.idle[ledger.position]
        self._request = request
        self._answers = _JobAnswers(ledger, request, avoided)
        self._most = int(nodes.allocatable[ledger.position].max(initial=0)) // MILLI
        self._weight = min(_STEP, _MAX_SCORE / (2 * (self._most + 1)))

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        before = np.zeros(len(rows), dtype=np.int64) if ahead is None else ahead
        idle = np.clip(self._idle[rows] // MILLI - before * self._request.cores, 0, self._most)
        downgraded = before >= self._answers.preferred(rows)
        score: Column = (2 * (self._most + 1) - idle - downgraded * (self._most + 1)) * self._weight
        score[before >= self._answers.room(rows)] = 0.0
        return score
