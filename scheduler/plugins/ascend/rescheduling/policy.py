"""The reaction to faults that a job asks for: labels and annotations of its PodGroup, or of its Pods."""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple, TypeVar

from scheduler.api.job import Job
from scheduler.api.names import (
    FAULT_RETRY_TIMES,
    FAULT_SCHEDULING,
    POD_RESCHEDULING,
    PROCESS_RECOVER,
    SUB_HEALTHY_STRATEGY,
)
from scheduler.api.reasons import Malformed
from scheduler.api.task import Task

RECOVER_POLICY_PATH: Final = "huawei.com/recover_policy_path"
"""An annotation."""
MAX_RETRIES: Final = 10**9 - 1
"""MindCluster documents at most 100; its own manifests of services with a scaling rule have 100000000."""
_ON: Final = "on"
T = TypeVar("T")


class RestartStrategy(Enum):
    """How the Pods are deleted (label ``fault-scheduling``)."""

    OFF = "off"
    GRACE = "grace"
    """The Pods are deleted with their grace period, and by force if they exist after ``grace-over-time``."""
    FORCE = "force"
    """The Pods are deleted by force at once."""
    EXTERNAL_GRACE = "external-grace"
    EXTERNAL_FORCE = "external-force"
    """Another component deletes them: the faulty Pods are only marked, with an annotation."""

    @property
    def external(self) -> bool:
        return self in (RestartStrategy.EXTERNAL_GRACE, RestartStrategy.EXTERNAL_FORCE)


class RestartScope(Enum):
    """Which Pods are deleted."""

    JOB = "job"
    POD = "pod"
    """The faulty Pods; the whole job if the one with rank 0 is faulty, or if the replacements wait too long."""
    PROCESS = "process"
    """The faulty Pods; the whole job if the one with rank 0 is faulty."""
    FAULTY_ONLY = "faulty-only"
    """The faulty Pods, in any case."""


class SubHealth(Enum):
    """What a chip, node or switch means to the job that works with restrictions (label ``subHealthyStrategy``)."""

    IGNORE = "ignore"
    GRACE_EXIT = "graceExit"
    FORCE_EXIT = "forceExit"
    HOT_SWITCH = "hotSwitch"
    """Force, once another component has prepared a substitute."""


class RestartPolicy(NamedTuple):
    strategy: RestartStrategy = RestartStrategy.OFF
    retries: int = 0
    """How many times the job restarts after a Pod has failed."""
    scope: RestartScope = RestartScope.JOB
    sub_health: SubHealth = SubHealth.IGNORE
    problems: tuple[Malformed, ...] = ()


def has_policy(job: Job) -> bool:
    """Whether the PodGroup, or the first of its Pods, has the label ``fault-scheduling``."""
    if FAULT_SCHEDULING in job.labels:
        return True
    for tasks in job.by_status.values():
        for task in tasks.values():
            return FAULT_SCHEDULING in task.labels
    return False


def policy_of(job: Job) -> RestartPolicy:
    """Returns the policy of a job. A malformed value is reported, and counts as absent."""
    return _Reader(job, next(job.tasks(), None)).policy()


class _Reader:
    """Reads the labels of one job; those of the PodGroup take precedence over those of its Pods."""

    def __init__(self, job: Job, task: Task | None) -> None:
        self._job = job
        self._task = task
        self._labels = {**(task.labels if task is not None else {}), **job.labels}
        self._problems: list[Malformed] = []

    def policy(self) -> RestartPolicy:
        strategy = self._one_of(FAULT_SCHEDULING, {each.value: each for each in RestartStrategy}, RestartStrategy.OFF)
        retries = self._retries()
        sub_health = self._one_of(SUB_HEALTHY_STRATEGY, {each.value: each for each in SubHealth}, SubHealth.IGNORE)
        return RestartPolicy(strategy, retries, self._scope(), sub_health, tuple(self._problems))

    def _scope(self) -> RestartScope:
        if self._job.annotations.get(RECOVER_POLICY_PATH) == "pod":
            return RestartScope.FAULTY_ONLY
        if self._labels.get(POD_RESCHEDULING) == _ON:
            return RestartScope.POD
        return RestartScope.PROCESS if self._labels.get(PROCESS_RECOVER) == _ON else RestartScope.JOB

    def _retries(self) -> int:
        text = self._labels.get(FAULT_RETRY_TIMES)
        if text is None:
            return 0
        if text.isascii() and text.isdecimal() and len(text) < 10 and int(text) <= MAX_RETRIES:
            return int(text)
        self._report(FAULT_RETRY_TIMES, f"{text[:32]!r} is not a number from 0 to {MAX_RETRIES:,}", "no retries")
        return 0

    def _one_of(self, label: str, values: Mapping[str, T], default: T) -> T:
        text = self._labels.get(label)
        if text is None or text in values:
            return default if text is None else values[text]
        self._report(label, f"{text[:32]!r} is none of {', '.join(values)}", "counts as absent")
        return default

    def _report(self, label: str, problem: str, consequence: str) -> None:
        job, field = self._job, f"metadata.labels[{label}]"
        if label in job.labels or self._task is None:
            self._problems.append(Malformed("PodGroup", job.namespace, job.name, field, problem, consequence))
        else:
            task = self._task
            self._problems.append(Malformed("Pod", task.namespace, task.name, field, problem, consequence))
