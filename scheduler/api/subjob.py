"""A sub-job is a part of a job that is placed and counted as a whole: the Pods of one sub-group (spec.subGroupPolicy),
or, where a job asks for a network topology and has no sub-groups, all of them.
"""

from dataclasses import dataclass

from scheduler.api.scheduling import NetworkTopology
from scheduler.api.task import READY_STATUSES, Task, TaskStatus


@dataclass(slots=True, eq=False)
class SubJob:
    """Some tasks of one job in a session."""

    key: str
    """``namespace/podgroup/policy/values``; that of the job for the tasks that no policy takes."""
    job: str
    """Key of the job."""
    policy: str | None
    """Name of the subGroupPolicy it comes from; None: no policy takes these tasks."""
    minimum: int
    """How many of its tasks have to be placed together (subGroupSize)."""
    index: int
    """The value of the first label it was grouped by, if that is a number, else 0."""
    topology: NetworkTopology | None
    """What the policy asks for, or the job."""
    tasks: dict[str, Task]
    """uid -> task, in whatever status."""
    priority: int = 0
    """That of its most important task, at least 0."""
    ready_count: int = 0
    """Tasks that count towards the minimum; this and the next two are kept up to date by the job."""
    waiting_count: int = 0
    """Tasks pipelined in this session."""
    pending_best_effort: int = 0
    """Pending tasks that ask for nothing."""
    tier_limit: int | None = None
    """The highest tier its tasks may spread over; None: no limit. Found anew by each session."""

    @property
    def missing(self) -> int:
        """How many more tasks it needs to be ready; below 1: it is."""
        return self.minimum - self.ready_count - self.pending_best_effort

    @property
    def ready(self) -> bool:
        return self.missing <= 0

    @property
    def pipelined(self) -> bool:
        """It would be ready if what was promised to its tasks were free."""
        return self.missing <= self.waiting_count

    def add(self, task: Task) -> None:
        """Take in a task, when the sub-job is made."""
        self.tasks[task.uid] = task
        self.priority = max(self.priority, task.priority)
        self.account(task, task.status, 1)

    def account(self, task: Task, status: TaskStatus, sign: int) -> None:
        """Count a task in (1) or out (-1) of a status."""
        if status in READY_STATUSES:
            self.ready_count += sign
        elif status is TaskStatus.PIPELINED:
            self.waiting_count += sign
        elif status is TaskStatus.PENDING and task.cls.best_effort:
            self.pending_best_effort += sign
