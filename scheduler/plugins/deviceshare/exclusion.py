"""vGPU Pods that must not share a GPU, by rules of the configuration or by an annotation of the Pod.

Pods that match the same exclusive rule do not share a GPU with each other. Pods with the annotation do not share a GPU
with other Pods of their PodGroup. Containers of one Pod may always share.
"""

from collections.abc import Mapping, Sequence

import msgspec

from scheduler.api.job import Job
from scheduler.api.names import HAMI_CORE, VGPU_PODGROUP_POLICY
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.plugins.deviceshare.cards import SPREAD
from scheduler.plugins.deviceshare.family import FamilyInventory

Rule = frozenset[tuple[str, str]]
"""Labels, all of which a matching Pod has."""


class ExclusionRule(msgspec.Struct, frozen=True):
    """The Pods that must not share a card with tasks of the class."""

    rules: tuple[Rule, ...]
    """The configured rules that the class matches."""
    group: str | None
    """Key of the job with whose other tasks they must not share."""

    def excludes(self, task: Task, inventory: FamilyInventory) -> bool:
        """Whether the cards that a task holds on a node are excluded."""
        if self.group is not None and task.job == self.group:
            return True
        return inventory.mode == HAMI_CORE and any(_matches(task.labels, rule) for rule in self.rules)

    def excludes_own_class(self, inventory: FamilyInventory) -> bool:
        """Whether two tasks of the class must not share a card of a node."""
        return self.group is not None or (inventory.mode == HAMI_CORE and bool(self.rules))


class ExclusionRules:
    """The rules of one session."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rules)
        self._exclusive_jobs: dict[str, str] = {}
        """Key of a job -> the same key if a pending task of the job must not share with its other tasks, else ""."""

    def exclusion(self, cls: TaskClass, job_key: str) -> ExclusionRule | None:
        """Returns the restriction for tasks of a class in a job; None if there is none."""
        rules = tuple(rule for rule in self._rules if _matches(cls.labels, rule))
        group = job_key if _spreads(cls) else None
        return ExclusionRule(rules, group) if rules or group is not None else None

    def exclusive_job(self, job: Job) -> str:
        """Returns the key of the job if one of its pending tasks must not share with its other tasks, else ""."""
        known = self._exclusive_jobs.get(job.key)
        if known is None:
            exclusive = any(_spreads(task.cls) for task in job.of(TaskStatus.PENDING).values())
            known = self._exclusive_jobs[job.key] = job.key if exclusive else ""
        return known


def _spreads(cls: TaskClass) -> bool:
    return cls.annotations.get(VGPU_PODGROUP_POLICY) == SPREAD


def _matches(labels: Mapping[str, str], rule: Rule) -> bool:
    return all(labels.get(key) == value for key, value in rule)
