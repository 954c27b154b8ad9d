"""The chips of each node that can be divided, and what is free of them at the start of a session.

The labels of a Node say which model its chips are and how many AI cores each has. The chips are those that the device
plugin lists or, without a list, that the Node names, and those that Pods with AI cores hold. Chips that Pods hold whole
by the chips' own resource (``huawei.com/Ascend310P``), and chips that are not healthy, cannot be divided.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from scheduler.api.names import (
    ACCELERATOR,
    CHIP_NAME,
    NPU_CORE,
    SERVER_TYPE,
)
from scheduler.api.objects import Node
from scheduler.api.reasons import Malformed
from scheduler.api.task import TaskStatus
from scheduler.plugins.ascend.device_lists import NodeSources, reported_lists
from scheduler.plugins.ascend.holdings import holding as whole_holding
from scheduler.plugins.ascend.inventory import named_chips
from scheduler.plugins.ascend.masks import ALL, NONE, lowest, mask_of
from scheduler.plugins.ascend.resources import ChipRequests, ChipResource, units
from scheduler.plugins.ascend.vnpu.holdings import CoreHolding, holding
from scheduler.plugins.ascend.vnpu.models import MODELS, ChipModel
from scheduler.plugins.ascend.vnpu.selection import PartUse

_A3: Final = "Ascend910A3-"
_IGNORED: Final = "its chips are not divided"


class NodeParts(NamedTuple):
    """The chips of one node that can be divided."""

    model: ChipModel | None
    """The model of the chips; None: they cannot be divided."""
    size: int
    """AI cores of a chip."""
    chips: int
    """Mask of the chips of which parts, or all cores, can be given away; NONE if uncertainty closes the node."""
    holdings: dict[str, CoreHolding]
    """uid -> what a Pod holds."""
    leaving: frozenset[str]
    """uids of the terminating Pods among these."""
    problems: tuple[Malformed, ...]

    @property
    def uses(self) -> dict[str, tuple[PartUse, ...]]:
        """uid -> the parts that a Pod has."""
        return {uid: held.uses for uid, held in self.holdings.items() if held.uses}

    @property
    def barred(self) -> int:
        """Mask of the chips of which Pods may have parts that are not known."""
        mask = ALL if any(held.unknown for held in self.holdings.values()) else NONE
        for held in self.holdings.values():
            mask |= held.doubtful
        return mask


class PartRules(NamedTuple):
    """How the parts of chips are read in a session, on all nodes."""

    position: int
    """The position of the AI cores in resource vectors."""
    requests_of: Callable[[str], ChipRequests]
    """Name of a resource -> requests for whole chips."""
    since: float
    """Unix time from which on bindings are recorded."""


def read_parts(sources: NodeSources, rules: PartRules, total: int) -> NodeParts:
    """Returns the parts of one node with ``total`` allocatable AI cores."""
    problems: list[Malformed] = []
    found = _model(sources.node, total, problems)
    if found is None:
        return NodeParts(None, 0, NONE, {}, frozenset(), tuple(problems))
    model, size = found
    number, tasks = total // size, sources.tasks
    resource, requests = ChipResource(model.resource), rules.requests_of(model.resource)
    lists = reported_lists(resource, sources, problems)
    held = whole = doubtful = NONE
    closed = False
    holdings = {}
    for task in tasks:
        if requests.whole(task.cls):
            # What is wrong with these is reported where whole chips are read.
            chips = whole_holding(resource, task, requests, rules.since, [])
            whole |= chips.held | chips.doubtful
            closed = closed or chips.unknown or chips.unnamed > 0
        of_task = holding(model, size, task, units(task.cls, rules.position), rules.since, problems)
        if of_task != CoreHolding():
            holdings[task.uid] = of_task
            held |= mask_of(use.chip for use in of_task.uses)
            doubtful |= of_task.doubtful
            closed = closed or of_task.unknown
    unusable = NONE if lists is None else lists.unusable
    listed = named_chips(resource, sources.node, problems) if lists is None else lists.free
    if lists is None and not listed:
        listed = lowest(ALL, number)
    there = held & ~unusable
    there |= lowest(listed & ~held & ~whole & ~unusable, number - (held | whole).bit_count())
    chips_there = NONE if closed else there & ~whole & ~doubtful
    leaving = frozenset(task.uid for task in tasks if task.uid in holdings and task.status is TaskStatus.RELEASING)
    return NodeParts(model, size, chips_there, holdings, leaving, tuple(problems))


def _model(node: Node, total: int, problems: list[Malformed]) -> tuple[ChipModel, int] | None:
    """Returns the model of a node's chips and the cores of a chip; None, with a problem, if the labels do not say."""
    labels = node.metadata.labels or {}
    kind, server = labels.get(ACCELERATOR, "").partition("-")[2], labels.get(SERVER_TYPE, "")
    key, name = SERVER_TYPE, server
    if not server.startswith(_A3):
        key, name = (ACCELERATOR, kind) if kind in MODELS else (CHIP_NAME, labels.get(CHIP_NAME, ""))
    model = MODELS.get(name)
    fields = server.split("-")
    digits = fields[1] if len(fields) > 1 else ""
    size = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 4 else 0
    problem = ""
    if model is None:
        problem = f"{name[:64]!r} is no model of chips that can be divided; known: {', '.join(MODELS)}"
    elif size not in model.cores:
        sizes = " or ".join(map(str, sorted(model.cores)))
        key, problem = SERVER_TYPE, f"{server[:64]!r} does not say that a chip of {model.name} has {sizes} AI cores"
    elif total % size:
        key, problem = SERVER_TYPE, f"{total} {NPU_CORE} of the node are not a multiple of {size} AI cores per chip"
    if model is None or problem:
        problems.append(Malformed("Node", "", node.metadata.name, f"metadata.labels[{key}]", problem, _IGNORED))
        return None
    return model, size
