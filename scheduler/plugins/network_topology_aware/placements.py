"""The HyperNodes in which each sub-job has placed tasks. Placements and their undoing keep them current."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from scheduler.api.hypernode import HyperNode, HyperNodes
from scheduler.api.job import Job
from scheduler.api.sub_job import SubJob
from scheduler.api.task import ALLOCATED_STATUSES, Task, TaskStatus
from scheduler.framework.session import Session


class SubJobPlacement:
    """The nodes that have placed tasks of one sub-job."""

    def __init__(self, hyper_nodes: HyperNodes) -> None:
        self._hyper_nodes = hyper_nodes
        self.rows: Counter[int] = Counter()
        """Row -> number of tasks."""
        self.leaves: Counter[int] = Counter()
        """Code of a leaf HyperNode (``HyperNodes.leaf_codes``) -> number of tasks."""
        self._lowest: HyperNode | None = None
        self._stale = False

    def place(self, row: int, number: int) -> None:
        """Adds ``number`` tasks (may be negative) on a node."""
        self.rows[row] += number
        self.leaves[int(self._hyper_nodes.leaf_codes[row])] += number
        if not self.rows[row]:
            del self.rows[row]
            self._stale = True
        elif self._lowest is None:
            self._stale = True
        elif not self._stale and self.rows[row] == number:
            one = np.array([row])
            self._lowest = next(hn for hn in self._lowest.path_to_root if hn.holds(one))

    @property
    def hyper_node(self) -> HyperNode | None:
        """The lowest HyperNode that contains all the tasks; None without tasks."""
        if self._stale:
            self._lowest = self._hyper_nodes.covering(np.array(list(self.rows))) if self.rows else None
            self._stale = False
        return self._lowest

    def within(self, hyper_node: HyperNode) -> int:
        """The number of the tasks within a HyperNode."""
        if not self.rows:
            return 0
        inside = np.isin(np.array(list(self.rows)), hyper_node.rows)
        return int(np.array(list(self.rows.values()))[inside].sum())


class SubJobPlacements:
    """The placements of all sub-jobs of a session, computed on first use."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._placements: dict[str, SubJobPlacement] = {}
        session.add_handlers(self._allocated, self._deallocated)

    def of(self, sub_job: SubJob) -> SubJobPlacement:
        placement = self._placements.get(sub_job.key)
        if placement is None:
            placement = self._placements[sub_job.key] = SubJobPlacement(self._session.hyper_nodes)
            job = self._session.jobs[sub_job.job]
            for status in (*ALLOCATED_STATUSES, TaskStatus.PIPELINED):
                for task in job.of(status).values():
                    if task.uid in sub_job.tasks and (task.uid in job.placed or task.node in self._session.nodes.index):
                        placement.place(self._session.row_of(job, task), 1)
        return placement

    def around(self, target: Job | SubJob) -> HyperNode | None:
        """The lowest HyperNode that contains all placed tasks of a sub-job, or of all sub-jobs of a job."""
        if isinstance(target, SubJob):
            return self.of(target).hyper_node
        result: HyperNode | None = None
        for sub_job in target.sub_jobs.values():
            found = self.of(sub_job).hyper_node
            if found is not None:
                result = found if result is None else HyperNodes.common(result, found)
        return result

    def _allocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        self._move(job, tasks, rows, 1)

    def _deallocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self._move(job, tasks, rows, -1)

    def _move(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], number: int) -> None:
        if job.sub_jobs:
            for task, row in zip(tasks, rows, strict=True):
                placement = self._placements.get(job.sub_job_of[task.uid].key)
                if placement is not None:
                    placement.place(row, number)
