"""Queues and their jobs in the order in which an action turns to them; tasks in the order in which they give way."""

import heapq
from collections.abc import Iterable, Sequence
from typing import Any

from scheduler.api.job import Job
from scheduler.api.queue import Queue
from scheduler.api.task import Task
from scheduler.framework.extension import JOB_ORDER, QUEUE_ORDER
from scheduler.framework.session import Session


class Worklist:
    """Queues by QueueOrder, each with its jobs by JobOrder.

    Orders are taken when something is put in, as a heap's are: what a placement changes is put in again. Where a
    placement changes the place of others as well, they are ordered anew when the next is asked for.
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
        heapq.heappush(self._queues, (self._session.queue_key(queue), queue))

    def put_job(self, job: Job) -> None:
        heapq.heappush(self._jobs[job.queue], (self._session.job_key(job), job))

    def next_queue(self) -> Queue | None:
        """The queue to serve now, taken out; None when all are served."""
        if self._session.moves(QUEUE_ORDER):
            self._queues = [(self._session.queue_key(queue), queue) for _, queue in self._queues]
            heapq.heapify(self._queues)
        return heapq.heappop(self._queues)[1] if self._queues else None

    def next_job(self, queue: Queue) -> Job | None:
        """The queue's job to turn to now, taken out; None when it has no more."""
        entries = self._jobs.get(queue.name)
        if not entries:
            return None
        if self._session.moves(JOB_ORDER):
            self._settle(entries)
        return heapq.heappop(entries)[1]

    def _settle(self, entries: list[tuple[Any, Job]]) -> None:
        """Bring the first up to date, until it is the first still. Keys grow as jobs get more, so no other precedes."""
        while (key := self._session.job_key(entries[0][1])) != entries[0][0]:
            heapq.heapreplace(entries, (key, entries[0][1]))

    def rest_of(self, queue: Queue) -> list[Job]:
        """The queue's jobs that are still to be turned to."""
        return [job for _, job in self._jobs.get(queue.name, ())]


def worst_first(session: Session, tasks: Sequence[Task], claimant: Queue) -> list[Task]:
    """Tasks of known jobs in the order in which they are evicted for a claimant's queue (Volcano's
    BuildVictimsPriorityQueue): the queue served last, therein the job that plugins put last, then the task put last."""
    ordered = sorted(tasks, key=session.task_key, reverse=True)
    jobs = {task.job: session.jobs[task.job] for task in tasks}
    if len(jobs) > 1:
        ranks = {key: session.job_rank(job) for key, job in jobs.items()}
        ordered.sort(key=lambda task: ranks[task.job], reverse=True)
    queues = {job.queue: session.queues[job.queue] for job in jobs.values()}
    if len(queues) > 1:
        places = {name: session.queue_key(queue) for name, queue in queues.items()}
        ordered.sort(key=lambda task: places[jobs[task.job].queue], reverse=True)
        losses = {name: session.victim_queue_key(queue, claimant) for name, queue in queues.items()}
        ordered.sort(key=lambda task: losses[jobs[task.job].queue])
    return ordered
