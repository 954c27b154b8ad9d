"""The nodes of a session as a table of columns, with one row per node in the order of names.

Amounts are arrays of shape (resources, nodes), so that one resource of all nodes is contiguous. Labels and taints are
interned, so that a filter evaluates each distinct value once and maps the result to rows. Snapshots share the part that
does not change within a session (NodeFacts).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.objects import Node
from scheduler.api.resource import PODS_INDEX, Vector
from scheduler.api.task import TaskClass
from scheduler.api.times import seconds_of

Column = NDArray[np.float64]
Codes = NDArray[np.int32]
Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]
Change = tuple[int, int, int]
"""(row, id of the class that was placed there, number of its tasks); (row, -1, 0) for other changes."""
TaintKey = tuple[str, str, str]
"""(key, value, effect) of a taint."""
TaintSet = tuple[TaintKey, ...]
"""The taints of a node."""

NONZERO_CPU = 100.0
NONZERO_MEMORY = 200.0 * 1024 * 1024
"""The cpu (milli) and memory (bytes) that kube-scheduler's scores assume for a container without a request."""


def not_ready_since(node: Node) -> float | None:
    """The Unix time since which a node is not ready (0 if it is unknown); None: it is ready, or does not say."""
    for condition in node.status.conditions or ():
        if condition.type == "Ready":
            return None if condition.status == "True" else seconds_of(condition.last_transition_time)
    return None


class NodeFacts:
    """The fields of nodes without amounts. Immutable; a change of a Node object leads to a new instance."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        """``nodes`` must be sorted by name."""
        self.objects = list(nodes)
        self.names = [node.metadata.name for node in nodes]
        self.index = {name: row for row, name in enumerate(self.names)}
        self.labels = [node.metadata.labels or {} for node in nodes]
        self.annotations = [node.metadata.annotations or {} for node in nodes]
        self.unschedulable = np.array([node.spec.unschedulable for node in nodes], dtype=bool)
        times = ((node.metadata.name, not_ready_since(node)) for node in nodes)
        self.unready: Mapping[str, float] = {name: since for name, since in times if since is not None}
        """Name of a node that is not ready -> since when, in Unix seconds."""
        self._label_columns: dict[str, tuple[Codes, dict[str, int], list[str]]] = {}
        self._label_rows: dict[str, dict[str, Rows]] = {}
        numbers: dict[TaintSet, int] = {}
        codes = [numbers.setdefault(_taints(node), len(numbers)) for node in nodes]
        self.taint_codes: Codes = np.array(codes, dtype=np.int32)
        """The number of each node's set of taints; they are numbered in the order in which they appear."""
        self.taint_sets = list(numbers)

    def with_nodes(self, changed: Mapping[int, Node]) -> "NodeFacts":
        """Returns the facts after some nodes have changed, equal to those of a new instance. ``changed``: row -> Node
        of the name in this row. Parts that are equal are shared; a column of a label is left out if one of them changes
        it, and computed again when it is asked for."""
        new = NodeFacts.__new__(NodeFacts)
        new.names, new.index = self.names, self.index
        new.objects, new.labels, new.annotations = [*self.objects], [*self.labels], [*self.annotations]
        new.unschedulable, new.unready = self.unschedulable.copy(), self.unready
        relabelled: set[str] = set()
        for row, node in changed.items():
            labels = node.metadata.labels or {}
            relabelled |= {key for key, _ in self.labels[row].items() ^ labels.items()}
            new.objects[row], new.labels[row], new.annotations[row] = node, labels, node.metadata.annotations or {}
            new.unschedulable[row] = node.spec.unschedulable
        new.unready = self._unready_with(changed)
        new.taint_sets, new.taint_codes = self._taints_with(changed)
        new._label_columns = {key: each for key, each in self._label_columns.items() if key not in relabelled}
        new._label_rows = {key: each for key, each in self._label_rows.items() if key not in relabelled}
        return new

    def _unready_with(self, changed: Mapping[int, Node]) -> Mapping[str, float]:
        before = {row: self.unready.get(self.names[row]) for row in changed}
        now = {row: not_ready_since(node) for row, node in changed.items()}
        if before == now:
            return self.unready
        found = {**self.unready, **{self.names[row]: since for row, since in now.items()}}
        return {name: since for name, since in sorted(found.items()) if since is not None}

    def _taints_with(self, changed: Mapping[int, Node]) -> tuple[list[TaintSet], Codes]:
        differ = {row: _taints(node) for row, node in changed.items()}
        differ = {row: found for row, found in differ.items() if found != self.taint_sets[self.taint_codes[row]]}
        if not differ:
            return self.taint_sets, self.taint_codes
        numbers, codes = {each: number for number, each in enumerate(self.taint_sets)}, self.taint_codes.copy()
        for row, found in differ.items():
            codes[row] = numbers.setdefault(found, len(numbers))
        used, first = np.unique(codes, return_index=True)
        order, sets = used[np.argsort(first)], list(numbers)
        renumbered = np.zeros(len(sets), dtype=np.int32)
        renumbered[order] = np.arange(len(order))
        return [sets[number] for number in order.tolist()], renumbered[codes]

    def __len__(self) -> int:
        return len(self.names)

    def label_column(self, key: str) -> tuple[Codes, list[str]]:
        """Returns the column of a label as (codes of shape (nodes,), values). The code is -1 where the label is
        absent."""
        codes, _, values = self._label(key)
        return codes, values

    def label_codes(self, key: str) -> tuple[Codes, Mapping[str, int]]:
        """Returns ``label_column`` with value -> code, in the order of the codes."""
        codes, numbers, _ = self._label(key)
        return codes, numbers

    def _label(self, key: str) -> tuple[Codes, dict[str, int], list[str]]:
        column = self._label_columns.get(key)
        if column is None:
            values: dict[str, int] = {}
            codes = np.full(len(self.names), -1, dtype=np.int32)
            for row, labels in enumerate(self.labels):
                value = labels.get(key)
                if value is not None:
                    codes[row] = values.setdefault(value, len(values))
            column = self._label_columns[key] = (codes, values, list(values))
        return column

    def rows_with(self, key: str, value: str) -> Rows:
        """Returns the rows of the nodes with one value of a label, ascending."""
        by_value = self._label_rows.get(key)
        if by_value is None:
            codes, values = self.label_column(key)
            order = np.argsort(codes, kind="stable").astype(np.intp)
            ends = np.searchsorted(codes[order], np.arange(len(values) + 1))
            by_value = {text: order[ends[i] : ends[i + 1]] for i, text in enumerate(values)}
            self._label_rows[key] = by_value
        rows = by_value.get(value)
        return np.empty(0, dtype=np.intp) if rows is None else rows


