"""The nodes' side of the cache: Node objects, the tasks on them, and the columns of amounts, kept incrementally."""

from collections.abc import Iterable
from typing import Final

import numpy as np

from scheduler.api.names import (
    CPU,
    HUAWEI_PREFIX,
    MEMORY,
    OVERSUBSCRIPTION_CPU,
    OVERSUBSCRIPTION_MEMORY,
    VOLCANO_PREFIX,
)
from scheduler.api.node import Column, NodeFacts, Nodes, Rows
from scheduler.api.objects import Node, ResourceList
from scheduler.api.quantity import QuantityError
from scheduler.api.resource import Dimensions, Vector
from scheduler.api.snapshot import PlacedClass
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.cache.set_aside import Faults
from scheduler.cache.shared import Shared

_CHIPS: Final = (HUAWEI_PREFIX, VOLCANO_PREFIX)
"""What the resources begin with that count chips, cards and parts of them."""


class _Placed:
    """Where the Pods of one class are."""

    __slots__ = ("asks_for_chips", "cls", "counts", "shown")

    def __init__(self, cls: TaskClass, asks_for_chips: bool) -> None:
        self.cls = cls
        self.asks_for_chips = asks_for_chips
        self.counts: dict[str, int] = {}
        self.shown: PlacedClass | None = None


