"""How many Pods of a kind are in each topology domain, kept up to date while a session places more.

Affinity and spreading ask the same question: of the Pods that a selector speaks of, how many are in the zone (rack,
host) of a node? The answer is a column of counts per domain, built once from where the classes are and then adjusted by
each placement, so that asking for all nodes is one array lookup. A placement reaches only the counts that its class is
counted in, and a count looks only at the nodes of its classes: a session in which nobody asks pays next to nothing.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.api.job import Job
from scheduler.api.node import Codes, Rows
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.session import Session
from scheduler.plugins.selectors import Mask

Selects = Callable[[TaskClass], bool]
Weight = Callable[[TaskClass], float]
Numbers = NDArray[np.float64]


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
        """What one Pod of a class counts; 0: it is not meant."""
        self._counted = codes if eligible is None else np.where(eligible, codes, -1)

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


class PodCounts:
    """All counts of one session, shared by the plugins that ask; also tells where every class is."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._counts: list[DomainCounts] = []
        self._watching: dict[int, list[tuple[DomainCounts, float]]] = {}
        """Class id -> the counts it is counted in, with its weight; for classes moved in this session."""
        self._moved: dict[int, TaskClass] = {}
        self._net: dict[int, dict[int, int]] = {}
        """Class id -> row -> Pods placed there in this session, less those taken away."""
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
            watching = self._watching[cls.id] = [(c, w) for c in self._counts if (w := c.weight(cls))]
            self._moved[cls.id] = cls
            self._net[cls.id] = {}
        net = self._net[cls.id]
        for row in rows:
            net[row] = net.get(row, 0) + sign
        for counts, weight in watching:
            counts.add(rows, weight * sign)

    def count(
        self,
        key: str,
        selects: Selects,
        eligible: Mask | None = None,
        weight: Weight = lambda cls: 1.0,
        *,
        staying: bool = False,
    ) -> DomainCounts:
        """Count the Pods selected (times ``weight``) per value of the node label ``key``, from now on.

        ``eligible``: only Pods on these nodes count. ``staying``: tasks that were terminating already do not count.
        """
        codes, values = self._session.nodes.facts.label_column(key)
        return self._keep(codes, len(values), lambda cls: weight(cls) if selects(cls) else 0.0, eligible, staying)

    def count_per_node(self, selects: Selects, *, staying: bool = False) -> DomainCounts:
        """Count the Pods selected on each node, from now on."""
        number = len(self._session.nodes)
        codes = np.arange(number, dtype=np.int32)
        return self._keep(codes, number, lambda cls: float(selects(cls)), None, staying)

    def _keep(self, codes: Codes, domains: int, weight: Weight, eligible: Mask | None, staying: bool) -> DomainCounts:
        counts = DomainCounts(codes, domains, weight, eligible)
        for placed in self._session.snapshot.placed:
            factor = weight(placed.cls)
            if factor:
                rows, numbers = self._standing(placed.cls, placed.nodes)
                counts.add(rows, numbers * factor)
                if staying and placed.cls.id in self._terminating():
                    gone, many = self._terminating()[placed.cls.id]
                    counts.add(gone, -many * factor)
        for number, cls in self._moved.items():
            factor = weight(cls)
            if factor:
                net = self._net[number]
                counts.add(list(net), np.array(list(net.values()), dtype=np.float64) * factor)
                self._watching[number].append((counts, factor))
        self._counts.append(counts)
        return counts

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
        """Class id -> (rows, 1 for each) of the jobs' tasks that were terminating when the session opened."""
        if self._leaving is None:
            index = self._session.nodes.index
            rows: dict[int, list[int]] = {}
            for job in self._session.jobs.values():
                for task in job.of(TaskStatus.RELEASING).values():
                    row = index.get(task.node)
                    if task.status is TaskStatus.RELEASING and row is not None:
                        rows.setdefault(task.cls.id, []).append(row)
            self._leaving = {number: (where, np.ones(len(where))) for number, where in rows.items()}
        return self._leaving


def pod_counts(session: Session) -> PodCounts:
    """The session's counts. To be called when a plugin opens, so that no placement is missed."""
    counts = session.shared.get(PodCounts)
    if counts is None:
        counts = session.shared[PodCounts] = PodCounts(session)
    result: PodCounts = counts
    return result
