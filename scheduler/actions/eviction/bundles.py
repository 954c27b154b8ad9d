"""Bundles: sets of tasks of a gang that the gang actions evict together.

Tasks beyond the minimum of a gang can be evicted one by one, and the gang continues to run. The rest can only be
evicted as a whole, because a gang below its minimum cannot use its nodes. So a job is divided into bundles of one spare
task each, and at most one bundle of all other tasks. (Volcano's bundles hold all spare tasks of a job.)
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec
import numpy as np

from scheduler.api.job import Job
from scheduler.api.node import Mask
from scheduler.api.resource import Vector
from scheduler.api.task import READY_STATUSES, Task, TaskStatus
from scheduler.framework.extension import EvictionContext
from scheduler.framework.session import Session


class Bundle(msgspec.Struct, frozen=True, eq=False):
    """Tasks of one job that are evicted together or not at all."""

    job: Job
    tasks: tuple[Task, ...]
    whole: bool = False
    """Whether evicting them breaks the gang."""

    def relative_gain(self, need: Vector) -> float:
        """Returns how much of a need the bundle frees, relative to what its job holds or requests altogether: the ratio
        of two sums over the needed resources, each as a fraction of the need."""
        dims = np.flatnonzero(need > 0)
        gained = np.minimum(_total(self.tasks)[dims], need[dims])
        lost = _total(self.job.tasks())[dims]
        return float((gained / need[dims]).sum() / (lost / need[dims]).sum())


def _total(tasks: Iterable[Task]) -> Vector:
    total: Vector = np.sum([task.cls.request for task in tasks], axis=0)
    return total


class Bundles(msgspec.Struct, frozen=True):
    """The bundles of one job's tasks in one domain."""

    spare: list[Bundle] = msgspec.field(default_factory=list)
    """One task each, in the order of eviction: the lowest priority first, among equals the last in task order."""
    whole: list[Bundle] = msgspec.field(default_factory=list)
    """One bundle with the other tasks, or none."""


def bundles_of(session: Session, job: Job, tasks: Iterable[Task]) -> Bundles:
    """Divides tasks of a job into bundles."""
    ordered = sorted(tasks, key=session.task_key, reverse=True)
    ordered.sort(key=lambda task: task.priority)
    spare = SpareTasks(job)
    if spare.broken:
        return Bundles([Bundle(job, (task,)) for task in ordered])
    result = Bundles()
    rest = []
    for task in ordered:
        if spare.take(task):
            result.spare.append(Bundle(job, (task,)))
        else:
            rest.append(task)
    if rest:
        result.whole.append(Bundle(job, tuple(rest), whole=True))
    return result


class SpareTasks:
    """Counts how many more tasks a gang can lose while its tasks are chosen one by one."""

    def __init__(self, job: Job) -> None:
        """Counts the tasks of the job as they are now; later evictions do not matter."""
        self._job = job
        self._tasks = job.ready_count - job.min_member
        self._roles: dict[str, int] = {}
        if job.enforces_role_minimum:
            ready = job.role_counts(*READY_STATUSES)
            waiting = Counter(t.role for t in job.of(TaskStatus.PENDING).values() if t.cls.best_effort)
            self._roles = {role: ready.get(role, 0) + waiting[role] - n for role, n in job.role_minimum.items()}
        self._incomplete: set[str] = set()
        """Keys of sub-jobs below their minimum: losing more of their tasks costs nothing."""
        self._sub_jobs: Counter[str | None] = Counter()
        """Policy -> number of sub-jobs that it can still lose."""
        if job.sub_group_minimum:
            for sub_job in job.sub_jobs.values():
                if sub_job.ready:
                    self._sub_jobs[sub_job.policy] += 1
                else:
                    self._incomplete.add(sub_job.key)
            self._sub_jobs.subtract(job.sub_group_minimum)

    @property
    def broken(self) -> bool:
        """The gang is below its minimum already."""
        return self._tasks < 0

    def can_lose(self, tasks: Iterable[Task]) -> bool:
        """Takes tasks. Returns whether the gang keeps its minimum without them, or is below its minimum already."""
        return self.broken or all(map(self.take, tasks))

    def take(self, task: Task) -> bool:
        """Takes a task if the gang keeps its minimum without it. Returns whether it does."""
        if self._tasks <= 0 or self._roles.get(task.role, 1) <= 0:
            return False
        sub_job = self._job.sub_job_of.get(task.uid) if self._job.sub_group_minimum else None
        if sub_job is not None and sub_job.key not in self._incomplete:
            if self._sub_jobs[sub_job.policy] <= 0:
                return False
            self._incomplete.add(sub_job.key)
            self._sub_jobs[sub_job.policy] -= 1
        self._tasks -= 1
        if task.role in self._roles:
            self._roles[task.role] -= 1
        return True


class BundlesByJob:
    """The bundles of a mask of candidates, computed per job on first use."""

    def __init__(self, session: Session, evicted: Mask) -> None:
        self._session = session
        candidates = session.eviction_candidates
        positions = np.flatnonzero(evicted)
        owners = candidates.owner[positions]
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        parts = np.split(positions, starts[1:])
        self._positions = {candidates.jobs[owners[i]]: part for i, part in zip(starts.tolist(), parts, strict=False)}
        self._bundles: dict[Job, Bundles] = {}

    @property
    def jobs(self) -> Iterable[Job]:
        return self._positions

    def of(self, job: Job) -> Bundles:
        if job not in self._bundles:
            tasks = self._session.eviction_candidates.tasks
            mine = [tasks[position] for position in self._positions[job].tolist()]
            self._bundles[job] = bundles_of(self._session, job, mine)
        return self._bundles[job]


# --- orders ---
def by_job_order(session: Session, context: EvictionContext, bundles: BundlesByJob) -> Iterator[Bundle]:
    """Yields spare tasks before whole gangs; within each, the job that comes last in job order first (Volcano's
    gangpreempt)."""
    jobs = sorted(bundles.jobs, key=session.job_key, reverse=True)
    for job in jobs:
        yield from bundles.of(job).spare
    for job in jobs:
        yield from bundles.of(job).whole


def by_victim_queue_order(session: Session, context: EvictionContext, bundles: BundlesByJob) -> Iterator[Bundle]:
    """Yields spare tasks before whole gangs; within each, by victim queue order, then the gang with the highest
    ``relative_gain`` first, then by name (Volcano's gangreclaim)."""
    jobs = sorted(bundles.jobs, key=lambda job: job.key)
    preemptor = session.queues[context.job.queue]
    queues = {job.queue: session.queues[job.queue] for job in jobs}
    keys = {name: session.queue_key(queue) for name, queue in queues.items()}
    victim_keys = {name: session.victim_queue_key(queue, preemptor) for name, queue in queues.items()}

    def by_queue(jobs: list[Job]) -> list[Job]:
        jobs.sort(key=lambda job: keys[job.queue], reverse=True)
        return sorted(jobs, key=lambda job: victim_keys[job.queue])

    for job in by_queue(list(jobs)):
        yield from bundles.of(job).spare
    broken = [job for job in jobs if bundles.of(job).whole]
    broken.sort(key=lambda job: -bundles.of(job).whole[0].relative_gain(context.request))
    for job in by_queue(broken):
        yield from bundles.of(job).whole
