"""The chips of nodes that can be divided, and what is free of them at the start of a session.

The labels of a Node say which model its chips are and how many AI cores each has. The chips are those that the device
plugin lists or, without a list, that the Node names, and those that Pods with AI cores hold. Chips that Pods hold whole
by the chips' own resource (``huawei.com/Ascend310P``), and chips that are not healthy, cannot be divided.

Sessions share the columns of all nodes. From one session to the next, only the rows change whose node has a changed
object, Pod with chips, or report of the device plugin.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from scheduler.api.names import NPU_CORE, SERVER_TYPE
from scheduler.api.node import Mask, Rows
from scheduler.api.objects import Node
from scheduler.api.reasons import Malformed
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import TaskStatus
from scheduler.framework.kept_values import NodeReading, NodeValues, node_columns
from scheduler.plugins.ascend.cluster_reports import ClusterReports
from scheduler.plugins.ascend.device_lists import NodeSources, reported_lists, sources_by_node
from scheduler.plugins.ascend.holdings import holding as whole_holding
from scheduler.plugins.ascend.inventory import named_chips, whole_chips
from scheduler.plugins.ascend.masks import ALL, NONE, Masks, ids_of, lowest, mask_of
from scheduler.plugins.ascend.npu_requests import ChipRequests, ChipResource, units
from scheduler.plugins.ascend.vnpu.holdings import CoreHolding, holding
from scheduler.plugins.ascend.vnpu.models import ChipKind, ChipModel, UnknownModel, model_of
from scheduler.plugins.ascend.vnpu.selection import NO_STATE, DividedNode, PartUse, States, node_of

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
    unusable: int = NONE
    """Mask of the chips that are not healthy."""

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
    return NodeParts(model, size, chips_there, holdings, leaving, tuple(problems), unusable | whole)


def _model(node: Node, total: int, problems: list[Malformed]) -> ChipKind | None:
    """Returns the model of a node's chips and the cores of a chip; None, with a problem, if the labels do not say."""
    found = model_of(node.metadata.labels or {})
    if isinstance(found, ChipKind):
        if total % found.size == 0:
            return found
        cores = f"{found.size} AI cores per chip"
        found = UnknownModel(SERVER_TYPE, f"{total} {NPU_CORE} of the node are not a multiple of {cores}")
    where = f"metadata.labels[{found.label}]"
    problems.append(Malformed("Node", "", node.metadata.name, where, found.problem, _IGNORED))
    return None


REPORT_DELAY: Final = 10.0
"""Seconds after which the device plugin has reported that a chip is free whose Pods have ended."""
_FEW: Final = 256
"""Up to this number of states, those that no node has any more are kept."""


class Released(NamedTuple):
    """Chips that are about to be free."""

    chips: int
    """A mask."""
    since: float
    """When the last of their Pods was gone, in Unix seconds."""


class PartColumns(NamedTuple):
    """Columns have the shape (nodes,)."""

    by_row: Mapping[int, NodeParts]
    """The nodes with AI cores."""
    problems: tuple[Malformed, ...]
    kinds: tuple[ChipKind, ...]
    kind: Rows
    """The position of each node's kind in ``kinds``; -1: no chips that can be divided."""
    known: tuple[DividedNode, ...]
    """The states of nodes; the number of a state is its position."""
    now: States
    """The number of each node's state."""
    later: States
    """The number of each node's state after terminating Pods are deleted."""
    held: Masks
    """The chips of which Pods have parts, or may have."""
    released: Mapping[int, Released]
    """Row -> chips whose Pods have ended, and which the device plugin has not reported as free since then."""

    def rows_of(self, resource: str) -> Mask:
        """Returns the nodes whose chips are those of a resource."""
        numbers = [number for number, kind in enumerate(self.kinds) if kind.model.resource == resource]
        return np.isin(self.kind, numbers)


