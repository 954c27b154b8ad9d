"""The tasks that hold nodes, as columns: whether they could be evicted for a preemptor is computed for all of them at
once.

Calling the victim functions node by node is exact, but too slow for every node and every preemptor. So each victim
function may have a bound: a column that is False where the function refuses the task even as the only candidate. A task
that is refused alone is also refused among other candidates (a gang gives up one task less for each task evicted
before), so nodes that the bounds exclude need no call.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.api.job import Job
from scheduler.api.node import Column, Mask, Nodes, Rows
from scheduler.api.task import Task, TaskClass, TaskStatus

Bound = Callable[[Any, "EvictionCandidates"], Mask]
"""bound(preemptor, candidates): False where the function refuses the task even alone. The preemptor is a task, an
EvictionContext or a ReclaimContext, as for the function."""
Most = Callable[[Any, "EvictionCandidates"], Column]
"""most(context, candidates): what each queue of the candidates can lose at most where a resource lacks, under a
ReclaimContext; shape (resources, queues), infinity where there is no limit."""
MAX_EXACT = 2**53


class EvictionCandidates:
    """The tasks that were bound to or running on nodes when this was created, one entry each, ordered by job, and
    whether they still are."""

    def __init__(self, jobs: Mapping[str, Job], nodes: Nodes) -> None:
        self.jobs: list[Job] = []
        """The jobs with a task on a node."""
        self.tasks: list[Task] = []
        self._spans: list[slice] = []
        """The positions of the tasks of each job."""
        index, statuses = nodes.index, (TaskStatus.RUNNING, TaskStatus.BOUND)
        runs: list[int] = []
        for job in jobs.values():
            begun = len(self.tasks)
            for status in statuses:
                known = [task for task in job.of(status).values() if task.node in index]
                self.tasks += known
                runs.append(len(known))
            if len(self.tasks) > begun:
                self._spans.append(slice(begun, len(self.tasks)))
                self.jobs.append(job)
        tasks, number = self.tasks, len(self.tasks)
        sizes = np.array([span.stop - span.start for span in self._spans], dtype=np.intp)
        self.owner: Rows = np.repeat(np.arange(len(self.jobs)), sizes)
        """The position in ``jobs`` of each task's job."""
        self.rows: Rows = np.array([index[task.node] for task in tasks], dtype=np.intp)
        self.running: Mask = np.repeat(np.tile([True, False], len(runs) // 2), np.array(runs, dtype=np.intp))
        self.preemptable: Mask = np.array([task.preemptable for task in tasks], dtype=bool)
        classes: dict[TaskClass, int] = {}
        of_class = np.array([classes.setdefault(task.cls, len(classes)) for task in tasks], dtype=np.intp)
        self.classes: list[TaskClass] = list(classes)
        self.class_of: Rows = of_class
        """The position in ``classes`` of each task's class."""
        self.best_effort: Mask = np.array([cls.best_effort for cls in classes], dtype=bool)[of_class]
        finite = {priority: _finite(priority) for priority in {task.priority for task in tasks}}
        self.priority: Column = np.array([finite[task.priority] for task in tasks], dtype=np.float64)
        self.present: Mask = np.ones(number, dtype=bool)
        """Whether each task still holds its node: False for the tasks that this session evicted."""
        self.requests: Column = (
            np.stack([cls.request for cls in classes], axis=1)[:, of_class] if tasks else np.zeros((len(nodes.idle), 0))
        )
        """Shape (resources, tasks)."""
        self.log: list[int] = []
        """The positions of changed jobs, in the order of the changes."""
        self.queues: list[str] = list(dict.fromkeys(job.queue for job in self.jobs))
        """The queues with a task on a node."""
        code = {name: i for i, name in enumerate(self.queues)}
        self.queue_of: Rows = np.array([code[job.queue] for job in self.jobs], dtype=np.intp)[self.owner]
        """The position in ``queues`` of each task's queue."""
        self._position = {job.key: i for i, job in enumerate(self.jobs)}
        self._index = {task.uid: i for i, task in enumerate(tasks)}
        self._by_row: Rows = np.argsort(self.rows, kind="stable")
        self._starts = np.searchsorted(self.rows[self._by_row], np.arange(len(nodes) + 1))
        self._per_job: dict[Callable[[Job], Any], tuple[int, NDArray[Any]]] = {}
        self._per_task: dict[Callable[[Task], bool], Mask] = {}

    # --- columns ---
    def span(self, job_key: str) -> slice:
        """Returns the slice of the tasks of one job."""
        position = self._position.get(job_key)
        return slice(0, 0) if position is None else self._spans[position]

    def own(self, job_key: str) -> Mask:
        """Returns the mask of the tasks of one job."""
        mine: Mask = np.zeros(len(self.tasks), dtype=bool)
        mine[self.span(job_key)] = True
        return mine

    def per_job(self, function: Callable[[Job], Any]) -> NDArray[Any]:
        """Returns the value of a function for each task's job: a number or a vector. The function, compared by
        identity, is called again for jobs that changed since. Callers must not change the result; it is valid until the
        next call."""
        seen, column = self._per_job.get(function, (0, None))
        if column is None:
            column = np.array([function(job) for job in self.jobs])[self.owner]
        else:
            for position in dict.fromkeys(self.log[seen:]):
                column[self._spans[position]] = function(self.jobs[position])
        self._per_job[function] = (len(self.log), column)
        return column

    def per_task(self, function: Callable[[Task], bool]) -> Mask:
        """Returns the value of a function, compared by identity, for each task. It is called once per task."""
        mask = self._per_task.get(function)
        if mask is None:
            mask = np.fromiter(map(function, self.tasks), dtype=bool, count=len(self.tasks))
            self._per_task[function] = mask
        return mask

    def of_queues(self, function: Callable[[str], bool]) -> Mask:
        """Returns the value of a function for the name of each task's queue. It is called once per queue."""
        answers = np.array([function(name) for name in self.queues], dtype=bool)
        return answers[self.queue_of]

    def at(self, row: int, among: Mask) -> list[Task]:
        """Returns the tasks of a mask that are on a node."""
        here = self._by_row[self._starts[row] : self._starts[row + 1]]
        return [self.tasks[i] for i in here[among[here]].tolist()]

    # --- keeping up, as handlers of a session ---
    def allocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        self._changed(job, tasks, present=True)

    def deallocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self._changed(job, tasks, present=False)

    def _changed(self, job: Job, tasks: Sequence[Task], *, present: bool) -> None:
        position = self._position.get(job.key)
        if position is None:
            return
        self.log.append(position)
        for task in tasks:
            index = self._index.get(task.uid)
            if index is not None:
                self.present[index] = present


def _finite(priority: int) -> float:
    """Returns a priority as a finite float that compares with others in the same order (an annotation may hold any
    number)."""
    return float(max(min(priority, MAX_EXACT), -MAX_EXACT))
