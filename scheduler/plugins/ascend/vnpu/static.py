"""Virtual NPUs that were created beforehand: devices with names. A Pod gets one of them.

Where a Node lists the names of its devices, in the annotation with the name of the resource or in the device plugin's
ConfigMap, a Pod gets the first one that is free, and chips with such devices are not assigned whole. Where no names are
listed, nodes are chosen by amounts, and the device plugin chooses the device.
"""

from collections.abc import Iterable

from scheduler.api.job import Job
from scheduler.api.node import Rows
from scheduler.api.task import Task, TaskClass
from scheduler.framework.columns import Counts, Scope
from scheduler.framework.ledger import Ledger
from scheduler.framework.session import Session
from scheduler.framework.statement import AllocationError
from scheduler.plugins.ascend.resources import ChipResource, units
from scheduler.plugins.ascend.vnpu.devices import free_devices, read_columns


class VirtualDeviceLedger(Ledger[str]):
    """The devices of one resource in one session. Nodes that list no names have no limit here."""

    def __init__(self, session: Session, resource: ChipResource, position: int) -> None:
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
