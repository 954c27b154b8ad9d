"""The nodes of a session as a table of columns: one row per node, in name order.

Amounts are arrays of shape (resources, nodes), so that one resource of all nodes is contiguous. Labels, taints and
images are interned: a predicate looks at each distinct value once and spreads the answer over the rows. The part that
does not change within a session (NodeFacts) is shared from snapshot to snapshot.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from scheduler.api.objects import Node
from scheduler.api.resource import PODS_INDEX, Vector
from scheduler.api.task import TaskClass

Column = NDArray[np.float64]
Codes = NDArray[np.int32]
Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]
Change = tuple[int, int, int]
"""(row, id of the class that took amounts there, how many of its tasks); (row, -1, 0): anything else."""

NONZERO_CPU = 100.0
NONZERO_MEMORY = 200.0 * 1024 * 1024
"""What kube-scheduler's scores assume for a container that asks for no cpu (milli) or memory (bytes)."""


class NodeFacts:
    """What is known of the nodes apart from amounts. Immutable; built anew when a Node object changes."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        """``nodes`` must be sorted by name."""
        self.objects = list(nodes)
        self.names = [node.metadata.name for node in nodes]
        self.index = {name: row for row, name in enumerate(self.names)}
        self.labels = [node.metadata.labels or {} for node in nodes]
        self.annotations = [node.metadata.annotations or {} for node in nodes]
        self.unschedulable = np.array([node.spec.unschedulable for node in nodes], dtype=bool)
        self._label_columns: dict[str, tuple[Codes, dict[str, int], list[str]]] = {}
        self._label_rows: dict[str, dict[str, Rows]] = {}
        self.taint_sets, self.taint_codes = self._intern_taints()

    def __len__(self) -> int:
        return len(self.names)

    def label_column(self, key: str) -> tuple[Codes, list[str]]:
        """The values of one label: (codes of shape (nodes,), values); code -1 where the label is absent."""
        codes, _, values = self._label(key)
        return codes, values

    def label_codes(self, key: str) -> tuple[Codes, Mapping[str, int]]:
        """``label_column`` with value -> code, in the order of the codes."""
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
        """The rows of the nodes that have one value of a label, ascending."""
        by_value = self._label_rows.get(key)
        if by_value is None:
            codes, values = self.label_column(key)
            order = np.argsort(codes, kind="stable").astype(np.intp)
            ends = np.searchsorted(codes[order], np.arange(len(values) + 1))
            by_value = {text: order[ends[i] : ends[i + 1]] for i, text in enumerate(values)}
            self._label_rows[key] = by_value
        rows = by_value.get(value)
        return np.empty(0, dtype=np.intp) if rows is None else rows

    def _intern_taints(self) -> tuple[list[tuple[tuple[str, str, str], ...]], Codes]:
        sets: dict[tuple[tuple[str, str, str], ...], int] = {}
        codes = np.zeros(len(self.objects), dtype=np.int32)
        for row, node in enumerate(self.objects):
            taints = tuple((t.key, t.value, t.effect) for t in node.spec.taints or ())
            codes[row] = sets.setdefault(taints, len(sets))
        return list(sets), codes


@dataclass(slots=True, eq=False)
class Nodes:
    """Amounts per node, of shape (resources, nodes), and the log of rows that changed."""

    facts: NodeFacts
    allocatable: Column
    idle: Column
    """Allocatable less what bound tasks hold; may be negative where a node shrank."""
    used: Column
    releasing: Column
    """Part of used that terminating tasks will give back."""
    pipelined: Column
    """Promised to tasks that wait for releasing amounts; exists only within a session."""
    evicted: Column
    """Part of releasing that tasks hold which were evicted within this session."""
    nonzero: Column
    """Shape (2, nodes): cpu and memory asked for by tasks there or promised to come, with defaults for containers that
    ask for none (for scores). Those evicted within this session count as gone."""
    capacity: Column
    """What the machines have, allocatable or not; a node that does not say so has what is allocatable."""
    log: list[Change] = field(default_factory=list)
    """What changed in this session, in order; readers keep a position in it."""

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
        """An independent copy of the amounts; facts are shared, the log starts empty."""
        return Nodes(
            self.facts,
            self.allocatable,
            self.idle.copy(),
            self.used.copy(),
            self.releasing.copy(),
            self.pipelined.copy(),
            self.evicted.copy(),
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

    # --- accounting: each returns nothing and is undone exactly by its opposite (amounts are whole numbers) ---
    def hold(self, row: int, cls: TaskClass, count: int = 1) -> None:
        """``count`` tasks of a class take their amounts (negative: give back)."""
        amount = cls.request * count if count != 1 else cls.request
        self.idle[:, row] -= amount
        self.used[:, row] += amount
        self._nonzero(row, cls, count)
        self.log.append((row, cls.id, count))

    def release(self, row: int, cls: TaskClass, count: int = 1) -> None:
        """``count`` tasks that hold amounts begin to terminate (negative: are taken back into service)."""
        self.releasing[:, row] += cls.request * count
        self.log.append((row, -1, 0))

    def evict(self, row: int, cls: TaskClass, count: int = 1) -> None:
        """The same of tasks that this session evicts (negative: spares)."""
        self.evicted[:, row] += cls.request * count
        self._nonzero(row, cls, -count)
        self.release(row, cls, count)

    def promise(self, row: int, cls: TaskClass, count: int = 1) -> None:
        """``count`` tasks are pipelined onto the node (negative: no longer)."""
        self.pipelined[:, row] += cls.request * count
        self._nonzero(row, cls, count)
        self.log.append((row, -1, 0))

    def _nonzero(self, row: int, cls: TaskClass, count: int) -> None:
        cpu, memory = cls.nonzero
        self.nonzero[0, row] += cpu * count
        self.nonzero[1, row] += memory * count

    def pod_room(self, rows: "Rows | slice") -> Column:
        """How many more Pods each node may run by its own limit; terminating and promised Pods count."""
        room: Column = (
            self.allocatable[PODS_INDEX, rows] - self.used[PODS_INDEX, rows] - self.pipelined[PODS_INDEX, rows]
        )
        return room
