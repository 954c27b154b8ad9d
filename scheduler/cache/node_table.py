"""The nodes' side of the cache: Node objects, the tasks on them, and the columns of amounts, kept incrementally."""

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

import numpy as np

from scheduler.api.names import HUAWEI_PREFIX
from scheduler.api.node import NodeFacts, Nodes
from scheduler.api.objects import Node, ResourceList
from scheduler.api.quantity import QuantityError
from scheduler.api.reasons import Malformed
from scheduler.api.resource import Dimensions, Vector
from scheduler.api.snapshot import PlacedClass
from scheduler.api.task import Task, TaskClass, TaskStatus

V = TypeVar("V")


class Shared(Generic[V]):
    """A dictionary that snapshots may keep: copied when next read after a change, never changed under a reader."""

    def __init__(self) -> None:
        self._live: dict[str, V] = {}
        self._copy: dict[str, V] | None = None

    def __setitem__(self, key: str, value: V) -> None:
        self._live[key] = value
        self._copy = None

    def pop(self, key: str) -> V | None:
        self._copy = None
        return self._live.pop(key, None)

    def get(self, key: str) -> V | None:
        return self._live.get(key)

    def __contains__(self, key: str) -> bool:
        return key in self._live

    def __iter__(self) -> Iterator[str]:
        return iter(self._live)

    def __len__(self) -> int:
        return len(self._live)

    def values(self) -> Iterable[V]:
        return self._live.values()

    def read(self) -> dict[str, V]:
        if self._copy is None:
            self._copy = dict(self._live)
        return self._copy


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
        self._tasks: dict[str, dict[str, Task]] = {}
        self._placed: dict[int, _Placed] = {}
        self._chips: Shared[tuple[Task, ...]] = Shared()
        self._table: Nodes | None = None
        self.malformed: list[Malformed] = []

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, name: str) -> bool:
        return name in self._objects

    def names(self) -> list[str]:
        return list(self._objects)

    # --- Node objects ---
    def upsert(self, node: Node) -> bool:
        """Take a Node object; whether anything that matters to scheduling changed (heartbeats do not)."""
        name = node.metadata.name
        if self._selector and not any((node.metadata.labels or {}).get(k) == v for k, v in self._selector):
            return self.delete(name)
        old = self._objects.get(name)
        if old is not None and _facts(old) == _facts(node):
            return False
        self._objects[name] = node
        self._count_node(node)
        return True

    def _count_node(self, node: Node) -> None:
        name, status = node.metadata.name, node.status
        self._allocatable[name] = self._amounts(name, "allocatable", status.allocatable)
        self._capacity[name] = self._amounts(name, "capacity", status.capacity)
        self._table = None

    def count_again(self) -> None:
        """Work out all amounts anew, now that other resources are counted. Nothing new is complained of."""
        told = len(self.malformed)
        for node in self._objects.values():
            self._count_node(node)
        del self.malformed[told:]
        self._table = None

    def delete(self, name: str) -> bool:
        self._allocatable.pop(name, None)
        self._capacity.pop(name, None)
        if self._objects.pop(name, None) is None:
            return False
        self._table = None
        return True

    def _amounts(self, node: str, field: str, amounts: ResourceList | None) -> Vector:
        """A node's amounts as a vector; a malformed or negative one counts 0 and is told of."""
        vector = self._dimensions.zeros()
        for name, quantity in (amounts or {}).items():
            try:
                one = self._dimensions.vector({name: quantity})
            except QuantityError as error:
                self.malformed.append(Malformed("Node", "", node, f"status.{field}[{name}]", str(error)))
                continue
            vector = self._dimensions.fit(vector) + one
        return vector

    # --- tasks on nodes ---
    def put(self, task: Task) -> None:
        """A task that is on a node (and not finished) takes its place."""
        tasks = self._tasks.setdefault(task.node, {})
        tasks[task.uid] = task
        self._count(task, 1)
        if self._holds_chips(task):
            self._list_chips(task.node)

    def take(self, task: Task) -> None:
        """A task leaves its node."""
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
                self._account(self._table, row, task, sign)
                self._table.log.clear()

    @staticmethod
    def _account(table: Nodes, row: int, task: Task, sign: int) -> None:
        table.hold(row, task.cls, sign)
        if task.status is TaskStatus.RELEASING:
            table.release(row, task.cls, sign)

    def _list_chips(self, node: str) -> None:
        """List anew the tasks of a node that hold chips."""
        held = tuple(task for task in self._tasks.get(node, {}).values() if self._holds_chips(task))
        if held:
            self._chips[node] = held
        else:
            self._chips.pop(node)

    def _holds_chips(self, task: Task) -> bool:
        """Whether a task on a node has chips, by annotation or by what it asks for."""
        return bool(task.annotations) or self._placed[task.cls.id].asks_for_chips

    def _asks_for_chips(self, cls: TaskClass) -> bool:
        names = self._dimensions.names
        return any(names[d].startswith(HUAWEI_PREFIX) for d in np.flatnonzero(cls.request))

    # --- reading ---
    def table(self) -> Nodes:
        """The columns as they are now; a session copies them."""
        if self._table is None or len(self._table.idle) != self._dimensions.width:
            self._table = self._build()
        return self._table

    def _build(self) -> Nodes:
        names = sorted(self._objects)
        table = Nodes.empty(NodeFacts([self._objects[name] for name in names]), self._dimensions.width)
        for row, name in enumerate(names):
            self._allocatable[name] = self._dimensions.fit(self._allocatable[name])
            self._capacity[name] = self._dimensions.fit(self._capacity[name])
            table.allocatable[:, row] = self._allocatable[name]
            table.capacity[:, row] = self._capacity[name]
        table.capacity[:] = np.where(table.capacity > 0, table.capacity, table.allocatable)
        table.idle[:] = table.allocatable
        for name, tasks in self._tasks.items():
            known = table.index.get(name)
            if known is not None:
                for task in tasks.values():
                    self._account(table, known, task, 1)
        table.log.clear()
        return table

    def placed(self) -> list[PlacedClass]:
        result = []
        for placed in self._placed.values():
            if placed.shown is None:
                placed.shown = PlacedClass(placed.cls, dict(placed.counts))
            result.append(placed.shown)
        return result

    def chips(self) -> dict[str, tuple[Task, ...]]:
        return self._chips.read()


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
