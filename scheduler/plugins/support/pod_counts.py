"""Counts the Pods of selected classes per topology domain, and keeps the counts current while a session places Pods.

Pod affinity and topology spreading need the same number: how many of the Pods that a selector selects are in the zone
(rack, host) of a node? A count is a column with one entry per domain. It is computed once from the Pods' nodes when the
session opened, and each placement adjusts it, so that the counts at all nodes are one array lookup. A placement updates
only the counts that include its class, and a new count reads only the nodes of the classes it includes; a session
without affinity terms and spread constraints does almost no work. Classes are indexed by their labels, so a thousand
applications whose selectors each name their own label are not matched against each other.
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
from scheduler.api.resource import PODS_INDEX
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.columns import Counts
from scheduler.framework.plugin_session import PluginSession

Weight = Callable[[TaskClass], float]
"""What one Pod of a class counts; 0 if the class is not selected."""
Label = tuple[str, str]
ClassSubset = Label | Collection[int] | None
"""Classes outside this subset have weight 0, so that their weight is not computed: the subset is given by a label that
all its classes have, or by their ids. None: all classes."""
Numbers = NDArray[np.float64]
T = TypeVar("T")


class DomainCounts:
    """The numbers of Pods of the selected classes, per domain of one topology key."""

    def __init__(self, codes: Codes, domains: int, weight: Weight, eligible: Mask | None = None) -> None:
        self.codes = codes
        """The domain of each node; -1 for a node without the label."""
        self.one_node_each = domains == int((codes >= 0).sum())
        """Whether each domain has one node. A placement then changes only the count of its own node."""
        self.counts: Numbers = np.zeros(domains + 1)
        """Per domain. The last entry is for nodes without a domain and stays 0."""
        self.weight = weight
        self._counted = codes if eligible is None else np.where(eligible, codes, -1)

    def place(self, row: int, number: float) -> None:
        """Adds ``number`` to the count of one node's domain."""
        code = self._counted[row]
        if code >= 0:
            self.counts[code] += number

    def add(self, rows: Sequence[int] | Rows, numbers: Numbers | float) -> None:
        """Adds numbers, already multiplied by the weight, to the counts of the domains of these nodes. Negative numbers
        remove Pods."""
        np.add.at(self.counts, self._counted[rows], numbers)
        self.counts[-1] = 0.0

    @property
    def empty(self) -> bool:
        """Whether all counts are 0."""
        return not self.counts.any()

    def at_nodes(self, rows: Rows) -> Numbers:
        """Returns the count in the domain of each node; 0 for a node without a domain."""
        found: Numbers = self.counts[self.codes[rows]]
        return found

    def traits(self, rows: Rows) -> list[Column]:
        """Columns that are equal for nodes with the same count, also after placements on other nodes (see
        ``Grouped``)."""
        codes = self.codes[rows]
        if not self.one_node_each:
            return [codes.astype(np.float64)]
        return [self.counts[codes], (codes < 0).astype(np.float64)]


class Counting:
    """The common part of Filters and Scores that use counts. They are Grouped (see ``scheduler.framework.columns``)."""

    def __init__(self, found: Sequence[DomainCounts], cls: TaskClass) -> None:
        self.found = found
        self._steps = [(counts, step) for counts in found if (step := counts.weight(cls))]
        """The counts that include the class itself, with its weight."""
        self.moves = any(counts.one_node_each for counts, _ in self._steps)

    def traits(self, rows: Rows) -> list[Column]:
        return [column for counts in self.found for column in counts.traits(rows)]

    def place(self, row: int, number: int) -> None:
        for counts, step in self._steps:
            counts.place(row, step * number)


class CountingFilter(Counting, ABC):
    """A Filter that uses counts. Of several filters for one class, only the first that rejects a node gives a reason,
    as in Kubernetes, which stops at the first failure."""

    def __init__(
        self, found: Sequence[DomainCounts], cls: TaskClass, reason: str, before: Sequence["CountingFilter"] = ()
    ) -> None:
        """``before``: the filters whose rejections take precedence."""
        super().__init__(found, cls)
        self._reason = reason
        self._before = before

    @abstractmethod
    def room(self, rows: Rows) -> Counts:
        """Returns how many more tasks of the class each node admits."""

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        for other in self._before:
            rows = rows[other.room(rows) > 0]
        return ((self._reason, len(rows)),) if len(rows) else ()


class _Classes(Generic[T]):
    """Values of task classes, looked up by a ``ClassSubset``."""

    def __init__(self) -> None:
        self._all: dict[int, tuple[TaskClass, T]] = {}
        self._by_label: dict[Label, list[tuple[TaskClass, T]]] = {}

    def add(self, cls: TaskClass, value: T) -> None:
        entry = self._all[cls.id] = (cls, value)
        for label in cls.labels.items():
            self._by_label.setdefault(label, []).append(entry)

    def of(self, cls: TaskClass) -> T:
        return self._all[cls.id][1]

    def find(self, only: ClassSubset) -> Iterable[tuple[TaskClass, T]]:
        if only is None:
            return self._all.values()
        if isinstance(only, tuple):
            return self._by_label.get(only, ())
        return (self._all[number] for number in only if number in self._all)