def _taints(node: Node) -> TaintSet:
    return tuple((t.key, t.value, t.effect) for t in node.spec.taints or ())


@dataclass(slots=True, eq=False)
class Nodes:
    """Amounts per node, of shape (resources, nodes), and a log of changed rows."""

    facts: NodeFacts
    allocatable: Column
    idle: Column
    """Allocatable minus used; negative if a node shrank."""
    used: Column
    releasing: Column
    """The part of used that terminating tasks will free."""
    pipelined: Column
    """Amounts of tasks pipelined onto releasing amounts; exists only within a session."""
    evicted: Column
    """The part of releasing that belongs to tasks evicted within this session."""
    nonzero: Column
    """Shape (2, nodes): requested cpu and memory of placed and pipelined tasks, with defaults for containers without a
    request (for scores). Tasks evicted within this session do not count."""
    capacity: Column
    """Capacity of the machines; allocatable for nodes that do not report a capacity."""
    log: list[Change] = field(default_factory=list)
    """Changes in this session, in order. Readers keep a position in it."""

    @classmethod
    def empty(cls, facts: NodeFacts, width: int) -> "Nodes":
        shape = (width, len(facts))
        return cls(
            facts,
            allocatable=np.zeros(shape),
            idle=np.zeros(shape),
            used=np.zeros(shape),
            releasing=np.zeros(shape),
            pipelined=np.zeros(shape),
            evicted=np.zeros(shape),
            nonzero=np.zeros((2, len(facts))),
            capacity=np.zeros(shape),
        )

    def copy(self) -> "Nodes":
        """An independent copy of the amounts for a session; facts are shared, the log starts empty. Only sessions
        pipeline and evict, so there is nothing of that to copy."""
        return Nodes(
            self.facts,
            self.allocatable,
            self.idle.copy(),
            self.used.copy(),
            self.releasing.copy(),
            np.zeros(self.pipelined.shape),
            np.zeros(self.evicted.shape),
            self.nonzero.copy(),
            self.capacity,
        )

    def __len__(self) -> int:
        return len(self.facts.names)

    @property
    def names(self) -> list[str]:
        return self.facts.names

    @property
    def index(self) -> dict[str, int]:
        return self.facts.index

    def future_idle(self) -> Column:
        return self.idle + self.releasing - self.pipelined

    def future_idle_of(self, row: int) -> Vector:
        result: Vector = self.idle[:, row] + self.releasing[:, row] - self.pipelined[:, row]
        return result

    # --- accounting: the same call with a negative count undoes a call exactly (amounts are whole numbers) ---
    def hold(self, row: int, cls: TaskClass, count: int = 1) -> None:
        """Places ``count`` tasks of a class on a node (negative: removes them)."""
        amount = cls.request * count if count != 1 else cls.request
        self.idle[:, row] -= amount
        self.used[:, row] += amount
        self._add_nonzero(row, cls, count)
        self.log.append((row, cls.id, count))

    def release(self, row: int, cls: TaskClass, count: int = 1) -> None:
        """Marks the amounts of ``count`` tasks as releasing, because they terminate (negative: unmarks them)."""
        self.releasing[:, row] += cls.request * count
        self.log.append((row, -1, 0))

    def evict(self, row: int, cls: TaskClass, count: int = 1) -> None:
        """Marks the amounts of ``count`` tasks as evicted by this session and releasing (negative: unmarks them)."""
        self.evicted[:, row] += cls.request * count
        self._add_nonzero(row, cls, -count)
        self.release(row, cls, count)

    def pipeline(self, row: int, cls: TaskClass, count: int = 1) -> None:
        """Pipelines ``count`` tasks onto a node (negative: removes them)."""
        self.pipelined[:, row] += cls.request * count
        self._add_nonzero(row, cls, count)
        self.log.append((row, -1, 0))

    def _add_nonzero(self, row: int, cls: TaskClass, count: int) -> None:
        cpu, memory = cls.nonzero
        self.nonzero[0, row] += cpu * count
        self.nonzero[1, row] += memory * count

    def pod_room(self, rows: "Rows | slice") -> Column:
        """Number of Pods that each node can still run. Terminating and pipelined Pods count as running."""
        room: Column = (
            self.allocatable[PODS_INDEX, rows] - self.used[PODS_INDEX, rows] - self.pipelined[PODS_INDEX, rows]
        )
        return room


