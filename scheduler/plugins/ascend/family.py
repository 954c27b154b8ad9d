"""The data of a family of Ascend chips, and the answers of its selection algorithm.

A family belongs to a job: its resource, node selector, labels and annotations choose it (``resolve``). A family is
data: which requests are valid, how chips are grouped, and which selection algorithm chooses them. Each family is one
file in ``families``.

A selection is a pure function of the mask of free chips. ``ChipPlacements`` keeps its answers as arrays, so that one
array operation looks up a column of nodes: for families of up to eight chips an element for each of the 256 masks; for
larger families the masks that occur, sorted and looked up by bisection.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.framework.columns import Counts
from scheduler.plugins.ascend.masks import NONE, WIDTH, Masks, first, mask_of

STRATEGY: Final = "npu-310-strategy"
DUO: Final = "duo"
DISTRIBUTED: Final = "distributed"
"""Labels of jobs and Pods that choose a family; ``accelerator-type`` in the node selector is the fourth trait."""


class ChipRequest(NamedTuple):
    """The chips that one Pod requests."""

    chips: int
    several: bool = False
    """More than one Pod of the job requests chips."""


class Choice(NamedTuple):
    """The chips of a node that one Pod takes."""

    chips: tuple[int, ...]
    """The ids of the chips in the order in which the annotation lists them."""
    penalty: int
    """How good the node is for the Pod: 0 is best; always less than ``Selection.penalties``."""


class Selection(NamedTuple):
    """An algorithm that chooses chips."""

    choose: Callable[[int, ChipRequest], Choice | None]
    """choose(free, request): the choice among the chips of the mask ``free``; None if the request does not fit. A pure
    function: the same arguments always give the same choice."""
    penalties: int
    """``Choice.penalty`` is less than this number."""
    any_ids: bool = False
    """The numbers of the chips do not matter: a node with more chips than its family has is used while no more are
    free."""


class JobRequest(NamedTuple):
    """The chips that the active Pods of one job request."""

    pods: Mapping[str, int]
    """``namespace/name`` of each Pod that requests chips -> number of chips."""
    without_chips: int
    """Number of other active Pods of the job, except Pods of the task ``scheduler``."""
    schedulers: int
    """Number of active Pods of the task ``scheduler`` that request no chips."""
    resource: str
    traits: Mapping[str, str]
    """Trait -> its value, for the traits that the job has."""
    block_chips: int
    """Chips of a block: nodes that are in one super pod. All chips of the job by default."""
    super_pod_size: int
    """Largest number of nodes of a super pod."""

    @property
    def total(self) -> int:
        return sum(self.pods.values())


def _accept(request: JobRequest) -> str:
    return ""


class ChipFamily(msgspec.Struct, frozen=True, eq=False):
    """One kind of server or card, as its jobs see it. Compared by identity."""

    name: str
    """The name of its file."""
    title: str
    resources: tuple[str, ...]
    """The extended resources that count its chips."""
    chips: int
    """The largest number of chips of a node. Nodes with more are of another family, unless ``Selection.any_ids``."""
    sizes: frozenset[int]
    """The numbers of chips that a Pod may request."""
    selection: Selection
    policies: frozenset[str] = frozenset()
    """Values of the annotation ``huawei.com/schedule_policy`` that choose the family."""
    traits: Mapping[str, tuple[str, ...]] | None = msgspec.field(default_factory=dict)
    """Trait of a job (``accelerator-type``, ``npu-310-strategy``, ...) -> patterns of its values that choose the
    family; "" means that the job does not have the trait. None: only a policy chooses the family."""
    node_labels: Mapping[str, frozenset[str]] = msgspec.field(default_factory=dict)
    """Label of a Node -> its values on nodes of the family; "" means that the Node does not have the label."""
    check: Callable[[JobRequest], str] = _accept
    """Why a job whose Pods all have valid sizes is invalid as a whole, or ""."""
    avoids_network_faults: bool = True
    """A job of several Pods does not use chips with a network fault."""
    broken_cost: int = 0
    """How much worse each broken chip of a node makes the node, in units of the penalty."""
    missing_is_broken: bool = False
    """A chip that the node has less than ``chips`` counts as broken."""
    npu_configuration: bool = False
    """The device configuration is in the annotation that is named after NPUs, not in that of Ascend 910."""
    super_pods: bool = False
    """The nodes of a job are chosen together, by super pod."""
    group: int = 0
    """Number of chips of a group, if a Pod that requests no more has to stay in one."""
    group_name: str = "card"
    no_group: str = "node(s) had no card with {free}"
    """The reason of nodes without a group that has room. ``{free}``: ``4 free chips``."""

    def sizes_text(self) -> str:
        """Returns the valid requests, for messages: ``1, 2, 4 or 8``, ``1 to 8, 10 or 12``."""
        ranges: list[list[int]] = []
        for size in sorted(self.sizes):
            if ranges and ranges[-1][-1] == size - 1:
                ranges[-1].append(size)
            else:
                ranges.append([size])
        parts: list[str] = []
        for numbers in ranges:
            if len(numbers) > 2:
                parts.append(f"{numbers[0]} to {numbers[-1]}")
            else:
                parts += map(str, numbers)
        *most, last = parts
        return f"{', '.join(most)} or {last}" if most else last


def block_problem(chips: int, job: JobRequest) -> str:
    """Returns why a job in a super pod whose nodes have ``chips`` chips has an invalid annotation ``sp-block``, or
    ""."""
    block = job.block_chips
    asked = f"{job.total} {job.resource}"
    if block > chips and block % chips:
        return f"sp-block={block} is not a multiple of the {chips} chips of a node"
    if block > chips * job.super_pod_size:
        return f"sp-block={block} is more than a super pod of {job.super_pod_size} nodes with {chips} chips has"
    if len(job.pods) == 1:
        return "" if block == job.total else f"one Pod asks for {asked}, and sp-block={block} is not that number"
    if job.total % block:
        return f"the job asks for {asked}, which is not a multiple of sp-block={block}"
    other = next((f"Pod {pod} asks for {number}" for pod, number in job.pods.items() if number != chips), "")
    if other:
        return f"{len(job.pods)} Pods ask for {asked}, and {other}; every Pod of several must ask for {chips}"
    return ""


def up_to(number: int) -> frozenset[int]:
    """Returns the sizes 1 to ``number``."""
    return frozenset(range(1, number + 1))


UNFIT: Final = -1
"""The penalty of a mask in which the request does not fit."""
_SMALL: Final = 8
_MAX_KNOWN: Final = 1 << 16
"""The largest number of known masks; with more, the table begins again."""


class ChipPlacements:
    """The choices of a family's selection for one request, for every mask of free chips."""

    def __init__(self, family: ChipFamily, request: ChipRequest) -> None:
        self._family = family
        self._request = request
        self._depth = family.chips // request.chips
        """The largest number of such requests on one node."""
        self._every = np.uint64(first(family.chips))
        # Without regard to ids, masks with equally many chips are equal, and masks with too many have no room.
        self._by_number: Masks | None = None
        if family.selection.any_ids:
            numbers = range(WIDTH + 1)
            self._by_number = np.array([first(n) if n <= family.chips else NONE for n in numbers], dtype=np.uint64)
        self._choices: dict[int, Choice | None] = {}
        self._known: Masks = np.zeros(0, dtype=np.uint64)
        self._penalties: NDArray[np.int64] = np.zeros((self._depth + 1, 0), dtype=np.int64)
        """Shape (depth + 1, known masks): the penalty of the next task after 0 to ``depth`` tasks have taken chips."""
        self._room: Counts = np.zeros(0, dtype=np.int64)
        if family.chips <= _SMALL:
            self._learn(np.arange(1 << family.chips, dtype=np.uint64))

    def choice(self, free: int) -> Choice | None:
        """Returns the choice of one task on a node with these free chips."""
        if self._by_number is None:
            free &= int(self._every)
        elif free.bit_count() > self._family.chips:
            return None
        if free not in self._choices:
            self._choices[free] = self._family.selection.choose(free, self._request)
        return self._choices[free]

    def room(self, free: Masks) -> Counts:
        """Returns the number of tasks that fit one after the other, per mask."""
        at = self._find(free)  # may replace the arrays
        room: Counts = self._room[at]
        return room

    def penalty(self, free: Masks, ahead: Counts | None) -> NDArray[np.int64]:
        """Returns the penalty of the next task per mask, after ``ahead`` tasks (None: no task) have taken chips; UNFIT
        if it does not fit."""
        at = self._find(free)
        found: NDArray[np.int64] = self._penalties[0 if ahead is None else np.minimum(ahead, self._depth), at]
        return found

    def _find(self, free: Masks) -> NDArray[np.intp]:
        """Returns the position of each mask among the known ones."""
        masks: Masks = free & self._every if self._by_number is None else self._by_number[np.bitwise_count(free)]
        if self._family.chips <= _SMALL:
            return masks.astype(np.intp)
        at = np.searchsorted(self._known, masks)
        if len(self._known) and (self._known[np.minimum(at, len(self._known) - 1)] == masks).all():
            return at
        missing = np.setdiff1d(masks, self._known)
        if len(self._known) + len(missing) > _MAX_KNOWN:
            self._known, self._penalties, self._choices = self._known[:0], self._penalties[:, :0], {}
            missing = np.unique(masks)
        self._learn(missing)
        return np.searchsorted(self._known, masks)

    def _learn(self, masks: Masks) -> None:
        new = np.full((self._depth + 1, len(masks)), UNFIT, dtype=np.int64)
        for position, mask in enumerate(masks.tolist()):
            free = mask
            for placed in range(self._depth):
                choice = self.choice(free)
                if choice is None:
                    break
                new[placed, position] = choice.penalty
                free &= ~mask_of(choice.chips)
        known = np.concatenate((self._known, masks))
        order = np.argsort(known)
        self._known, self._penalties = known[order], np.concatenate((self._penalties, new), axis=1)[:, order]
        self._room = (self._penalties != UNFIT).sum(axis=0, dtype=np.int64)


@lru_cache(maxsize=1024)
def placements(family: ChipFamily, request: ChipRequest) -> ChipPlacements:
    """Returns the table of a family and a request."""
    return ChipPlacements(family, request)
