"""The parts of chips on all nodes at the start of a session, as columns.

Sessions share the columns. From one session to the next, only the rows change whose node has a changed object, Pod with
chips, or report of the device plugin.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from scheduler.api.names import DEVICE_INFO_CONFIGMAP_PREFIX, DEVICE_INFO_NAMESPACE
from scheduler.api.node import Mask, Rows
from scheduler.api.objects import ConfigMap, Node
from scheduler.api.reasons import Malformed
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import Task
from scheduler.framework.node_values import NodeReading, NodeValues, ObjectsByNode, node_columns
from scheduler.plugins.ascend.cluster_reports import ClusterReports, NodeReport
from scheduler.plugins.ascend.device_lists import NodeSources
from scheduler.plugins.ascend.inventory import whole_chips
from scheduler.plugins.ascend.masks import NONE, Masks, ids_of, mask_of
from scheduler.plugins.ascend.resources import ChipRequests, ChipResource
from scheduler.plugins.ascend.vnpu.answers import NO_STATE, States
from scheduler.plugins.ascend.vnpu.inventory import NodeParts, PartRules, read_parts
from scheduler.plugins.ascend.vnpu.models import ChipModel
from scheduler.plugins.ascend.vnpu.selection import DividedNode, PartUse, node_of

_FEW: Final = 256
"""Up to this number of states, those that no node has any more are kept."""


class ChipKind(NamedTuple):
    """What the chips of a node are."""

    model: ChipModel
    size: int
    """AI cores of a chip."""


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

    def rows_of(self, resource: str) -> Mask:
        """Returns the nodes whose chips are those of a resource."""
        numbers = [number for number, kind in enumerate(self.kinds) if kind.model.resource == resource]
        return np.isin(self.kind, numbers)


def read_columns(snapshot: Snapshot, position: int | None, reports: ClusterReports) -> PartColumns:
    """Returns the parts of the nodes on which AI cores are allocatable. ``position``: that of the AI cores in resource
    vectors; None: no node and no Pod has any."""
    nodes, since = snapshot.nodes, snapshot.signed_since
    requests: dict[str, ChipRequests] = {}

    def requests_of(resource: str) -> ChipRequests:
        if resource not in requests:
            requests[resource] = ChipRequests(ChipResource(resource), snapshot.dimensions)
        return requests[resource]

    def rows() -> Rows:
        none: Rows = np.zeros(0, dtype=np.intp)
        return none if position is None else np.flatnonzero(whole_chips(nodes.allocatable[position]) > 0)

    def read(
        row: int, node: Node, config_map: ConfigMap | None, copied: NodeReport | None, tasks: tuple[Task, ...] | None
    ) -> NodeParts:
        assert position is not None
        total = int(whole_chips(nodes.allocatable[position, row]))
        rules = PartRules(position, requests_of, since)
        return read_parts(NodeSources(node, config_map, copied, tasks or ()), rules, total)

    sources = (
        ObjectsByNode(snapshot.config_maps, f"{DEVICE_INFO_NAMESPACE}/{DEVICE_INFO_CONFIGMAP_PREFIX}"),
        ObjectsByNode(reports.reports, DEVICE_INFO_CONFIGMAP_PREFIX),
        ObjectsByNode(snapshot.chips),
    )
    reading = NodeReading(("ascend", "parts"), rows, sources, read, (since, position))
    return node_columns(snapshot.memory, nodes, reading, _columns)


def _columns(values: NodeValues[NodeParts], number: int, before: PartColumns | None) -> PartColumns:
    """Returns the columns of the values. ``number`` is that of all nodes; ``before``: the columns of the values that
    these follow, if they are known."""
    rows, parts = values.rows.tolist(), values.values
    if before is None:
        changed: Sequence[int] = range(len(parts))
        kind, now, later = (np.full(number, NO_STATE, dtype=np.intp) for _ in range(3))
        held: Masks = np.zeros(number, dtype=np.uint64)
        kinds: dict[ChipKind, int] = {}
        states: dict[DividedNode, int] = {}
        by_row: dict[int, NodeParts] = {}
    else:
        changed = values.changed
        kind, now, later = before.kind.copy(), before.now.copy(), before.later.copy()
        held, by_row = before.held.copy(), dict(before.by_row)
        kinds = {each: i for i, each in enumerate(before.kinds)}
        states = {each: i for i, each in enumerate(before.known)}
    for i in changed:
        row, node = rows[i], parts[i]
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
    return PartColumns(by_row, problems, tuple(kinds), kind, known, now, later, held)


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