class PodCounts:
    """All counts of one session. Plugins share one instance through ``PluginSession.once``; they call it when they
    open, before the first placement."""

    def __init__(self, session: PluginSession) -> None:
        self._session = session
        self._counts: dict[Label | int | None, list[DomainCounts]] = {}
        self._counts_of: dict[int, list[tuple[DomainCounts, float]]] = {}
        """Class id -> the counts that include it, with its weight; for classes that this session placed or evicted."""
        self._moved = _Classes[dict[int, int]]()
        """Row -> Pods of the class placed there in this session, less those removed."""
        self._initial: dict[int, tuple[Rows, Numbers]] = {}
        """Class id -> (rows, numbers of Pods there) when the session opened; filled on first use."""
        self._terminating_pods: dict[int, tuple[list[int], Numbers]] | None = None
        session.add_handlers(self._allocated, self._deallocated)

    def _allocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        self._move(tasks[0].cls, rows, 1)

    def _deallocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self._move(tasks[0].cls, rows, -1)

    def _move(self, cls: TaskClass, rows: Sequence[int], sign: int) -> None:
        counts_of = self._counts_of.get(cls.id)
        if counts_of is None:
            counts_of = self._counts_of[cls.id] = [(c, w) for c in self._possible_counts(cls) if (w := c.weight(cls))]
            self._moved.add(cls, {})
        net = self._moved.of(cls)
        for row in rows:
            net[row] = net.get(row, 0) + sign
        for counts, weight in counts_of:
            counts.add(rows, weight * sign)

    def _possible_counts(self, cls: TaskClass) -> Iterator[DomainCounts]:
        """Yields the counts that may include a class."""
        for part in (None, cls.id, *cls.labels.items()):
            yield from self._counts.get(part, ())

    def count(
        self,
        key: str,
        weight: Weight,
        eligible: Mask | None = None,
        *,
        only: ClassSubset = None,
        exclude_terminating: bool = False,
    ) -> DomainCounts:
        """Returns the weighted number of Pods per value of the node label ``key``. The session keeps it current.

        ``eligible``: only Pods on these nodes count. ``exclude_terminating``: Pods that were terminating when the
        session opened do not count.
        """
        codes, values = self._session.nodes.facts.label_column(key)
        return self._add_counts(codes, len(values), weight, eligible, only, exclude_terminating)

    def count_per_node(self, weight: Weight, *, exclude_terminating: bool = False) -> DomainCounts:
        """Returns the weighted number of Pods per node. The session keeps it current."""
        number = len(self._session.nodes)
        codes = np.arange(number, dtype=np.int32)
        return self._add_counts(codes, number, weight, None, None, exclude_terminating)

    def _add_counts(
        self,
        codes: Codes,
        domains: int,
        weight: Weight,
        eligible: Mask | None,
        only: ClassSubset,
        exclude_terminating: bool,
    ) -> DomainCounts:
        counts = DomainCounts(codes, domains, weight, eligible)
        for cls, nodes in self._placed.find(only):
            factor = weight(cls)
            if factor:
                rows, numbers = self._initial_pods(cls, nodes)
                counts.add(rows, numbers * factor)
                if exclude_terminating and cls.id in self._terminating():
                    gone_rows, gone = self._terminating()[cls.id]
                    counts.add(gone_rows, -gone * factor)
        for cls, net in self._moved.find(only):
            factor = weight(cls)
            if factor:
                counts.add(list(net), np.array(list(net.values()), dtype=np.float64) * factor)
                self._counts_of[cls.id].append((counts, factor))
        for part in (only,) if only is None or isinstance(only, tuple) else only:
            self._counts.setdefault(part, []).append(counts)
        return counts

    @cached_property
    def _placed(self) -> "_Classes[Mapping[str, int]]":
        """Class -> node name -> number of its Pods there when the session opened."""
        placed = _Classes[Mapping[str, int]]()
        for one in self._session.snapshot.placed:
            placed.add(one.cls, one.nodes)
        return placed

    def _initial_pods(self, cls: TaskClass, nodes: Mapping[str, int]) -> tuple[Rows, Numbers]:
        """Converts node names to rows; Pods on nodes outside the session are left out."""
        found = self._initial.get(cls.id)
        if found is None:
            index = self._session.nodes.index
            known = {row: number for name, number in nodes.items() if (row := index.get(name)) is not None}
            rows: Rows = np.fromiter(known.keys(), dtype=np.intp, count=len(known))
            numbers = np.fromiter(known.values(), dtype=np.float64, count=len(known))
            found = self._initial[cls.id] = rows, numbers
        return found

    def _terminating(self) -> dict[int, tuple[list[int], Numbers]]:
        """Class id -> (rows, 1 for each) of the tasks that were terminating when the session opened."""
        if self._terminating_pods is None:
            rows: dict[int, list[int]] = {}
            if self._session.nodes.releasing[PODS_INDEX].any():  # most of the time nothing terminates
                index, releasing = self._session.nodes.index, TaskStatus.RELEASING
                own = (task for job in self._session.active_jobs.values() for task in job.of(releasing).values())
                for task in chain(own, self._session.snapshot.tasks_without_job):
                    if task.status is releasing and (row := index.get(task.node)) is not None:
                        rows.setdefault(task.cls.id, []).append(row)
            self._terminating_pods = {number: (where, np.ones(len(where))) for number, where in rows.items()}
        return self._terminating_pods
