"""The choice of the chips for a request of AI cores: pure functions of the chips of a node.

A virtual NPU goes to the chip with the fewest free AI cores on which its template fits. Whole chips are the lowest ones
that are free entirely. While the device plugin has not confirmed a virtual NPU, its chip gets only virtual NPUs of its
template in the same session, and none in later ones.

``StateAnswers`` keeps the answers for the states of nodes as arrays, so that one array operation looks up a column.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.framework.columns import Counts
from scheduler.plugins.ascend.vnpu.models import MODELS, NO, NULL, YES, ChipModel, CoreRequest, PartTemplate

WHOLE: Final = ""
"""The template of a chip that is used whole."""
MAX_GROUPS: Final = 4


class PartUse(NamedTuple):
    """The part of one chip that one Pod has."""

    chip: int
    template: str
    """The name of the template, or ``WHOLE``."""
    cores: int
    cpus: int
    dvpp: str = NULL
    confirmed: bool = True
    """The device plugin has reported it."""
    chosen: bool = False
    """Whether the part was chosen in this session."""
    group: int = -1
    """The group on the chip; -1 if it is not known."""


class FreePart(NamedTuple):
    """The free part of a chip."""

    number: int
    cores: int
    cpus: int
    dvpp: str = YES
    divided: bool = False
    """Virtual NPUs exist on it."""
    unconfirmed: frozenset[str] = frozenset()
    """The templates of its virtual NPUs that were chosen in this session."""
    unstable: bool = False
    """Whether it has virtual NPUs of earlier sessions that are not confirmed."""
    groups: frozenset[int] = frozenset()


class DividedNode(NamedTuple):
    """The chips of a node, of one model."""

    model: str
    size: int
    """The AI cores of a chip."""
    chips: tuple[FreePart, ...]


class PartChoice(NamedTuple):
    uses: tuple[PartUse, ...]
    downgraded: bool
    """A template with fewer AI CPUs was chosen, because the preferred one does not fit."""

    @property
    def annotation(self) -> str:
        """The value of the annotation ``huawei.com/npu-core``: ``0-vir02``, or ``0,1`` for whole chips."""
        if self.uses[0].template != WHOLE:
            return f"{self.uses[0].chip}-{self.uses[0].template}"
        return ",".join(str(use.chip) for use in self.uses)


def node_of(model: ChipModel, size: int, numbers: Iterable[int], uses: Iterable[PartUse]) -> DividedNode:
    """Returns the chips ``numbers`` of a node with what is free of them; uses of other chips do not count."""
    return with_uses(_untouched(model, size, tuple(sorted(numbers))), uses)


@lru_cache(maxsize=1024)
def _untouched(model: ChipModel, size: int, numbers: tuple[int, ...]) -> DividedNode:
    return DividedNode(model.name, size, tuple(FreePart(number, size, model.cpus) for number in numbers))


def with_uses(node: DividedNode, uses: Iterable[PartUse]) -> DividedNode:
    """Returns a node with further uses of its chips. The order of the uses does not matter."""
    chips = {chip.number: chip for chip in node.chips}
    for use in uses:
        if use.chip in chips:
            chips[use.chip] = _with_use(chips[use.chip], use)
    return node._replace(chips=tuple(chips.values()))


def _with_use(chip: FreePart, use: PartUse) -> FreePart:
    chip = chip._replace(
        cores=max(chip.cores - use.cores, 0),
        cpus=max(chip.cpus - use.cpus, 0),
        unstable=chip.unstable or not (use.confirmed or use.chosen),
    )
    if use.template == WHOLE:
        return chip
    return chip._replace(
        dvpp=NO if use.dvpp == YES else NULL if use.dvpp == NULL and chip.dvpp == YES else chip.dvpp,
        divided=True,
        unconfirmed=chip.unconfirmed | {use.template} if use.chosen else chip.unconfirmed,
        groups=chip.groups | {use.group} if use.group >= 0 else chip.groups,
    )


def without_chips(node: DividedNode, chips: int) -> DividedNode:
    """Returns a node without the chips of a mask."""
    return node._replace(chips=tuple(chip for chip in node.chips if not chips >> chip.number & 1)) if chips else node


@lru_cache(maxsize=1 << 14)
def select(model: ChipModel, node: DividedNode, request: CoreRequest) -> PartChoice | None:
    """Returns the choice for a request; None if it does not fit."""
    if request.cores % node.size == 0:
        return _whole(model, node, request.cores // node.size)
    template = model.template(request.cores, request.high, request.dvpp)
    if template is None:
        return None
    for candidate in (template, model.smaller(template)):
        chip = None if candidate is None else _chip_for(model, node, candidate)
        if candidate is not None and chip is not None:
            use = PartUse(chip, candidate.name, candidate.cores, candidate.cpus, candidate.dvpp, False, True)
            return PartChoice((use,), candidate is not template)
    return None


def _whole(model: ChipModel, node: DividedNode, number: int) -> PartChoice | None:
    free = [c.number for c in node.chips if not c.divided and c.cores == node.size and c.cpus == model.cpus]
    if not number or len(free) < number:
        return None
    return PartChoice(tuple(PartUse(n, WHOLE, node.size, model.cpus, NULL, False, True) for n in free[:number]), False)


def _chip_for(model: ChipModel, node: DividedNode, template: PartTemplate) -> int | None:
    fitting = [chip for chip in node.chips if _takes(model, chip, template)]
    return min(fitting, key=lambda chip: (chip.cores, chip.cpus, chip.number)).number if fitting else None


def _takes(model: ChipModel, chip: FreePart, template: PartTemplate) -> bool:
    if chip.cores < template.cores or chip.cpus < template.cpus or chip.unstable:
        return False
    if chip.unconfirmed - {template.name}:
        return False
    if model.groups and chip.divided:
        groups = len(chip.groups)
        if (groups == MAX_GROUPS - 1 and template.cores >= 4) or (groups >= MAX_GROUPS and template.cores >= 2):
            return False
    if template.dvpp == YES:
        return chip.dvpp == YES
    return template.dvpp == NO or chip.dvpp != NO


States = NDArray[np.intp]
"""Numbers of states of nodes."""
NO_STATE: Final = -1
"""The state of a node whose chips cannot be divided."""


class StateAnswers:
    """What each state of a node means for one request."""

    def __init__(self, known: Sequence[DividedNode], request: CoreRequest) -> None:
        """``known``: the states by number; more may be appended."""
        self._known = known
        self._request = request
        self._room: list[int] = []
        self._preferred: list[int] = []

    def room(self, states: States) -> Counts:
        """Returns the number of Pods that fit one after the other."""
        self._learn()
        return _of(self._room, states)

    def preferred(self, states: States) -> Counts:
        """Returns how many of them get the preferred template, before one is downgraded."""
        self._learn()
        return _of(self._preferred, states)

    def of_node(self, node: DividedNode) -> tuple[int, int]:
        """Returns ``room`` and ``preferred`` of one node."""
        room, preferred, downgraded = 0, 0, False
        while (choice := select(MODELS[node.model], node, self._request)) is not None:
            node = with_uses(node, choice.uses)
            room += 1
            downgraded = downgraded or choice.downgraded
            preferred += not downgraded
        return room, preferred

    def _learn(self) -> None:
        for state in self._known[len(self._room) :]:
            room, preferred = self.of_node(state)
            self._room.append(room)
            self._preferred.append(preferred)


def _of(answers: list[int], states: States) -> Counts:
    found: Counts = np.array([*answers, 0], dtype=np.int64)[states]  # the last element is that of NO_STATE
    return found
