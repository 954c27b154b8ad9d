"""How many Pods of a kind are in each topology domain, kept up to date while a session places more.

Affinity and spreading ask the same question: of the Pods that a selector speaks of, how many are in the zone (rack,
host) of a node? The answer is a column of counts per domain, built once from where the classes are and then adjusted by
each placement, so that asking for all nodes is one array lookup.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.api.job import Job
from scheduler.api.node import Codes
from scheduler.api.task import Task, TaskClass
from scheduler.framework.session import Session
from scheduler.plugins.selectors import Mask

Selects = Callable[[TaskClass], bool]
Weight = Callable[[TaskClass], float]
Numbers = NDArray[np.float64]


class DomainCounts:
    """Pods of the classes selected, per domain of one topology key."""

    def __init__(
        self,
        codes: Codes,
        domains: int,
        selects: Selects,
        eligible: Mask | None = None,
        weight: Weight = lambda cls: 1.0,
    ) -> None:
        self.codes = codes
        """Domain of each node, -1 where it has none."""
        self.counts: Numbers = np.zeros(domains + 1)
        """Per domain; the last entry stands for nodes without one and stays 0."""
        self.total = 0.0
        """Sum over all domains."""
        self._selects = selects
        self._eligible = eligible
        self._weight = weight
        self._memo: dict[int, float] = {}

    def add(self, cls: TaskClass, row: int, number: int) -> None:
        """``number`` more Pods of a class are on a node."""
        weight = self._memo.get(cls.id)
        if weight is None:
            weight = self._memo[cls.id] = self._weight(cls) if self._selects(cls) else 0.0
        domain = self.codes[row]
        if weight and domain >= 0 and (self._eligible is None or self._eligible[row]):
            self.counts[domain] += weight * number
            self.total += weight * number

    def at_nodes(self, rows: NDArray[np.intp]) -> Numbers:
        """The count in the domain of each node; 0 for a node without one."""
        found: Numbers = self.counts[self.codes[rows]]
        return found


class PodCounts:
    """All counts of one session, shared by the plugins that ask; also tells where every class is."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._counts: list[DomainCounts] = []
        self._moves: list[tuple[TaskClass, int, int]] = []
        session.add_handlers(self._allocated, self._deallocated)

    def _allocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        self._move(tasks[0].cls, rows, 1)

    def _deallocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self._move(tasks[0].cls, rows, -1)

    def _move(self, cls: TaskClass, rows: Sequence[int], sign: int) -> None:
        for row in rows:
            self._moves.append((cls, row, sign))
            for counts in self._counts:
                counts.add(cls, row, sign)

    @property
    def version(self) -> int:
        """Grows with every placement."""
        return len(self._moves)

    def rows_of(self, wanted: Selects) -> Numbers:
        """Shape (nodes,): number of Pods of the classes wanted on each node."""
        number = len(self._session.nodes)
        counts = DomainCounts(np.arange(number, dtype=np.int32), number, wanted)
        self._fill(counts)
        return counts.counts[:-1]

    def count(
        self,
        key: str,
        selects: Selects,
        eligible: Mask | None = None,
        weight: Weight = lambda cls: 1.0,
    ) -> DomainCounts:
        """Count the Pods selected (times ``weight``) per value of the node label ``key``, from now on.

        ``eligible``: only Pods on these nodes count.
        """
        codes, values = self._session.nodes.facts.label_column(key)
        counts = DomainCounts(codes, len(values), selects, eligible, weight)
        self._fill(counts)
        self._counts.append(counts)
        return counts

    def _fill(self, counts: DomainCounts) -> None:
        index = self._session.nodes.index
        for placed in self._session.snapshot.placed:
            for name, number in placed.nodes.items():
                row = index.get(name)
                if row is not None:
                    counts.add(placed.cls, row, number)
        for cls, row, sign in self._moves:
            counts.add(cls, row, sign)


def pod_counts(session: Session) -> PodCounts:
    """The session's counts. To be called when a plugin opens, so that no placement is missed."""
    counts = session.shared.get(PodCounts)
    if counts is None:
        counts = session.shared[PodCounts] = PodCounts(session)
    result: PodCounts = counts
    return result
