"""Virtual NPUs that were created beforehand: devices with names. A Pod gets one of them.

Where a Node lists the names of its devices, in the annotation with the name of the resource or in the device plugin's
ConfigMap, a Pod gets the first one that is free, and chips with such devices are not assigned whole. Where no names are
listed, nodes are chosen by amounts, and the device plugin chooses the device.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from scheduler.api.job import Job
from scheduler.api.names import ASCEND_REAL, DEVICE_INFO_CONFIGMAP_PREFIX, DEVICE_INFO_KEY, DEVICE_INFO_NAMESPACE
from scheduler.api.node import Rows
from scheduler.api.objects import ConfigMap, Node
from scheduler.api.reasons import Malformed
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.api.text_cache import cache_texts
from scheduler.framework.columns import UNBOUNDED, Counts, Scope
from scheduler.framework.kept_values import NodeReading, NodeValues, ObjectsByNode, node_columns
from scheduler.framework.ledger import Ledger
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.statement import AllocationError
from scheduler.plugins.ascend.holdings import disagreement, malformed_annotation
from scheduler.plugins.ascend.masks import MAX_LENGTH, NONE, WIDTH, ChipListError, Masks
from scheduler.plugins.ascend.npu_requests import ChipResource, units
from scheduler.plugins.support.device_info import DeviceInfoError, device_info

_IDS: Final = re.compile(r"(?:0|[1-9][0-9]{0,8})-(0|[1-9][0-9]?)(?:_[0-9]{1,3})?")
"""Id of the device, id of the chip, and optionally the group."""


class NodeDevices(NamedTuple):
    """The devices of one resource on one node."""

    names: tuple[str, ...] | None
    """The names in the order of the list; None: the node lists none."""
    chips: int
    """Mask of the chips that have them."""
    held: dict[str, tuple[str, ...]]
    """uid -> the devices that a Pod has, or may have."""
    leaving: frozenset[str]
    """uids of the terminating Pods among these."""
    problems: tuple[Malformed, ...]


@cache_texts(8192)
def parse_devices(text: str, resource: ChipResource) -> tuple[tuple[str, ...], int]:
    """Parses a list such as ``Ascend910-2c-100-0,Ascend910-2c-101-1``: the names, and the mask of their chips. Raises
    ChipListError."""
    if len(text) > MAX_LENGTH * 32:
        raise ChipListError(f"{len(text)} characters, a list has at most {MAX_LENGTH * 32}")
    names = tuple(text.split(",")) if text else ()
    if len(set(names)) < len(names):
        raise ChipListError("a device is listed twice")
    chips = NONE
    for name in names:
        match = _IDS.fullmatch(name.removeprefix(resource.prefix)) if name.startswith(resource.prefix) else None
        if match is None or int(match.group(1)) >= WIDTH:
            raise ChipListError(f"{name[:64]!r} is not a device's name, {resource.prefix}<device>-<chip> is")
        chips |= 1 << int(match.group(1))
    return names, chips


class DeviceColumns(NamedTuple):
    """The devices of one resource on all nodes at the start of a session. Sessions share it. Columns have the shape
    (nodes,)."""

    by_row: Mapping[int, NodeDevices]
    """The nodes that list names."""
    problems: tuple[Malformed, ...]
    now: Counts
    """The number of free devices; UNBOUNDED where no names are listed."""
    later: Counts
    """The number of free devices after terminating Pods are deleted."""
    chips: Masks
    """The chips that have such devices."""


def read_columns(snapshot: Snapshot, resource: ChipResource, position: int) -> DeviceColumns:
    """Returns the devices of all nodes. From one session to the next, only nodes with a changed object or a changed Pod
    with chips are read. ``position``: the index of the resource in resource vectors."""
    nodes = snapshot.nodes

    def read(row: int, node: Node, config_map: ConfigMap | None, tasks: tuple[Task, ...] | None) -> NodeDevices:
        return _read(resource, position, node, config_map, tasks or ())

    reading = NodeReading(
        key=("ascend", "devices", resource.name),
        rows=lambda: np.flatnonzero(nodes.allocatable[position] > 0),
        sources=(
            ObjectsByNode(snapshot.config_maps, f"{DEVICE_INFO_NAMESPACE}/{DEVICE_INFO_CONFIGMAP_PREFIX}"),
            ObjectsByNode(snapshot.chips),
        ),
        make=read,
        constants=(position,),
    )
    return node_columns(snapshot.memory, nodes, reading, _columns)


def _columns(values: NodeValues[NodeDevices], number: int, before: DeviceColumns | None) -> DeviceColumns:
    """Returns the columns of the values. ``number``: the number of all nodes; ``before``: the columns of the values
    that these follow, if they are known."""
    rows, devices = values.rows.tolist(), values.values
    by_row: dict[int, NodeDevices] = {}
    if before is None:
        changed: Sequence[int] = range(len(devices))
        now: Counts = np.full(number, UNBOUNDED, dtype=np.int64)
        later, chips = now.copy(), np.zeros(number, dtype=np.uint64)
    else:
        changed, by_row = values.changed, dict(before.by_row)
        now, later, chips = before.now.copy(), before.later.copy(), before.chips.copy()
    for i in changed:
        row, node = rows[i], devices[i]
        by_row.pop(row, None)
        now[row] = later[row] = UNBOUNDED
        chips[row] = node.chips
        if node.names is not None:
            by_row[row] = node
            now[row] = len(free_devices(node.names, node.held))
            later[row] = len(free_devices(node.names, node.held, node.leaving))
    problems = tuple(problem for node in devices if node.problems for problem in node.problems)
    return DeviceColumns(by_row, problems, now, later, chips)


def free_devices(names: Iterable[str], held: Mapping[str, tuple[str, ...]], leaving: Collection[str] = ()) -> list[str]:
    """Returns the devices that no Pod has. ``held``: uid -> devices; ``leaving``: uids of the Pods that do not
    count."""
    taken = {name for uid, found in held.items() if uid not in leaving for name in found}
    return [name for name in names if name not in taken]


def _read(
    resource: ChipResource, position: int, node: Node, config_map: ConfigMap | None, tasks: Sequence[Task]
) -> NodeDevices:
    problems: list[Malformed] = []
    listed = _listed(resource, node, config_map, problems)
    if listed is None:
        return NodeDevices(None, NONE, {}, frozenset(), tuple(problems))
    names, chips = listed
    held: dict[str, tuple[str, ...]] = {}
    unnamed: list[str] = []
    for task in tasks:
        asked = units(task.cls, position)
        if asked:
            held[task.uid] = _held(resource, task, problems)
            unnamed += [task.uid] * (asked - len(held[task.uid]))
    # The device plugin chooses the devices of Pods without names. This plugin assigns the first ones first, so assuming
    # the last ones collides least.
    known = {name for found in held.values() for name in found}
    last = [name for name in reversed(names) if name not in known]
    for uid, name in zip(unnamed, last, strict=False):
        held[uid] = (*held[uid], name)
    leaving = frozenset(task.uid for task in tasks if task.uid in held and task.status is TaskStatus.RELEASING)
    return NodeDevices(names, chips, held, leaving, tuple(problems))


def _listed(
    resource: ChipResource, node: Node, config_map: ConfigMap | None, problems: list[Malformed]
) -> tuple[tuple[str, ...], int] | None:
    """Returns the devices that the Node's annotation or else the ConfigMap lists. A malformed list does not count."""
    sources: list[tuple[tuple[str, str, str, str], object]] = []
    annotations = node.metadata.annotations or {}
    if resource.name in annotations:
        place = ("Node", "", node.metadata.name, f"metadata.annotations[{resource.name}]")
        sources.append((place, annotations[resource.name]))
    if config_map is not None:
        meta = config_map.metadata
        try:
            lists: Mapping[str, Any] = device_info((config_map.data or {}).get(DEVICE_INFO_KEY, "")).lists
        except DeviceInfoError:  # reported where whole chips are read
            lists = {}
        if resource.name in lists:
            place = ("ConfigMap", meta.namespace, meta.name, f"data[{DEVICE_INFO_KEY}][{resource.name}]")
            sources.append((place, lists[resource.name]))
    for place, text in sources:
        if not isinstance(text, str):
            problem = f"a comma-separated list is wanted, not {type(text).__name__}"
        else:
            try:
                return parse_devices(text, resource)
            except ChipListError as error:
                problem = str(error)
        problems.append(Malformed(*place, problem, "ignored"))
    return None


