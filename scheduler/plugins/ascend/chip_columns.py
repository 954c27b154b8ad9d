"""The chips of one resource on all nodes at the start of a session, as columns.

Sessions share the columns. From one session to the next, only the rows change whose node has a changed object, Pod with
chips, or report.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.names import DEVICE_INFO_CONFIGMAP_PREFIX, DEVICE_INFO_NAMESPACE
from scheduler.api.node import Mask
from scheduler.api.objects import ConfigMap, Node
from scheduler.api.reasons import Malformed
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import Task
from scheduler.framework.columns import Counts
from scheduler.framework.node_values import NodeReading, NodeValues, ObjectsByNode, node_columns
from scheduler.plugins.ascend.cluster_reports import ClusterReports, NodeReport
from scheduler.plugins.ascend.device_lists import NodeSources
from scheduler.plugins.ascend.inventory import ChipRules, NodeChips, read_chips, whole_chips
from scheduler.plugins.ascend.masks import ALL, NONE, Masks


class ChipColumns(msgspec.Struct, frozen=True, eq=False):
    """Read-only arrays of shape (nodes,) with the fields of ``NodeChips``. Nodes without chips of the resource have the
    values in ``_COLUMNS``."""

    by_row: Mapping[int, NodeChips]
    """The nodes with chips."""
    problems: tuple[Malformed, ...]
    free: Masks
    releasing: Masks
    network_faults: Masks
    unusable: Masks
    sub_healthy: Masks
    present: Masks
    recovering: Masks
    occupied: Masks
    capacity: Counts
    broken: Counts
    countable: Counts
    super_pod: Counts
    contradictory: Mask
    unreported: Mask


class _Column(NamedTuple):
    dtype: Any
    without_chips: int


_MASK: Final = _Column(np.uint64, NONE)
_COUNT: Final = _Column(np.int64, 0)
_FLAG: Final = _Column(np.bool_, False)
_COLUMNS: Final = {
    "free": _MASK,
    "releasing": _MASK,
    "network_faults": _MASK,
    "unusable": _Column(np.uint64, ALL),
    "sub_healthy": _MASK,
    "present": _MASK,
    "recovering": _MASK,
    "occupied": _MASK,
    "capacity": _COUNT,
    "broken": _COUNT,
    "countable": _COUNT,
    "super_pod": _Column(np.int64, -1),
    "contradictory": _FLAG,
    "unreported": _FLAG,
}


def read_columns(snapshot: Snapshot, rules: ChipRules, position: int, reports: ClusterReports) -> ChipColumns:
    """Returns the chips of the nodes on which chips of the resource are allocatable. ``position``: that of the resource
    in resource vectors."""
    nodes = snapshot.nodes
    allocatable = cache(lambda: whole_chips(nodes.allocatable[position]))

    def read(
        row: int, node: Node, config_map: ConfigMap | None, copied: NodeReport | None, tasks: tuple[Task, ...] | None
    ) -> NodeChips:
        return read_chips(NodeSources(node, config_map, copied, tasks or ()), rules, int(allocatable()[row]))

    reading = NodeReading(
        key=("ascend", "chips", rules.resource.name),
        rows=lambda: np.flatnonzero(allocatable() > 0),
        sources=(
            ObjectsByNode(snapshot.config_maps, f"{DEVICE_INFO_NAMESPACE}/{DEVICE_INFO_CONFIGMAP_PREFIX}"),
            ObjectsByNode(reports.reports, DEVICE_INFO_CONFIGMAP_PREFIX),
            ObjectsByNode(snapshot.chips),
        ),
        make=read,
        constants=(rules.since, rules.self_maintain),
    )
    return node_columns(snapshot.memory, nodes, reading, _columns)


def _columns(values: NodeValues[NodeChips], number: int, before: ChipColumns | None) -> ChipColumns:
    """Returns the columns of the values. ``number`` is that of all nodes; ``before``: the columns of the values that
    these follow, if they are known."""
    rows, chips = values.rows, values.values
    if before is not None:
        rows, chips = rows[list(values.changed)], [chips[i] for i in values.changed]
    found: dict[str, Sequence[Any]] = dict(zip(NodeChips._fields, zip(*chips, strict=True), strict=bool(chips)))
    found["occupied"] = [node.occupied for node in chips]
    arrays: dict[str, NDArray[Any]] = {}
    for name, (dtype, without_chips) in _COLUMNS.items():
        if before is None:
            array = np.full(number, without_chips, dtype=dtype)
        else:
            array = getattr(before, name).copy()
        array[rows] = np.array(found.get(name, ()), dtype=dtype)
        array.flags.writeable = False
        arrays[name] = array
    by_row = {} if before is None else dict(before.by_row)
    by_row |= zip(rows.tolist(), chips, strict=True)
    problems = tuple(problem for node in values.values if node.problems for problem in node.problems)
    return ChipColumns(by_row, problems, **arrays)
