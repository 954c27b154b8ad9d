"""The nodes of a session as a table of columns: one row per node, in name order.

Amounts are arrays of shape (resources, nodes), so that one resource of all nodes is contiguous. Labels, taints and
images are interned: a predicate looks at each distinct value once and spreads the answer over the rows. The part that
does not change within a session (NodeFacts) is shared from snapshot to snapshot.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from scheduler.api.objects import Node
from scheduler.api.resource import PODS_INDEX, Vector
from scheduler.api.task import TaskClass

Column = NDArray[np.float64]
Codes = NDArray[np.int32]
Rows = NDArray[np.intp]

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
        self._label_columns: dict[str, tuple[Codes, list[str]]] = {}
        self.taint_sets, self.taint_codes = self._intern_taints()

    def __len__(self) -> int:
        return len(self.names)

    def label_column(self, key: str) -> tuple[Codes, list[str]]:
        """The values of one label: (codes of shape (nodes,), values); code -1 where the label is absent."""
        column = self._label_columns.get(key)
        if column is None:
            values: dict[str, int] = {}
            codes = np.full(len(self.names), -1, dtype=np.int32)
            for row, labels in enumerate(self.labels):
                value = labels.get(key)
                if value is not None:
                    codes[row] = values.setdefault(value, len(values))
            column = self._label_columns[key] = (codes, list(values))
        return column

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
    nonzero: Column
    """Shape (2, nodes): cpu and memory asked for by tasks there or promised to come, with defaults for containers that
    ask for none (for scores)."""
    log: list[int] = field(default_factory=list)
    """Rows in the order in which they changed in this session; readers keep a position in it."""

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
            nonzero=np.zeros((2, len(facts))),
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
            self.nonzero.copy(),
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
        self.log.append(row)

    def release(self, row: int, cls: TaskClass, count: int = 1) -> None:
        """``count`` tasks that hold amounts begin to terminate (negative: are taken back into service)."""
        self.releasing[:, row] += cls.request * count
        self.log.append(row)

    def promise(self, row: int, cls: TaskClass, count: int = 1) -> None:
        """``count`` tasks are pipelined onto the node (negative: no longer)."""
        self.pipelined[:, row] += cls.request * count
        self._nonzero(row, cls, count)
        self.log.append(row)

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