def _held(resource: ChipResource, task: Task, problems: list[Malformed]) -> tuple[str, ...]:
    """Returns the devices that a Pod has, or may have: those of its signed record, of its annotations, and of earlier
    ones. A Pod has one device, so longer lists are ignored."""
    recorded = "" if task.record is None else task.record.chips.get(resource.name, "")
    text, real = task.annotations.get(resource.name, ""), task.annotations.get(ASCEND_REAL, "")
    values = [recorded, text, real, *(value for key, value in task.earlier if key in (resource.name, ASCEND_REAL))]
    names: dict[str, None] = {}
    for value in filter(None, values):
        try:
            found, _ = parse_devices(value, resource)
        except ChipListError as error:
            found = ()
            problem = str(error)
        else:
            problem = f"names {len(found)} devices, the Pod asks for 1"
        if len(found) == 1:
            names[found[0].partition("_")[0]] = None
        elif value == text:
            problems.append(malformed_annotation(task, resource.name, problem))
    if len(names) > 1:
        what = f"{', '.join(names)} are named by the binding to node {task.node} and by annotations"
        consequence = "no other Pod is given them while this one exists"
        problems.append(disagreement(task, resource.name, what, consequence))
    return tuple(names)


class VirtualDeviceLedger(Ledger[str]):
    """The devices of one resource in one session. Nodes that list no names have no limit here."""

    def __init__(self, session: PluginSession, resource: ChipResource, position: int) -> None:
        super().__init__()
        self.resource = resource
        self._position = position
        self._node_names = session.nodes.names
        columns = read_columns(session.snapshot, resource, position)
        self.problems = columns.problems
        self.chips = columns.chips
        """Masks of the chips of each node that have such devices."""
        self.nodes = columns.by_row
        """Row -> the node at the start of the session, for nodes that list names."""
        self._now, self._later = columns.now.copy(), columns.later.copy()
        self._held: dict[int, dict[str, tuple[str, ...]]] = {}
        """Row -> uid -> the devices that a Pod has; nodes that did not change in this session are left out."""
        self._leaving: dict[int, set[str]] = {}
        """Row -> uids of terminating Pods; nodes on which none was evicted in this session are left out."""
        self._taken: dict[str, str] = {}

    def room(self, rows: Rows, *, later: bool) -> Counts:
        """Returns the number of free devices. ``later``: after terminating Pods are deleted."""
        room: Counts = (self._later if later else self._now)[rows]
        return room

    def taken(self, task: Task) -> str:
        """Returns the device that this session allocated to a task, or ""."""
        return self._taken.get(task.uid, "")

    def _held_on(self, row: int) -> dict[str, tuple[str, ...]]:
        """Returns uid -> the devices that a Pod has on a node; the caller may change it."""
        if row not in self._held:
            self._held[row] = dict(self.nodes[row].held)
        return self._held[row]

    def _leaving_on(self, row: int) -> set[str]:
        """Returns the uids of the terminating Pods on a node; the caller may change it."""
        if row not in self._leaving:
            self._leaving[row] = set(self.nodes[row].leaving)
        return self._leaving[row]

    def _free(self, row: int, *, later: bool) -> list[str]:
        return free_devices(self.nodes[row].names or (), self._held_on(row), self._leaving_on(row) if later else ())

    def _update(self, row: int) -> None:
        self._now[row], self._later[row] = len(self._free(row, later=False)), len(self._free(row, later=True))

    # --- placements ---
    def concerns(self, cls: TaskClass) -> bool:
        return units(cls, self._position) > 0

    def _take(self, job: Job, task: Task, row: int, *, pipelined: bool) -> None:
        if row not in self.nodes:
            return
        free = self._free(row, later=pipelined)
        if not free:
            node = self._node_names[row]
            raise AllocationError(f"node {node} has no free device of {self.resource.name} for Pod {task.key}")
        self._held_on(row)[task.uid] = (free[0],)
        if not pipelined:
            self._taken[task.uid] = free[0]
        self._update(row)

    def _release(self, task: Task, row: int) -> None:
        if row in self.nodes:
            self._taken.pop(task.uid, None)
            self._held_on(row).pop(task.uid, None)
            self._update(row)

    def _evict(self, task: Task, row: int) -> str:
        """Returns the uid if the task was not terminating and has a device, else ""."""
        if row not in self.nodes or task.uid not in self._held_on(row) or task.uid in self._leaving_on(row):
            return ""
        self._leaving_on(row).add(task.uid)
        self._update(row)
        return task.uid

    def _restore(self, row: int, held: str) -> None:
        if held:
            self._leaving_on(row).remove(held)
            self._update(row)


class VirtualDeviceFilter:
    """Passes nodes that have a free device, or list no names."""

    scope = Scope.NODE
    unresolvable = False

    def __init__(self, ledger: VirtualDeviceLedger) -> None:
        self._ledger = ledger

    def room(self, rows: Rows) -> Counts:
        return self._ledger.room(rows, later=False)

    def future_room(self, rows: Rows) -> Counts:
        return self._ledger.room(rows, later=True)

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return ((f"node(s) had no free device of {self._ledger.resource.name}", len(rows)),)
