"""The data of a family of Ascend chips, and the answer of a selection algorithm.

A family belongs to a job: its resource, node selector, labels and annotations choose it (``resolve``). A family is
data: which requests are valid, how chips are grouped, and which selection algorithm chooses them. Each family is one
file in ``families``.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

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
    """How good the node is for the Pod: 0 is best; always less than ``ChipFamily.penalties``."""


Selection = Callable[[int, ChipRequest], Choice | None]
"""selection(free, request): the choice among the chips of the mask ``free``; None if the request does not fit. A pure
function: the same arguments always give the same choice."""


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
    """The largest number of chips of a node. Nodes with more are of another family, unless ``any_ids``."""
    sizes: frozenset[int]
    """The numbers of chips that a Pod may request."""
    select: Selection
    penalties: int
    """``Choice.penalty`` is less than this number."""
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
    any_ids: bool = False
    """The numbers of the chips do not matter: a node with more chips than ``chips`` is used while no more are free."""
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