class NodeTable:
    """All nodes with what is on them."""

    def __init__(self, dimensions: Dimensions, selector: Iterable[tuple[str, str]] = ()) -> None:
        """``selector``: (label, value) pairs; only nodes with one of them are used (none given: all)."""
        self._dimensions = dimensions
        self._selector = tuple(selector)
        self._objects: dict[str, Node] = {}
        self._allocatable: dict[str, Vector] = {}
        self._capacity: dict[str, Vector] = {}
        self._faults: dict[str, Faults] = {}
        """What of each node counts 0, for it cannot be used."""
        self._tasks: dict[str, dict[str, Task]] = {}
        self._placed: dict[int, _Placed] = {}
        self._chips: Shared[tuple[Task, ...]] = Shared()
        self._table: Nodes | None = None
        self._stale: set[str] = set()
        """Names of nodes of the table that have changed since it was made or last brought up to date."""

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, name: str) -> bool:
        return name in self._objects

    def names(self) -> list[str]:
        return list(self._objects)

    # --- Node objects ---
    def upsert(self, node: Node) -> tuple[bool, Faults]:
        """Take a Node object: whether anything that matters to scheduling changed (heartbeats do not), and what of it
        cannot be used."""
        name = node.metadata.name
        if self._selector and not any((node.metadata.labels or {}).get(k) == v for k, v in self._selector):
            return self.delete(name), {}
        old = self._objects.get(name)
        if old is not None and _facts(old) == _facts(node):
            return False, self._faults[name]
        self._objects[name] = node
        self._count_node(node)
        if old is None:
            self._table = None
        else:
            self._stale.add(name)
        return True, self._faults[name]

    def _count_node(self, node: Node) -> None:
        name, status = node.metadata.name, node.status
        faults = self._faults[name] = {}
        more = self._oversubscribed(node, faults)
        for kept, field, amounts in (
            (self._allocatable, "status.allocatable", status.allocatable),
            (self._capacity, "status.capacity", status.capacity),
        ):
            kept[name] = self._dimensions.fit(self._amounts(field, amounts, faults)) + self._dimensions.fit(more)

    def count_again(self) -> None:
        """Work out all amounts anew, now that other resources are counted."""
        for node in self._objects.values():
            self._count_node(node)
        self._table = None

    def delete(self, name: str) -> bool:
        if self._objects.pop(name, None) is None:
            return False
        del self._allocatable[name], self._capacity[name], self._faults[name]
        self._table = None
        return True

    def _amounts(self, field: str, amounts: ResourceList | None, faults: Faults) -> Vector:
        """Amounts as a vector; a malformed or negative one counts 0 and is noted."""
        vector = self._dimensions.zeros()
        for name, quantity in (amounts or {}).items():
            try:
                one = self._dimensions.vector({name: quantity})
            except QuantityError as error:
                faults[f"{field}[{name}]"] = str(error)
                continue
            vector = self._dimensions.fit(vector) + one
        return vector

    def _oversubscribed(self, node: Node, faults: Faults) -> Vector:
        """What may be given out of a node beyond what it has, for those who have it use little of it: the agent of
        Volcano's colocation writes it on the node."""
        more = self._dimensions.zeros()
        annotations = node.metadata.annotations or {}
        for key, name, unit in ((OVERSUBSCRIPTION_CPU, CPU, "m"), (OVERSUBSCRIPTION_MEMORY, MEMORY, "")):
            if key in annotations:
                try:
                    more += self._dimensions.vector({name: annotations[key] + unit})
                except QuantityError as error:
                    faults[f"metadata.annotations[{key}]"] = str(error)
        return more

    # --- tasks on nodes ---
    def terminates_on(self, name: str) -> bool:
        """Whether a task on a node is on its way out."""
        return any(task.status is TaskStatus.RELEASING for task in self._tasks.get(name, {}).values())

    def swap(self, old: Task | None, new: Task | None) -> None:
        """Replace a task that is on a node (and not finished) by its new version there (or add, or drop it)."""
        if old is not None and new is not None and self._stays(old, new):
            self._tasks[new.node][new.uid] = new
            if self._holds_chips(old) or self._holds_chips(new):
                self._list_chips(new.node)
            return
        if old is not None:
            self._take(old)
        if new is not None:
            self._put(new)

    def _stays(self, old: Task, new: Task) -> bool:
        """Whether the node holds as much with the new version, as when a Pod that is bound begins to run."""
        leaves = TaskStatus.RELEASING
        return (
            old.node == new.node
            and old.uid == new.uid
            and old.cls is new.cls
            and (old.status is leaves) is (new.status is leaves)
            and old.uid in self._tasks.get(old.node, ())
        )

    def _put(self, task: Task) -> None:
        tasks = self._tasks.setdefault(task.node, {})
        tasks[task.uid] = task
        self._count(task, 1)
        if self._holds_chips(task):
            self._list_chips(task.node)

    def _take(self, task: Task) -> None:
        tasks = self._tasks.get(task.node)
        if tasks is None or tasks.pop(task.uid, None) is None:
            return
        if not tasks:
            del self._tasks[task.node]
        held_chips = self._holds_chips(task)
        self._count(task, -1)
        if held_chips:
            self._list_chips(task.node)

    def _count(self, task: Task, sign: int) -> None:
        placed = self._placed.get(task.cls.id)
        if placed is None:
            placed = self._placed[task.cls.id] = _Placed(task.cls, self._asks_for_chips(task.cls))
        number = placed.counts.get(task.node, 0) + sign
        if number:
            placed.counts[task.node] = number
        else:
            del placed.counts[task.node]
            if not placed.counts:
                del self._placed[task.cls.id]
        placed.shown = None
        if self._table is not None:
            row = self._table.index.get(task.node)
            if row is not None:
                if len(task.cls.request) != len(self._table.idle):
                    self._table = None
                    return
                self._table.hold(row, task.cls, sign)
                if task.status is TaskStatus.RELEASING:
                    self._table.release(row, task.cls, sign)
                self._table.log.clear()

    def _list_chips(self, node: str) -> None:
        """List anew the tasks of a node that hold chips."""
        held = tuple(task for task in self._tasks.get(node, {}).values() if self._holds_chips(task))
        if held:
            self._chips[node] = held
        else:
            self._chips.pop(node)

    def _holds_chips(self, task: Task) -> bool:
        """Whether a task on a node has chips, by annotation, by what it was bound with, or by what it asks for."""
        if task.annotations or (task.record is not None and task.record.chips):
            return True
        return self._placed[task.cls.id].asks_for_chips

    def _asks_for_chips(self, cls: TaskClass) -> bool:
        names = self._dimensions.names
        return any(names[d].startswith(_CHIPS) for d in np.flatnonzero(cls.request))

    # --- reading ---
    def table(self) -> Nodes:
        """The columns as they are now; a session copies them."""
        if self._table is None or len(self._table.idle) != self._dimensions.width:
            self._table = self._build()
        elif self._stale:
            self._refresh(self._table)
        self._stale.clear()
        return self._table

    def _build(self) -> Nodes:
        names = sorted(self._objects)
        table = Nodes.empty(NodeFacts([self._objects[name] for name in names]), self._dimensions.width)
        self._set_amounts(table, names)
        tasks = [task for name, there in self._tasks.items() if name in table.index for task in there.values()]
        if tasks:  # added up by columns: one by one takes ten times as long
            classes = {cls: i for i, cls in enumerate(dict.fromkeys(task.cls for task in tasks))}
            of_class = np.array([classes[task.cls] for task in tasks])
            rows = np.array([table.index[task.node] for task in tasks])
            leaving = np.array([task.status is TaskStatus.RELEASING for task in tasks])
            requests = np.array([cls.request for cls in classes])
            table.used = _sums(rows, requests[of_class], len(names))
            table.releasing = _sums(rows[leaving], requests[of_class[leaving]], len(names))
            table.nonzero = _sums(rows, np.array([cls.nonzero for cls in classes])[of_class], len(names))
        table.idle = table.allocatable - table.used
        return table

    def _refresh(self, table: Nodes) -> None:
        """Bring the nodes that have changed up to date; what is on them stays. Snapshots share all but what is added to
        and taken from, so that is replaced."""
        table.facts = NodeFacts([self._objects[name] for name in table.names])
        table.allocatable, table.capacity = table.allocatable.copy(), table.capacity.copy()
        self._set_amounts(table, self._stale)
        table.idle = table.allocatable - table.used

    def _set_amounts(self, table: Nodes, names: Iterable[str]) -> None:
        """What nodes have, whatever is on them."""
        for name in names:
            row = table.index[name]
            table.allocatable[:, row] = self._dimensions.fit(self._allocatable[name])
            table.capacity[:, row] = self._dimensions.fit(self._capacity[name])
        table.capacity = np.where(table.capacity > 0, table.capacity, table.allocatable)

    def placed(self) -> list[PlacedClass]:
        result = []
        for placed in self._placed.values():
            if placed.shown is None:
                placed.shown = PlacedClass(placed.cls, dict(placed.counts))
            result.append(placed.shown)
        return result

    def chips(self) -> dict[str, tuple[Task, ...]]:
        return self._chips.read()


def _sums(rows: Rows, amounts: Column, nodes: int) -> Column:
    """Shape (resources, nodes): amounts of shape (tasks, resources) added up where the tasks are."""
    sums = np.stack([np.bincount(rows, weights=column, minlength=nodes) for column in amounts.T])
    return sums.astype(np.float64)  # of no tasks at all bincount makes whole numbers


def _facts(node: Node) -> tuple[object, ...]:
    """What of a Node matters to scheduling."""
    meta, status = node.metadata, node.status
    return (
        meta.uid,
        meta.labels,
        meta.annotations,
        node.spec,
        status.allocatable,
        status.capacity,
        status.images,
        status.addresses,
    )
