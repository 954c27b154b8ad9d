"""The chips of one resource on all nodes in one session: free, allocated, pipelined, and held by terminating Pods.

All families that use the resource share the ledger. A pipelined task reserves chips, free ones or those of terminating
Pods: no other task can take them, but the task is not bound. Evicting a Pod does not free its chips; it makes them
available to pipelined tasks.

Sessions share the columns with the chips at their start. From one session to the next, only the rows change whose node
has a changed object, Pod with chips, or report.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.device_states import Availability
from scheduler.api.job import Job
from scheduler.api.node import Mask, Rows
from scheduler.api.reasons import Malformed
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import Task, TaskClass
from scheduler.framework.columns import Counts
from scheduler.framework.kept_values import NodeReading, NodeValues, node_columns
from scheduler.framework.ledger import Ledger
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.statement import AllocationError
from scheduler.plugins.ascend.cluster_reports import ClusterReports
from scheduler.plugins.ascend.demand import ChipDemand, ChipUse
from scheduler.plugins.ascend.device_lists import NodeSources, sources_by_node
from scheduler.plugins.ascend.family import placements
from scheduler.plugins.ascend.inventory import ChipRules, NodeChips, read_chips, whole_chips
from scheduler.plugins.ascend.masks import ALL, NONE, Masks, mask_of
from scheduler.plugins.ascend.npu_requests import ChipResource
from scheduler.plugins.ascend.shares import ShareUse


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
    """Returns the chips of the nodes on which chips of the resource are allocatable. ``position``: the index of the
    resource in resource vectors."""
    nodes = snapshot.nodes
    allocatable = cache(lambda: whole_chips(nodes.allocatable[position]))

    def read(row: int, *objects: Any) -> NodeChips:
        return read_chips(NodeSources.of(*objects), rules, int(allocatable()[row]))

    reading = NodeReading(
        key=("ascend", "chips", rules.resource.name),
        rows=lambda: np.flatnonzero(allocatable() > 0),
        sources=sources_by_node(snapshot, reports),
        make=read,
        constants=(rules.since, rules.self_maintain),
    )
    return node_columns(snapshot.memory, nodes, reading, _columns)


def _columns(values: NodeValues[NodeChips], number: int, before: ChipColumns | None) -> ChipColumns:
    """Returns the columns of the values. ``number``: the number of all nodes; ``before``: the columns of the values
    that these follow, if they are known."""
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


NO_CHIPS: tuple[int, ...] = ()


class ChipLedger(Ledger[int]):
    """Columns of masks of shape (nodes,), and the chips of each task that the session placed."""

    def __init__(
        self,
        session: PluginSession,
        resource: ChipResource,
        demand: ChipDemand,
        chips: ChipColumns,
        allocatable: Counts,
    ) -> None:
        """``allocatable``: the number of chips in the Node's status, shape (nodes,)."""
        super().__init__()
        self.resource = resource
        self.allocatable = allocatable
        self._names = session.nodes.names
        self._demand = demand
        self._chips = chips
        self.free = chips.free.copy()
        self.capacity = chips.capacity
        """The number of healthy chips of each node."""
        self.broken = chips.broken
        self.contradictory = chips.contradictory
        """Nodes on which more chips seem free than the Pods leave idle."""
        self.unreported = chips.unreported
        """Nodes that name their chips but have no readable list of free chips."""
        self.sub_healthy: Mask = chips.sub_healthy != NONE
        """Nodes with chips that have a fault that jobs may ignore."""
        index, unready = session.nodes.index, session.nodes.facts.unready
        self.countable = int(chips.countable.sum()) - sum(int(chips.countable[index[name]]) for name in unready)
        """Number of chips in the cluster that count as free when jobs are admitted to their queues."""
        self.super_pods = chips.super_pod
        """The id of the super pod of each node; negative: none."""
        self._releasing = chips.releasing.copy()
        self._network_faults = chips.network_faults
        self.faulty: Mask = (self.broken > 0) | (self._network_faults != NONE)
        """Nodes with a chip that is missing, does not work, or has a network fault."""
        self._pipelined_masks: Masks = np.zeros_like(self.free)
        self.in_parts: Masks = np.zeros_like(self.free)
        """Masks of the chips that virtual NPUs have parts of. ``vnpu.ledger`` keeps them."""
        self._taken: dict[str, tuple[int, ...]] = {}
        """uid -> chips of a task that this session allocated, in their order."""
        self._rows: dict[str, int] = {}
        """uid -> row of the node on which this session placed the task last."""
        self._pipelined: dict[str, int] = {}
        """uid -> mask of the chips of a task that this session pipelined."""

    def add_network_faults(self, row: int, mask: int) -> None:
        """Chips of a node count as having a network fault in this session. Call it before any task is placed."""
        if mask:
            self._network_faults = self._network_faults.copy()
            self._network_faults[row] |= np.uint64(mask)

    # --- columns ---
    def usable(self, rows: Rows | int, without_faults: bool) -> Masks:
        """Masks of the chips that are free and not pipelined. ``without_faults``: without those that have a network
        fault."""
        free: Masks = self.free[rows] & ~self._pipelined_masks[rows] & ~self.in_parts[rows]
        return free & ~self._network_faults[rows] if without_faults else free

    def future_usable(self, rows: Rows | int, without_faults: bool) -> Masks:
        """Masks of the chips that are free after terminating Pods are deleted, and not pipelined."""
        later: Masks = (self.free[rows] | self._releasing[rows]) & ~self._pipelined_masks[rows] & ~self.in_parts[rows]
        return later & ~self._network_faults[rows] if without_faults else later

    def assigned(self, rows: Rows) -> Masks:
        """Masks of the chips that this session allocated or pipelined."""
        masks: Masks = (self._chips.free[rows] & ~self.free[rows]) | self._pipelined_masks[rows]
        return masks

    def placed(self) -> Iterator[tuple[str, int, int, bool]]:
        """Yields the tasks that this session placed: uid, row of the node, mask of the chips, and whether they are
        pipelined."""
        yield from ((uid, self._rows[uid], mask_of(chips), False) for uid, chips in self._taken.items())
        yield from ((uid, self._rows[uid], mask, True) for uid, mask in self._pipelined.items())

    def taken(self, task: Task) -> tuple[int, ...]:
        """Returns the chips that this session allocated to a task, in their order; empty if there are none."""
        return self._taken.get(task.uid, NO_CHIPS)

    def by_availability(self, excluded: Mask) -> dict[Availability, Masks]:
        """Masks of the existing chips of each node by their state. ``excluded``: shape (nodes,), the nodes whose free
        chips no Pod gets. ``chip_states`` describes single chips in the same way."""
        chips = self._chips
        unhealthy = chips.present & (chips.unusable | chips.recovering)
        given = (chips.free & ~self.free) | self._pipelined_masks | chips.occupied | self.in_parts
        allocated = chips.present & given & ~unhealthy
        idle = chips.present & self.free & ~(unhealthy | allocated)
        idle[excluded] = NONE
        degraded = idle & (chips.network_faults | chips.sub_healthy)
        return {
            Availability.FREE: idle & ~degraded,
            Availability.DEGRADED: degraded,
            Availability.ALLOCATED: allocated,
            Availability.UNHEALTHY: unhealthy,
            Availability.UNKNOWN: chips.present & ~(unhealthy | allocated | idle),
        }

    # --- placements ---
    def concerns(self, cls: TaskClass) -> bool:
        return self._demand.chips(cls, self.resource) > 0

    def _take(self, job: Job, task: Task, row: int, *, pipelined: bool) -> None:
        use = self._demand.npu_use(job)
        if isinstance(use, ShareUse):
            return  # ``share_ledger`` gives the Pod its share
        if not isinstance(use, ChipUse):
            raise AllocationError(f"Pod {task.key} has no family of chips")
        request = use.request(self._demand.chips(task.cls, self.resource))
        usable = int((self.future_usable if pipelined else self.usable)(row, use.without_faults))
        choice = placements(use.family, request).choice(usable) if request.chips in use.family.sizes else None
        if choice is None:
            raise AllocationError(
                f"node {self._names[row]} has no place for {request.chips} {self.resource.name} of Pod {task.key}"
            )
        mask = mask_of(choice.chips)
        self._rows[task.uid] = row
        if pipelined:
            self._pipelined_masks[row] |= np.uint64(mask)
            self._pipelined[task.uid] = mask
        else:
            self.free[row] &= np.uint64(ALL & ~mask)
            self._taken[task.uid] = choice.chips

    def _release(self, task: Task, row: int) -> None:
        if task.uid in self._pipelined:
            self._pipelined_masks[row] &= np.uint64(ALL & ~self._pipelined.pop(task.uid))
        else:
            self.free[row] |= np.uint64(mask_of(self._taken.pop(task.uid, NO_CHIPS)))

    def held(self, row: int, uid: str) -> int:
        """Returns the mask of the chips that the end of a task on a node frees."""
        if uid in self._taken:
            return mask_of(self._taken[uid])
        return self._chips.by_row[row].freed.get(uid, NONE) if row in self._chips.by_row else NONE

    def _evict(self, task: Task, row: int) -> int:
        held = self.held(row, task.uid)
        # Only chips that are not releasing already, so that undoing the eviction restores the column exactly.
        leaving = held & ~int(self._releasing[row] | self.free[row] | self._chips.unusable[row])
        self._releasing[row] |= np.uint64(leaving)
        return leaving

    def _restore(self, row: int, held: int) -> None:
        self._releasing[row] &= np.uint64(ALL & ~held)
