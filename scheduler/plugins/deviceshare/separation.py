"""Which vGPU Pods share no GPU with which: by rules of the configuration, and by the wish of a gang.

Pods that match one exclusive rule keep apart from each other, not from anybody else. Pods that ask for it keep apart
from all others of their PodGroup. Containers of one Pod may always share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.api.job import Job
from scheduler.api.names import HAMI_CORE, VGPU_PODGROUP_POLICY
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.plugins.deviceshare.family import Inventory
from scheduler.plugins.deviceshare.policy import SPREAD

Rule = frozenset[tuple[str, str]]
"""Labels that a Pod has, all of them."""


@dataclass(frozen=True, slots=True)
class Shuns:
    """With whom the tasks of a class share no card."""

    rules: tuple[Rule, ...]
    """Those they match."""
    group: str | None
    """Key of the job from which they keep apart."""

    def task(self, task: Task, inventory: Inventory) -> bool:
        """Whether the cards that a task has on a node are out of the question."""
        if self.group is not None and task.job == self.group:
            return True
        return inventory.mode == HAMI_CORE and any(_matches(task.labels, rule) for rule in self.rules)

    def each_other(self, inventory: Inventory) -> bool:
        """Whether two of them share no card of a node."""
        return self.group is not None or (inventory.mode == HAMI_CORE and bool(self.rules))


class Separation:
    """The rules of one session."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rules)
        self._apart: dict[str, str] = {}
        """Key of a job -> the same if a task of it that waits keeps apart from the rest, else ""."""

    def shuns(self, cls: TaskClass, job_key: str) -> Shuns | None:
        """With whom tasks of a class in a job share no card; None: with anybody."""
        rules = tuple(rule for rule in self._rules if _matches(cls.labels, rule))
        group = job_key if _keeps_apart(cls) else None
        return Shuns(rules, group) if rules or group is not None else None

    def job_apart(self, job: Job) -> str:
        """Key of the job if a task of it that waits keeps apart from the rest, else ""."""
        known = self._apart.get(job.key)
        if known is None:
            apart = any(_keeps_apart(task.cls) for task in job.of(TaskStatus.PENDING).values())
            known = self._apart[job.key] = job.key if apart else ""
        return known


def _keeps_apart(cls: TaskClass) -> bool:
    return cls.annotations.get(VGPU_PODGROUP_POLICY) == SPREAD


def _matches(labels: Mapping[str, str], rule: Rule) -> bool:
    return all(labels.get(key) == value for key, value in rule)
