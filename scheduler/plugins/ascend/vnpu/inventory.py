"""The chips of each node that can be divided, and what is free of them at the start of a session.

The labels of a Node say which model its chips are and how many AI cores each has. The chips are those that the device
plugin lists or, without a list, that the Node names, and those that Pods with AI cores hold. Chips that Pods hold whole
by the chips' own resource (``huawei.com/Ascend310P``), and chips that are not healthy, cannot be divided.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from scheduler.api.names import (
    ACCELERATOR,
    CHIP_NAME,
    NPU_CORE,
    SERVER_TYPE,
)
from scheduler.api.node import Rows
from scheduler.api.objects import ConfigMap, Node
from scheduler.api.reasons import Malformed
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import Task
from scheduler.framework.readings import Readings
from scheduler.plugins.ascend.cluster_reports import ClusterReports, Report
from scheduler.plugins.ascend.holdings import holding as whole_holding
from scheduler.plugins.ascend.inventory import device_reports, named_chips, reported_lists
from scheduler.plugins.ascend.masks import ALL, NONE, lowest, mask_of
from scheduler.plugins.ascend.resources import ChipRequests, ChipResource, units
from scheduler.plugins.ascend.vnpu.holdings import CoreHolding, holding
from scheduler.plugins.ascend.vnpu.models import MODELS, Model

_A3: Final = "Ascend910A3-"
_IGNORED: Final = "its chips are not divided"


class NodeParts(NamedTuple):
    """The chips of one node that can be divided."""

    model: Model | None
    """None: the chips cannot be divided."""
    size: int
    """AI cores of a chip."""
    chips: int
    """Mask of the chips of which parts, or all cores, can be given away; NONE if uncertainty closes the node."""
    holdings: dict[str, CoreHolding]
    """uid -> what a Pod holds."""
    problems: tuple[Malformed, ...]


_readings: Final[Readings[str, NodeParts]] = Readings()


def read_nodes(snapshot: Snapshot, rows: Rows, cores: Sequence[int], reports: ClusterReports) -> list[NodeParts]:
    """Returns the parts of the nodes at ``rows``. ``cores``: allocatable AI cores per row."""
    objects, names = snapshot.nodes.facts.objects, snapshot.nodes.names
    maps, since = snapshot.config_maps, snapshot.signed_since
    position = snapshot.dimensions.find(NPU_CORE)
    number = {names[row]: amount for row, amount in zip(rows.tolist(), cores, strict=True)}
    requests: dict[str, ChipRequests] = {}

    def requests_of(resource: str) -> ChipRequests:
        if resource not in requests:
            requests[resource] = ChipRequests(ChipResource(resource), snapshot.dimensions)
        return requests[resource]

    sources = {
        names[row]: (
            objects[row],
            *device_reports(names[row], maps, reports),
            snapshot.chips.get(names[row], ()),
            since,
        )
        for row in rows.tolist()
    }

    def read(name: str) -> NodeParts:
        node, config_map, copied, tasks, _ = sources[name]
        total = number[name]
        problems: list[Malformed] = []
        found = _model(node, total, problems)
        if found is None:
            return NodeParts(None, 0, NONE, {}, tuple(problems))
        model, size = found
        whole = requests_of(model.resource)
        asked = {task.uid: units(task.cls, position) for task in tasks}
        return _read(node, config_map, copied, tasks, model, size, total // size, asked, whole, since, problems)

    return list(_readings.of(sources.items(), read).values())


def _model(node: Node, total: int, problems: list[Malformed]) -> tuple[Model, int] | None:
    """The model of a node's chips and the cores of a chip; None, with a problem, if the labels do not say."""
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


def _read(
    node: Node,
    config_map: ConfigMap | None,
    copied: Report | None,
    tasks: Sequence[Task],
    model: Model,
    size: int,
    number: int,
    asked: dict[str, int],
    requests: ChipRequests,
    since: float,
    problems: list[Malformed],
) -> NodeParts:
    """``number``: of chips; ``asked``: uid -> AI cores."""
    resource = ChipResource(model.resource)
    lists = reported_lists(resource, node, config_map, copied, problems)
    held = whole = doubtful = NONE
    closed = False
    holdings = {}
    for task in tasks:
        cores = asked[task.uid]
        if requests.whole(task.cls):
            # What is wrong with these is reported where whole chips are read.
            chips = whole_holding(resource, task, requests, since, [])
            whole |= chips.held | chips.doubtful
            closed = closed or chips.unknown or chips.unnamed > 0
        found = holding(model, size, task, cores, since, problems)
        if found != CoreHolding():
            holdings[task.uid] = found
            held |= mask_of(use.chip for use in found.uses)
            doubtful |= found.doubtful
            closed = closed or found.unknown
    unusable = NONE if lists is None else lists.unusable
    listed = named_chips(resource, node, problems) if lists is None else lists.free
    if lists is None and not listed:
        listed = lowest(ALL, number)
    there = held & ~unusable
    there |= lowest(listed & ~held & ~whole & ~unusable, number - (held | whole).bit_count())
    chips_there = NONE if closed else there & ~whole & ~doubtful
    return NodeParts(model, size, chips_there, holdings, tuple(problems))
