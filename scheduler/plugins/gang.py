"""gang: a job starts with at least its minimum number of tasks, or not at all (Volcano's gang plugin).

A gang that holds nodes and is below its minimum, because some of its Pods failed or were deleted, uses its nodes for
nothing. So it comes before other jobs of its priority.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from scheduler.api.job import GroupCondition, Job
from scheduler.api.names import (
    CONDITION_SCHEDULED,
    CONDITION_UNSCHEDULABLE,
    REASON_GANG_READY,
    REASON_NOT_ENOUGH_PODS_OF_TASK,
    REASON_NOT_ENOUGH_RESOURCES,
    REASON_NOT_ENOUGH_TASKS,
)
from scheduler.api.node import Mask
from scheduler.api.reasons import Refusal
from scheduler.api.sub_job import SubJob
from scheduler.api.task import ALLOCATED_STATUSES, READY_STATUSES, Task, TaskStatus
from scheduler.framework.arguments import Arguments
from scheduler.framework.eviction_candidates import EvictionCandidates
from scheduler.framework.extension import Vote
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin
from scheduler.framework.waiting import gang_message, tried_with_success

_SCHEDULED = (TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.SUCCEEDED, TaskStatus.FAILED)


@register_plugin
class Gang:
    """Argument ``incompleteFirst`` (default true): a gang below its minimum that holds nodes comes first among the jobs
    of its priority in a queue."""

    name: ClassVar[str] = "gang"

    def __init__(self, arguments: Arguments) -> None:
        self._incomplete_first = arguments.boolean("incompleteFirst", True)

    def open(self, session: PluginSession) -> None:
        self._session = session
        session.add_job_valid(self._valid)
        session.add_job_order(lambda job: job.missing <= 0)
        if self._incomplete_first:
            session.add_job_order(lambda job: not _is_incomplete(job), behind="priority")
        session.add_sub_job_order(lambda sub_job: sub_job.ready)
        session.add_sub_job_ready(lambda sub_job: max(sub_job.missing, 0))
        session.add_sub_job_pipelined(lambda sub_job: Vote.PERMIT if sub_job.pipelined else Vote.REJECT)
        session.add_job_ready(_missing, by_demand=True)
        session.add_job_pipelined(self._pipelined, by_demand=True)
        session.add_job_starving(lambda job: job.waiting_count + job.ready_count < job.min_member, by_demand=True)
        session.add_preemptable(self._victims, bound=_above_minimum, by_demand=True)
        session.add_reclaimable(self._victims, bound=_above_minimum, by_demand=True)
        session.add_close(self._close)

    @staticmethod
    def _valid(job: Job) -> Refusal | None:
        if job.enforces_role_minimum:
            counts = job.role_counts(*READY_STATUSES, TaskStatus.PIPELINED, TaskStatus.PENDING)
            below = [
                f"{role}: {counts.get(role, 0)}/{minimum}"
                for role, minimum in job.role_minimum.items()
                if counts.get(role, 0) < minimum
            ]
            if below:
                return Refusal(
                    REASON_NOT_ENOUGH_PODS_OF_TASK,
                    f"Not enough valid pods of each task for gang-scheduling ({', '.join(sorted(below))})",
                )
        below = [
            f"{policy}: {number}/{minimum}"
            for policy, number, minimum in _sub_groups(job, lambda sub_job: True)
            if number < minimum
        ]
        if below:
            return Refusal(
                REASON_NOT_ENOUGH_PODS_OF_TASK,
                f"Not enough valid subGroups of each task for gang-scheduling ({', '.join(sorted(below))})",
            )
        valid = job.count(*READY_STATUSES, TaskStatus.PIPELINED, TaskStatus.PENDING)
        if valid < job.min_member:
            return Refusal(
                REASON_NOT_ENOUGH_TASKS,
                f"Not enough valid tasks for gang-scheduling, valid: {valid}, min: {job.min_member}",
            )
        return None

    def _pipelined(self, job: Job) -> Vote:
        if job.missing > job.waiting_count:
            return Vote.REJECT
        if _missing_in_roles(job, TaskStatus.PIPELINED):
            return Vote.REJECT
        if self._session.job_missing(job) > max(_missing(job), job.waiting_count):
            return Vote.ABSTAIN  # another plugin requires more Pods: a permission here would override its vote
        sub_groups = _sub_groups(job, lambda sub_job: sub_job.pipelined)
        return Vote.PERMIT if all(number >= minimum for _, number, minimum in sub_groups) else Vote.REJECT

    def _victims(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        left: dict[str, int] = {}
        victims = []
        for task in candidates:
            job = self._session.jobs.get(task.job)
            if job is None:
                continue
            ready = left.setdefault(task.job, job.ready_count)
            if ready > job.min_member:
                left[task.job] = ready - 1
                victims.append(task)
        return victims

    def _close(self) -> None:
        for job in self._session.active_jobs.values():
            if not job.by_status:
                continue
            if job.missing > 0:
                if _is_terminating(job):
                    continue
                short = job.min_member - tried_with_success(job) - job.ready_count
                message = f"{max(short, 0)}/{job.size} tasks in gang unschedulable: {gang_message(job)}"
                job.new_conditions += (GroupCondition(CONDITION_UNSCHEDULABLE, REASON_NOT_ENOUGH_RESOURCES, message),)
            elif job.changed or not any(
                c.type == CONDITION_SCHEDULED and c.reason == REASON_GANG_READY for c in job.conditions
            ):
                job.new_conditions += (GroupCondition(CONDITION_SCHEDULED, REASON_GANG_READY, ""),)


def _is_terminating(job: Job) -> bool:
    """Whether a job is below its minimum only because placed tasks terminate, while it has no pending tasks to replace
    them: together with placed and failed tasks they still reach the minimum."""
    if TaskStatus.PENDING in job.by_status or TaskStatus.PIPELINED in job.by_status:
        return False
    terminating = sum(1 for task in job.of(TaskStatus.RELEASING).values() if task.node)
    return bool(terminating) and terminating + job.count(*_SCHEDULED) >= job.min_member


def _above_minimum(preemptor: Task, candidates: EvictionCandidates) -> Mask:
    above: Mask = candidates.per_job(_surplus) > 0
    return above


def _surplus(job: Job) -> int:
    return job.ready_count - job.min_member


def _is_incomplete(job: Job) -> bool:
    """Whether a job is below its minimum although tasks of it hold nodes. Terminating tasks do not count."""
    return not ALLOCATED_STATUSES.isdisjoint(job.by_status) and _missing(job) > 0


def _missing(job: Job) -> int:
    """The number of tasks that the job needs before it can start; 0 if it is ready."""
    return max(job.missing, _missing_in_roles(job), _missing_in_sub_groups(job), 0)


def _missing_in_roles(job: Job, *more: TaskStatus) -> int:
    """The sum of the tasks that roles are below their minimum. Pending best-effort tasks count as placed."""
    if not job.enforces_role_minimum:
        return 0
    counts = job.role_counts(*READY_STATUSES, *more)
    if job.pending_best_effort:
        for task in job.of(TaskStatus.PENDING).values():
            if task.cls.best_effort:
                counts[task.role] = counts.get(task.role, 0) + 1
    return sum(max(minimum - counts.get(role, 0), 0) for role, minimum in job.role_minimum.items())


def _missing_in_sub_groups(job: Job) -> int:
    """The tasks that the required number of sub-groups of each policy are missing, counting those that miss the fewest;
    1 for each required sub-group that does not exist yet."""
    total = 0
    for policy, minimum in (job.sub_group_minimum or {}).items():
        if minimum:
            missing = sorted(max(s.missing, 0) for s in job.sub_jobs.values() if s.policy == policy)
            total += sum(missing[:minimum]) + max(minimum - len(missing), 0)
    return total


def _sub_groups(job: Job, counts: Callable[[SubJob], bool]) -> Iterator[tuple[str, int, int]]:
    """Yields (policy, number of its sub-groups that count, required number)."""
    for policy, minimum in (job.sub_group_minimum or {}).items():
        yield policy, sum(1 for s in job.sub_jobs.values() if s.policy == policy and counts(s)), minimum
