"""A sub-job is a part of a job that is placed and counted as a whole: the Pods of one sub-group
(spec.subGroupPolicy), or all Pods of a job that has a network topology and no sub-groups."""

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.api.scheduling import NetworkTopology, PodGroupSpec, SubGroupPolicy
from scheduler.api.selectors import ignore_field, is_valid, matches
from scheduler.api.task import READY_STATUSES, Task, TaskStatus


@dataclass(slots=True, eq=False)
class SubJob:
    """Some tasks of one job in a session."""

    key: str
    """``namespace/podgroup/policy/values``; the key of the job for tasks without a policy."""
    job: str
    """Key of the job."""
    policy: str | None
    """Name of the subGroupPolicy; None: tasks without a policy."""
    minimum: int
    """Number of tasks that must be placed together (subGroupSize)."""
    index: int
    """The value of the first label of the policy, if it is a number, else 0."""
    topology: NetworkTopology | None
    """The network topology of the policy or the job."""
    tasks: dict[str, Task]
    """uid -> task, in any status."""
    priority: int = 0
    """The highest priority of its tasks, at least 0."""
    ready_count: int = 0
    """Number of tasks that count towards the minimum. The job updates this and the next two numbers."""
    waiting_count: int = 0
    """Number of tasks pipelined in this session."""
    pending_best_effort: int = 0
    """Number of pending tasks without a request."""
    tier_limit: int | None = None
    """The highest tier that its tasks may span; None: no limit. Each session computes it."""

    @property
    def missing(self) -> int:
        """Number of tasks that it lacks to be ready; 0 or less: it is ready."""
        return self.minimum - self.ready_count - self.pending_best_effort

    @property
    def ready(self) -> bool:
        return self.missing <= 0

    @property
    def pipelined(self) -> bool:
        """Whether it is ready once its pipelined tasks can be bound."""
        return self.missing <= self.waiting_count

    def add(self, task: Task) -> None:
        """Adds a task to a new sub-job."""
        self.tasks[task.uid] = task
        self.priority = max(self.priority, task.priority)
        self.account(task, task.status, 1)

    def account(self, task: Task, status: TaskStatus, sign: int) -> None:
        """Counts a task that enters (``sign`` 1) or leaves (-1) a status."""
        if status in READY_STATUSES:
            self.ready_count += sign
        elif status is TaskStatus.PIPELINED:
            self.waiting_count += sign
        elif status is TaskStatus.PENDING and task.cls.best_effort:
            self.pending_best_effort += sign


# --- the sub-jobs of a job --------------------------------------------------------------------------------------------
def sub_jobs_of(key: str, spec: PodGroupSpec, tasks: Iterable[Task]) -> dict[str, SubJob]:
    """Key -> sub-job of the job ``key``, whose PodGroup has policies or a network topology (Volcano's
    getOrCreateSubJob). A task belongs to the first policy whose selector matches it and whose label keys it all has."""
    result: dict[str, SubJob] = {}
    policies = [policy for policy in spec.sub_group_policy or () if is_valid(policy.label_selector, ignore_field)]
    for task in tasks:
        found = _group_of(policies, task)
        name = "/".join((key, found[0].name, *found[1])) if found else key
        sub_job = result.get(name)
        if sub_job is None:
            sub_job = result[name] = _sub_job(name, key, *found) if found else _sub_job_without_policy(key, spec)
        sub_job.add(task)
    return result


def _group_of(policies: Iterable[SubGroupPolicy], task: Task) -> tuple[SubGroupPolicy, list[str]] | None:
    """The policy of a task, and the values of the policy's label keys; None without a policy."""
    for policy in policies:
        if policy.label_selector is not None and not matches(policy.label_selector, task.labels):
            continue
        values = [task.labels.get(key, "") for key in policy.match_label_keys or ()]
        if values and all(values):
            return policy, values
    return None


def _sub_job(key: str, job: str, policy: SubGroupPolicy, values: list[str]) -> SubJob:
    index = int(values[0]) if values[0].isdecimal() and len(values[0]) < 19 else 0
    size = 1 if policy.sub_group_size is None else max(policy.sub_group_size, 1)
    return SubJob(key, job, policy.name, size, index, policy.network_topology, {})


def _sub_job_without_policy(key: str, spec: PodGroupSpec) -> SubJob:
    minimum = 1 if spec.sub_group_policy else spec.min_member
    return SubJob(key, key, None, minimum, 0, spec.network_topology, {})


def sub_group_minimum(policies: Iterable[SubGroupPolicy]) -> dict[str, int]:
    """Name of a policy -> number of its sub-jobs that must be placed."""
    return {policy.name: max(policy.min_sub_groups or 0, 0) for policy in policies}
