"""How many Pods of a kind are in each topology domain, kept up to date while a session places more.

Affinity and spreading ask the same question: of the Pods that a selector speaks of, how many are in the zone (rack,
host) of a node? The answer is a column of counts per domain, built once from where the classes are and then adjusted by
each placement, so that asking for all nodes is one array lookup. A placement reaches only the counts that its class is
counted in, and a count looks only at the nodes of its classes: a session in which nobody asks pays next to nothing. Who
is counted where is found by a label that the selector names, so a thousand apps that each look at their own Pods do not
ask about each other.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler.api.job import Job
from scheduler.api.node import Codes, Column, Mask, Rows
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.columns import Counts
from scheduler.framework.session import Session

Weight = Callable[[TaskClass], float]
"""What one Pod of a class counts; 0: it is not meant."""
Label = tuple[str, str]
Clue = Label | Collection[int] | None
"""What spares asking every class for its weight: a label that all classes counted have, or the ids of all of them."""
Numbers = NDArray[np.float64]
T = TypeVar("T")


class DomainCounts:
    """Pods of the classes selected, per domain of one topology key."""

    def __init__(self, codes: Codes, domains: int, weight: Weight, eligible: Mask | None = None) -> None:
        self.codes = codes
        """Domain of each node, -1 where it has none."""
        self.apart = domains == int((codes >= 0).sum())
        """Whether every domain is one node: a placement then changes the answer for its own node alone."""
        self.counts: Numbers = np.zeros(domains + 1)
        """Per domain; the last entry stands for nodes without one and stays 0."""
        self.weight = weight
        self._counted = codes if eligible is None else np.where(eligible, codes, -1)

    def place(self, row: int, number: float) -> None:
        """``add`` for one node."""
        code = self._counted[row]
        if code >= 0:
            self.counts[code] += number

    def add(self, rows: Sequence[int] | Rows, numbers: Numbers | float) -> None:
        """Pods on these nodes come in (``numbers`` below 0: go), their weight included."""
        np.add.at(self.counts, self._counted[rows], numbers)
        self.counts[-1] = 0.0

    @property
    def nobody(self) -> bool:
        """No Pod is counted in any domain."""
        return not self.counts.any()

    def at_nodes(self, rows: Rows) -> Numbers:
        """The count in the domain of each node; 0 for a node without one."""
        found: Numbers = self.counts[self.codes[rows]]
        return found

    def traits(self, rows: Rows) -> list[Column]:
        """Nodes with the same numbers have the same count, now and after placements elsewhere (see ``Grouped``)."""
        codes = self.codes[rows]
        if not self.apart:
            return [codes.astype(np.float64)]
        return [self.counts[codes], (codes < 0).astype(np.float64)]


class Counting:
    """What Filters and Scores by counts have in common: they are Grouped (see ``columns``)."""

    def __init__(self, found: Sequence[DomainCounts], cls: TaskClass) -> None:
        self.found = found
        self._steps = [(counts, step) for counts in found if (step := counts.weight(cls))]
        """The counts that a task of the class itself changes, and by how much."""
        self.moves = any(counts.apart for counts, _ in self._steps)

    def traits(self, rows: Rows) -> list[Column]:
        return [column for counts in self.found for column in counts.traits(rows)]

    def place(self, row: int, number: int) -> None:
        for counts, step in self._steps:
            counts.place(row, step * number)


class CountingFilter(Counting, ABC):
    """A Filter by counts. Of several that belong together only the first that refuses a node gives its reason, as
    Kubernetes looks no further."""

    def __init__(
        self, found: Sequence[DomainCounts], cls: TaskClass, reason: str, before: Sequence["CountingFilter"] = ()
    ) -> None:
        """``before``: those that come before it."""
        super().__init__(found, cls)
        self._reason = reason
        self._before = before

    @abstractmethod
    def room(self, rows: Rows) -> Counts:
        """See ``Filter``."""

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        for other in self._before:
            rows = rows[other.room(rows) > 0]
        return ((self._reason, len(rows)),) if len(rows) else ()


class _Classes(Generic[T]):
    """Something about each of several classes, found by a clue."""

    def __init__(self) -> None:
        self._all: dict[int, tuple[TaskClass, T]] = {}
        self._by_label: dict[Label, list[tuple[TaskClass, T]]] = {}

    def add(self, cls: TaskClass, thing: T) -> None:
        entry = self._all[cls.id] = (cls, thing)
        for label in cls.labels.items():
            self._by_label.setdefault(label, []).append(entry)

    def of(self, cls: TaskClass) -> T:
        return self._all[cls.id][1]

    def find(self, clue: Clue) -> Iterable[tuple[TaskClass, T]]:
        if clue is None:
            return self._all.values()
        if isinstance(clue, tuple):
            return self._by_label.get(clue, ())
        return (self._all[number] for number in clue if number in self._all)


class PodCounts:
    """All counts of one session, shared by the plugins that ask: ``Session.once``, when they open, so that no placement
    is missed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._counts: dict[Label | int | None, list[DomainCounts]] = {}
        self._watching: dict[int, list[tuple[DomainCounts, float]]] = {}
        """Class id -> the counts it is counted in, with its weight; for classes moved in this session."""
        self._moved = _Classes[dict[int, int]]()
        """Row -> Pods of the class placed there in this session, less those taken away."""
        self._stood: dict[int, tuple[Rows, Numbers]] = {}
        """Class id -> (rows, Pods there) when the session opened; filled as asked for."""
        self._leaving: dict[int, tuple[list[int], Numbers]] | None = None
        session.add_handlers(self._allocated, self._deallocated)

    def _allocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        self._move(tasks[0].cls, rows, 1)

    def _deallocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self._move(tasks[0].cls, rows, -1)

    def _move(self, cls: TaskClass, rows: Sequence[int], sign: int) -> None:
        watching = self._watching.get(cls.id)
        if watching is None:
            watching = self._watching[cls.id] = [(c, w) for c in self._concerned(cls) if (w := c.weight(cls))]
            self._moved.add(cls, {})
        net = self._moved.of(cls)
        for row in rows:
            net[row] = net.get(row, 0) + sign
        for counts, weight in watching:
            counts.add(rows, weight * sign)

    def _concerned(self, cls: TaskClass) -> Iterator[DomainCounts]:
        """The counts that may count a class."""
        for part in (None, cls.id, *cls.labels.items()):
            yield from self._counts.get(part, ())

    def count(
        self,
        key: str,
        weight: Weight,
        eligible: Mask | None = None,
        *,
        clue: Clue = None,
        staying: bool = False,
    ) -> DomainCounts:
        """Count Pods, each by the weight of its class, per value of the node label ``key``, from now on.

        ``eligible``: only Pods on these nodes count. ``staying``: tasks that were terminating already do not count.
        """
        codes, values = self._session.nodes.facts.label_column(key)
        return self._keep(codes, len(values), weight, eligible, clue, staying)

    def count_per_node(self, weight: Weight, *, staying: bool = False) -> DomainCounts:
        """Count Pods, each by the weight of its class, on each node, from now on."""
        number = len(self._session.nodes)
        codes = np.arange(number, dtype=np.int32)
        return self._keep(codes, number, weight, None, None, staying)

    def _keep(
        self, codes: Codes, domains: int, weight: Weight, eligible: Mask | None, clue: Clue, staying: bool
    ) -> DomainCounts:
        counts = DomainCounts(codes, domains, weight, eligible)
        for cls, nodes in self._placed.find(clue):
            factor = weight(cls)
            if factor:
                rows, numbers = self._standing(cls, nodes)
                counts.add(rows, numbers * factor)
                if staying and cls.id in self._terminating():
                    gone, many = self._terminating()[cls.id]
                    counts.add(gone, -many * factor)
        for cls, net in self._moved.find(clue):
            factor = weight(cls)
            if factor:
                counts.add(list(net), np.array(list(net.values()), dtype=np.float64) * factor)
                self._watching[cls.id].append((counts, factor))
        for part in (clue,) if clue is None or isinstance(clue, tuple) else clue:
            self._counts.setdefault(part, []).append(counts)
        return counts

    @cached_property
    def _placed(self) -> "_Classes[Mapping[str, int]]":
        """Node name -> Pods of the class there when the session opened."""
        placed = _Classes[Mapping[str, int]]()
        for one in self._session.snapshot.placed:
            placed.add(one.cls, one.nodes)
        return placed

    def _standing(self, cls: TaskClass, nodes: Mapping[str, int]) -> tuple[Rows, Numbers]:
        found = self._stood.get(cls.id)
        if found is None:
            index = self._session.nodes.index
            known = {row: number for name, number in nodes.items() if (row := index.get(name)) is not None}
            rows: Rows = np.fromiter(known.keys(), dtype=np.intp, count=len(known))
            numbers = np.fromiter(known.values(), dtype=np.float64, count=len(known))
            found = self._stood[cls.id] = rows, numbers
        return found

    def _terminating(self) -> dict[int, tuple[list[int], Numbers]]:
        """Class id -> (rows, 1 for each) of the tasks that were terminating when the session opened."""
        if self._leaving is None:
            index = self._session.nodes.index
            rows: dict[int, list[int]] = {}
            own = (task for job in self._session.jobs.values() for task in job.of(TaskStatus.RELEASING).values())
            for task in chain(own, self._session.snapshot.strangers):
                row = index.get(task.node)
                if task.status is TaskStatus.RELEASING and row is not None:
                    rows.setdefault(task.cls.id, []).append(row)
            self._leaving = {number: (where, np.ones(len(where))) for number, where in rows.items()}
        return self._leaving