def read_columns(snapshot: Snapshot, position: int | None, reports: ClusterReports) -> PartColumns:
    """Returns the parts of the nodes on which AI cores are allocatable. ``position``: the index of the AI cores in
    resource vectors; None: no node and no Pod has any."""
    nodes, since = snapshot.nodes, snapshot.signed_since
    requests: dict[str, ChipRequests] = {}

    def requests_of(resource: str) -> ChipRequests:
        if resource not in requests:
            requests[resource] = ChipRequests(ChipResource(resource), snapshot.dimensions)
        return requests[resource]

    def rows() -> Rows:
        none: Rows = np.zeros(0, dtype=np.intp)
        return none if position is None else np.flatnonzero(whole_chips(nodes.allocatable[position]) > 0)

    def read(row: int, *objects: Any) -> NodeParts:
        assert position is not None
        total = int(whole_chips(nodes.allocatable[position, row]))
        return read_parts(NodeSources.of(*objects), PartRules(position, requests_of, since), total)

    sources = sources_by_node(snapshot, reports)
    reading = NodeReading(("ascend", "parts"), rows, sources, read, (since, position))

    def columns(values: NodeValues[NodeParts], number: int, before: PartColumns | None) -> PartColumns:
        return _columns(values, number, before, snapshot.now)

    return node_columns(snapshot.memory, nodes, reading, columns)


def _columns(values: NodeValues[NodeParts], number: int, before: PartColumns | None, at: float) -> PartColumns:
    """Returns the columns of the values. ``number``: the number of all nodes; ``before``: the columns of the values
    that these follow, if they are known; ``at``: the time of the session."""
    rows, parts = values.rows.tolist(), values.values
    if before is None:
        changed: Sequence[int] = range(len(parts))
        kind, now, later = (np.full(number, NO_STATE, dtype=np.intp) for _ in range(3))
        held: Masks = np.zeros(number, dtype=np.uint64)
        kinds: dict[ChipKind, int] = {}
        states: dict[DividedNode, int] = {}
        by_row: dict[int, NodeParts] = {}
        released: dict[int, Released] = {}
    else:
        changed = values.changed
        kind, now, later = before.kind.copy(), before.now.copy(), before.later.copy()
        held, by_row, released = before.held.copy(), dict(before.by_row), dict(before.released)
        kinds = {each: i for i, each in enumerate(before.kinds)}
        states = {each: i for i, each in enumerate(before.known)}
    for i in changed:
        row, node = rows[i], parts[i]
        chips = _released(by_row.get(row), released.pop(row, None), node, at)
        if chips is not None:
            released[row] = chips
        by_row[row] = node
        kind[row], now[row], later[row], held[row] = NO_STATE, NO_STATE, NO_STATE, NONE
        if node.model is None:
            continue
        uses = node.uses
        kind[row] = kinds.setdefault(ChipKind(node.model, node.size), len(kinds))
        staying = {uid: found for uid, found in uses.items() if uid not in node.leaving}
        now[row] = states.setdefault(state_of(node, node.chips, uses), len(states))
        later[row] = states.setdefault(state_of(node, node.chips, staying), len(states))
        held[row] = chips_of(uses) | node.barred
    known = tuple(states)
    if len(known) > _FEW:
        known, now, later = _compacted(known, now, later)
    problems = tuple(problem for node in parts if node.problems for problem in node.problems)
    return PartColumns(by_row, problems, tuple(kinds), kind, known, now, later, held, released)


def _released(old: NodeParts | None, last: Released | None, new: NodeParts, now: float) -> Released | None:
    """Returns the chips of a node that its Pods have left, and that are neither listed as free nor unhealthy."""
    if old is None:
        return None
    left = chips_of(old.uses) & ~chips_of(new.uses)
    waiting = left | (NONE if last is None or now - last.since > REPORT_DELAY else last.chips)
    waiting &= ~(new.chips | new.unusable | new.barred | chips_of(new.uses))
    return Released(waiting, now if left or last is None else last.since) if waiting else None


def state_of(node: NodeParts, free: int, uses: Mapping[str, tuple[PartUse, ...]]) -> DividedNode:
    """Returns the state of a node whose chips can be divided. ``free``: mask of its chips; ``uses``: uid -> what a Pod
    has."""
    assert node.model is not None
    return node_of(node.model, node.size, ids_of(free), [use for found in uses.values() for use in found])


def chips_of(uses: Mapping[str, tuple[PartUse, ...]]) -> int:
    """Returns the mask of the chips of which Pods have parts."""
    return mask_of({use.chip for found in uses.values() for use in found})


def _compacted(
    known: tuple[DividedNode, ...], now: States, later: States
) -> tuple[tuple[DividedNode, ...], States, States]:
    """Leaves out the states that no node has, if they are the most."""
    used = np.unique(np.concatenate([now, later]))
    used = used[used != NO_STATE]
    if 2 * len(used) > len(known):
        return known, now, later
    numbers = np.full(len(known) + 1, NO_STATE, dtype=np.intp)  # the last is that of NO_STATE
    numbers[used] = np.arange(len(used))
    return tuple(known[i] for i in used.tolist()), numbers[now], numbers[later]
