"""Nodes: watched Node objects, the tasks on them, and columns of resource amounts that are updated incrementally."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from scheduler.api.json_texts import annotation_problems
from scheduler.api.names import (
    CPU,
    HUAWEI_PREFIX,
    MEMORY,
    OVERSUBSCRIPTION_CPU,
    OVERSUBSCRIPTION_MEMORY,
    VOLCANO_PREFIX,
)
from scheduler.api.node import Column, NodeFacts, Nodes, Rows, not_ready_since
from scheduler.api.objects import Node, ResourceList
from scheduler.api.quantity import QuantityError
from scheduler.api.resource import Dimensions, Vector
from scheduler.api.snapshot import PlacedClass
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.cache.malformed_fields import Faults, MalformedFields
from scheduler.cache.versioning import SnapshotDict, Version

_NO_FAULTS: Final[Faults] = {}
_CHIPS: Final = (HUAWEI_PREFIX, VOLCANO_PREFIX)
"""Prefixes of the resources that count chips, cards and parts of them."""


class _Placed:
    """The number of Pods of one class per node."""

    __slots__ = ("cls", "counts", "requests_chips", "snapshot")

    def __init__(self, cls: TaskClass, requests_chips: bool) -> None:
        self.cls = cls
        self.requests_chips = requests_chips
        self.counts: dict[str, int] = {}
        self.snapshot: PlacedClass | None = None


class NodeTable:
    """All nodes, and the tasks on them."""

    def __init__(
        self, dimensions: Dimensions, version: Version, malformed: MalformedFields, selector: Iterable[tuple[str, str]]
    ) -> None:
        """``selector``: (label, value) pairs. Only nodes with one of them are used; all nodes if there are no pairs."""
        self._dimensions = dimensions
        self._version = version
        self._malformed = malformed
        self._selector = tuple(selector)
        self._objects: dict[str, Node] = {}
        self._used: frozenset[str] | None = None
        """Names of the nodes that this scheduler uses; None: all."""
        self._others: dict[str, Node] = {}
        """The nodes that it does not use, although they have the labels of the selector."""
        self.labels_version = 0
        """Grows when a node is added or deleted, or its labels change, whether or not it is used."""
        self._allocatable: dict[str, Vector] = {}
        self._capacity: dict[str, Vector] = {}
        self._faults: dict[str, Faults] = {}
        """Malformed fields of each node; their amounts count as 0."""
        self._tasks: dict[str, dict[str, Task]] = {}
        self._placed: dict[int, _Placed] = {}
        self._chips: SnapshotDict[tuple[Task, ...]] = SnapshotDict()
        self._table: Nodes | None = None
        self._stale: set[str] = set()
        """Names of nodes whose rows of the table are out of date."""

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, name: str) -> bool:
        return name in self._objects

    @property
    def has_all(self) -> bool:
        """Whether nodes are stored whatever labels they have."""
        return not self._selector and self._used is None

    def labels(self) -> dict[str, Mapping[str, str]]:
        """The labels of all nodes, whether or not they are used."""
        objects = {**self._others, **self._objects}
        return {name: node.metadata.labels or {} for name, node in objects.items()}

    def use(self, names: frozenset[str]) -> list[Node]:
        """Uses only these nodes from now on. Returns the nodes that were not used until now: they have to be stored
        again."""
        self._used = names
        for name in self._objects.keys() - names:
            self._others[name] = self._objects[name]
            self._drop(name)
        return [node for name, node in self._others.items() if name in names]

    def names(self) -> list[str]:
        """The names of the nodes that are used."""
        return list(self._objects)

    # --- Node objects ---
    def upsert(self, node: Node) -> None:
        """Stores a Node object. It counts as a change if it matters to scheduling (heartbeats do not)."""
        self._store(node)
        for field, problem in self._faults.get(node.metadata.name, _NO_FAULTS).items():
            self._malformed.add(field, problem)
        for key, problem in annotation_problems(node.metadata.annotations or {}):
            self._malformed.add(f"metadata.annotations[{key}]", problem)

    def _store(self, node: Node) -> None:
        name = node.metadata.name
        if self._selector and not any((node.metadata.labels or {}).get(k) == v for k, v in self._selector):
            self.delete(name)
            return
        old = self._objects.get(name)
        known = old or self._others.get(name)
        if known is None or known.metadata.labels != node.metadata.labels:
            self.labels_version += 1
        if self._used is not None and name not in self._used:
            self._others[name] = node
            if self._drop(name):
                self._version.changed()
            return
        self._others.pop(name, None)
        if old is not None and _facts(old) == _facts(node):
            return
        _share_image_names(node)
        self._objects[name] = node
        self._set_node_amounts(node)
        if old is None:
            self._table = None
        else:
            self._stale.add(name)
        self._version.changed()

    def _set_node_amounts(self, node: Node) -> None:
        name, status = node.metadata.name, node.status
        faults = self._faults[name] = {}
        more = self._oversubscribed(node, faults)
        for kept, field, amounts in (
            (self._allocatable, "status.allocatable", status.allocatable),
            (self._capacity, "status.capacity", status.capacity),
        ):
            self._dimensions.declare(amounts or ())
            kept[name] = self._dimensions.fit(self._amounts(field, amounts, faults)) + self._dimensions.fit(more)

    def recount(self) -> None:
        """Computes all amounts again after the set of counted resources has changed."""
        for node in self._objects.values():
            self._set_node_amounts(node)
        self._table = None

    def delete(self, name: str) -> None:
        """Removes a deleted node."""
        if self._others.pop(name, None) is not None:
            self.labels_version += 1
        if self._drop(name):
            self._version.changed()

    def _drop(self, name: str) -> bool:
        """Uses a node no longer. Returns whether it was used."""
        if self._objects.pop(name, None) is None:
            return False
        del self._allocatable[name], self._capacity[name], self._faults[name]
        self._table = None
        self.labels_version += 1
        return True

    def _amounts(self, field: str, amounts: ResourceList | None, faults: Faults) -> Vector:
        """Amounts as a vector. A malformed or negative amount counts as 0 and is added to ``faults``."""
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
        """The oversubscribed amounts of a node, which the agent of Volcano's colocation writes as annotations."""
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
        """Whether a task on a node is terminating."""
        return any(task.status is TaskStatus.RELEASING for task in self._tasks.get(name, {}).values())

    def replace(self, old: Task | None, new: Task | None) -> None:
        """Replaces a task that occupies a node by its new version. ``old`` is None for a task that is new on a node,
        ``new`` is None for one that leaves it."""
        if old is not None and new is not None and self._holds_the_same(old, new):
            self._tasks[new.node][new.uid] = new
            if self._holds_chips(old) or self._holds_chips(new):
                self._list_chips(new.node)
            return
        if old is not None:
            self._remove(old)
        if new is not None:
            self._add(new)

    def _holds_the_same(self, old: Task, new: Task) -> bool:
        """Whether both versions take equal amounts of one node, as when a bound Pod starts."""
        releasing = TaskStatus.RELEASING
        return (
            old.node == new.node
            and old.uid == new.uid
            and old.cls is new.cls
            and (old.status is releasing) is (new.status is releasing)
            and old.uid in self._tasks.get(old.node, ())
        )

    def _add(self, task: Task) -> None:
        tasks = self._tasks.get(task.node)
        if tasks is None:
            tasks = self._tasks[task.node] = {}
        tasks[task.uid] = task
        self._count(task, 1)
        if self._holds_chips(task):
            self._list_chips(task.node)

    def _remove(self, task: Task) -> None:
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
            placed = self._placed[task.cls.id] = _Placed(task.cls, self._requests_chips(task.cls))
        number = placed.counts.get(task.node, 0) + sign
        if number:
            placed.counts[task.node] = number
        else:
            del placed.counts[task.node]
            if not placed.counts:
                del self._placed[task.cls.id]
        placed.snapshot = None
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
        """Updates the list of tasks on a node that hold chips."""
        held = tuple(task for task in self._tasks.get(node, {}).values() if self._holds_chips(task))
        if held:
            self._chips[node] = held
        else:
            self._chips.pop(node)

    def _holds_chips(self, task: Task) -> bool:
        """Whether a task on a node has chips according to its annotations, its binding record or its request."""
        if task.annotations or (task.record is not None and task.record.chips):
            return True
        return self._placed[task.cls.id].requests_chips

    def _requests_chips(self, cls: TaskClass) -> bool:
        names = self._dimensions.names
        return any(names[d].startswith(_CHIPS) for d in np.flatnonzero(cls.request))

    # --- reading ---
    def table(self) -> Nodes:
        """The present columns. Sessions copy them."""
        if self._table is None or len(self._table.idle) != self._dimensions.width:
            self._table = self._build()
        elif self._stale:
            self._refresh(self._table)
        self._stale.clear()
        return self._table

    def _build(self) -> Nodes:
        names = sorted(self._objects)
        table = Nodes.empty(NodeFacts([self._objects[name] for name in names]), self._dimensions.width)
        if names:
            table.allocatable = self._columns(self._allocatable, names)
            table.capacity = self._columns(self._capacity, names)
            table.capacity = np.where(table.capacity > 0, table.capacity, table.allocatable)
        tasks = [task for name, there in self._tasks.items() if name in table.index for task in there.values()]
        if tasks:  # summed by column: adding task by task takes ten times as long
            classes = {cls: i for i, cls in enumerate(dict.fromkeys(task.cls for task in tasks))}
            of_class = np.array([classes[task.cls] for task in tasks])
            rows = np.array([table.index[task.node] for task in tasks])
            releasing = np.array([task.status is TaskStatus.RELEASING for task in tasks])
            requests = np.array([cls.request for cls in classes])
            table.used = _sums(rows, requests[of_class], len(names))
            table.releasing = _sums(rows[releasing], requests[of_class[releasing]], len(names))
            table.nonzero = _sums(rows, np.array([cls.nonzero for cls in classes])[of_class], len(names))
        table.idle = table.allocatable - table.used
        return table

    def _refresh(self, table: Nodes) -> None:
        """Updates the rows of changed nodes. Arrays that snapshots share are replaced."""
        rows = {table.index[name]: name for name in self._stale}
        table.facts = table.facts.with_nodes({row: self._objects[name] for row, name in rows.items()})
        table.allocatable, table.capacity = table.allocatable.copy(), table.capacity.copy()
        for row, name in rows.items():
            allocatable = table.allocatable[:, row] = self._dimensions.fit(self._allocatable[name])
            capacity = self._dimensions.fit(self._capacity[name])
            table.capacity[:, row] = np.where(capacity > 0, capacity, allocatable)
            table.idle[:, row] = allocatable - table.used[:, row]

    def _columns(self, amounts: Mapping[str, Vector], names: Sequence[str]) -> Column:
        """The amounts of nodes as an array of shape (resources, nodes)."""
        vectors = np.concatenate([self._dimensions.fit(amounts[name]) for name in names])
        return np.ascontiguousarray(vectors.reshape(len(names), -1).T)

    def placed(self) -> list[PlacedClass]:
        result = []
        for placed in self._placed.values():
            if placed.snapshot is None:
                placed.snapshot = PlacedClass(placed.cls, dict(placed.counts))
            result.append(placed.snapshot)
        return result

    def chips(self) -> dict[str, tuple[Task, ...]]:
        return self._chips.read()


def _sums(rows: Rows, amounts: Column, nodes: int) -> Column:
    """Sums amounts of shape (tasks, resources) per node, to the shape (resources, nodes)."""
    sums = np.stack([np.bincount(rows, weights=column, minlength=nodes) for column in amounts.T])
    return sums.astype(np.float64)  # without tasks, bincount returns integers


def _share_image_names(node: Node) -> None:
    """Interns the names of images: most nodes have the same ones, twenty with two names each."""
    for image in node.status.images or ():
        if image.names is not None:
            image.names = [sys.intern(name) for name in image.names]


def _facts(node: Node) -> tuple[object, ...]:
    """The fields of a Node that matter to scheduling."""
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
        not_ready_since(node),
    )
