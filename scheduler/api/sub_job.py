"""A sub-job is a part of a job that is placed and counted as a whole: the Pods of one sub-group
(spec.subGroupPolicy), or all Pods of a job that has a network topology and no sub-groups."""

from dataclasses import dataclass

from scheduler.api.scheduling import NetworkTopology
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
