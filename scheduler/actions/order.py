"""The order of queues, jobs and sub-jobs in actions, and the order of evictions."""

import heapq
from collections.abc import Iterable, Sequence
from typing import Any

from scheduler.api.job import Job
from scheduler.api.queue import Queue
from scheduler.api.sub_job import SubJob
from scheduler.api.task import Task
from scheduler.framework.extension import JOB_ORDER, QUEUE_ORDER
from scheduler.framework.session import Session


class Worklist:
    """A priority queue of queues (QueueOrder), each with a priority queue of its jobs (JobOrder).

    Keys are computed on insertion: the action inserts a queue or job again after it placed tasks of it. If a placement
    can change the keys of others as well, ``next_queue`` and ``next_job`` recompute them. A single queue has no key: it
    is compared with no other.
    """

    def __init__(self, session: Session, jobs: Iterable[Job]) -> None:
        self._session = session
        self._jobs: dict[str, list[tuple[Any, Job]]] = {}
        self._queues: list[tuple[Any, Queue]] = []
        for job in jobs:
            self._jobs.setdefault(job.queue, []).append((session.job_key(job), job))
        for name, entries in self._jobs.items():
            heapq.heapify(entries)
            self.put_queue(session.queues[name])

    def put_queue(self, queue: Queue) -> None:
        """Inserts a queue, unless all its jobs were served."""
        if self._jobs.get(queue.name):
            heapq.heappush(self._queues, (self._queue_key(queue), queue))

    def put_job(self, job: Job) -> None:
        heapq.heappush(self._jobs[job.queue], (self._session.job_key(job), job))

    def next_queue(self) -> Queue | None:
        """Removes and returns the next queue; None: there are no more."""
        if QUEUE_ORDER in self._session.moving_orders:
            self._queues = [(self._queue_key(queue), queue) for _, queue in self._queues]
            heapq.heapify(self._queues)
        return heapq.heappop(self._queues)[1] if self._queues else None

    def _queue_key(self, queue: Queue) -> tuple[Any, ...]:
        return self._session.queue_key(queue) if len(self._jobs) > 1 else ()

    def next_job(self, queue: Queue) -> Job | None:
        """Removes and returns the next job of a queue; None: there are no more."""
        entries = self._jobs.get(queue.name)
        if not entries:
            return None
        if JOB_ORDER in self._session.moving_orders:
            self._refresh_first(entries)
        return heapq.heappop(entries)[1]

    def _refresh_first(self, entries: list[tuple[Any, Job]]) -> None:
        """Recomputes the key of the first job until it remains the first. Keys only grow as jobs get more resources, so
        no other job can precede it."""
        while (key := self._session.job_key(entries[0][1])) != entries[0][0]:
            heapq.heapreplace(entries, (key, entries[0][1]))

    def remaining_jobs(self, queue: Queue) -> list[Job]:
        """Returns the jobs of a queue that were not served yet."""
        return [job for _, job in self._jobs.get(queue.name, ())]


def in_eviction_order(session: Session, tasks: Sequence[Task], preemptor: Queue) -> list[Task]:
    """Returns tasks of known jobs in the order in which they are evicted in favour of the preemptor's queue (Volcano's
    BuildVictimsPriorityQueue): by victim queue order, then the last queue, the last job and the last task first."""
    if len(tasks) < 2:
        return list(tasks)
    ordered = sorted(tasks, key=session.task_key, reverse=True)
    jobs = {task.job: session.jobs[task.job] for task in tasks}
    if len(jobs) > 1:
        ranks = {key: session.job_rank(job) for key, job in jobs.items()}
        ordered.sort(key=lambda task: ranks[task.job], reverse=True)
    queues = {job.queue: session.queues[job.queue] for job in jobs.values()}
    if len(queues) > 1:
        places = {name: session.queue_key(queue) for name, queue in queues.items()}
        ordered.sort(key=lambda task: places[jobs[task.job].queue], reverse=True)
        losses = {name: session.victim_queue_key(queue, preemptor) for name, queue in queues.items()}
        ordered.sort(key=lambda task: losses[jobs[task.job].queue])
    return ordered


class SubJobOrder:
    """The order of the sub-jobs of a job: first those that the job needs to be ready (minSubGroups), then by
    SubJobOrder (Volcano's worksheet of a job). The needed sub-jobs are determined on construction."""

    def __init__(self, session: Session, job: Job) -> None:
        self._session = session
        ready: dict[str | None, int] = {}
        unready = []
        for sub_job in job.sub_jobs.values():
            if session.sub_job_ready(job, sub_job):
                ready[sub_job.policy] = ready.get(sub_job.policy, 0) + 1
            else:
                unready.append(sub_job)
        self._required: set[str] = set()
        minimum = job.sub_group_minimum or {}
        for sub_job in sorted(unready, key=session.sub_job_key):
            have = ready.get(sub_job.policy, 0)
            if sub_job.policy is not None and have < minimum.get(sub_job.policy, 0):
                self._required.add(sub_job.key)
                ready[sub_job.policy] = have + 1

    def key(self, sub_job: SubJob) -> tuple[Any, ...]:
        """Returns the current sort key, which is unique among the sub-jobs of a job."""
        return (sub_job.key not in self._required, *self._session.sub_job_key(sub_job))