class ChangedRows:
    """The rows of nodes that have changed since the last call of ``take``, or since construction."""

    def __init__(self, nodes: Nodes) -> None:
        self._log = nodes.log
        self._seen = len(nodes.log)

    def take(self) -> list[int]:
        """Returns the rows, each as often as it has changed."""
        if self._seen == len(self._log):
            return []
        changed = self._log[self._seen :]
        self._seen = len(self._log)
        return [row for row, _, _ in changed]


CORDONED: Final = "cordoned"
NOT_READY: Final = "not ready"
MAINTENANCE: Final = "maintenance"
NODE_CONDITIONS: Final = (CORDONED, NOT_READY, MAINTENANCE)
"""All conditions, in the order in which they are shown."""
_REPELLING: Final = ("NoSchedule", "NoExecute")
_WORD: Final = "maintenance"
"""A taint with this word in its key keeps Pods away during maintenance."""


def node_conditions(facts: NodeFacts) -> Mapping[str, tuple[str, ...]]:
    """Name of a node -> its conditions; without the nodes that have none.

    A node is in maintenance if a taint with the effect NoSchedule or NoExecute has the word in its key, such as
    ``example.com/maintenance``; there is no standard key.
    """
    maintained = [_is_maintained(taints) for taints in facts.taint_sets]
    rows = set(np.flatnonzero(facts.unschedulable).tolist())
    rows |= {facts.index[name] for name in facts.unready}
    if any(maintained):
        rows |= set(np.flatnonzero(np.array(maintained)[facts.taint_codes]).tolist())
    return {
        facts.names[row]: tuple(
            word
            for word, holds in (
                (CORDONED, facts.unschedulable[row]),
                (NOT_READY, facts.names[row] in facts.unready),
                (MAINTENANCE, maintained[facts.taint_codes[row]]),
            )
            if holds
        )
        for row in sorted(rows)
    }


def _is_maintained(taints: TaintSet) -> bool:
    return any(_WORD in key.lower() and effect in _REPELLING for key, _, effect in taints)
