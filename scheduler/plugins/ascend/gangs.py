"""The number of Pods of an NPU job that are placed together where ``minMember`` is 1: the number in the annotation
``huawei.com/schedule_minAvailable``, or all replicas of the ReplicaSet that the PodGroup belongs to.

A PodGroup of a ReplicaSet always has the minMember 1, although a distributed job cannot run in part.
"""

import re
from typing import Final

from scheduler.api.job import Job
from scheduler.api.kinds import REPLICA_SET
from scheduler.api.names import PODGROUP_PREFIX, SCHEDULE_MIN_AVAILABLE
from scheduler.api.reasons import Malformed, Refusal
from scheduler.api.task import READY_STATUSES, Task, TaskStatus
from scheduler.framework.extension import Vote
from scheduler.framework.plugin_session import PluginSession
from scheduler.plugins.ascend.demand import ChipDemand

REASON_PODS: Final = "NotEnoughPod"
REASON_ARGUMENT: Final = "InvalidArgument"
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,9}")
_FIELD: Final = f"metadata.annotations[{SCHEDULE_MIN_AVAILABLE}]"


class Gangs:
    """The minimum numbers of Pods of the jobs of one session."""

    def __init__(self, session: PluginSession, demand: ChipDemand) -> None:
        self._session = session
        self._demand = demand
        self._minimums: dict[str, int] = {}
        self._no_numbers: dict[str, str] = {}
        """Key of a job -> its annotation, where this is no number."""

    def minimum(self, job: Job) -> int:
        """Returns the number of Pods of a job that are placed together; 0 if minMember decides."""
        found = self._minimums.get(job.key)
        if found is None:
            found = self._minimums[job.key] = self._of(job)
        return found

    def check(self, job: Job) -> Refusal | None:
        """Returns a refusal if not all of these Pods exist, or if the annotation is no number."""
        minimum = self.minimum(job)
        text = self._no_numbers.get(job.key)
        if text is not None:
            return Refusal(REASON_ARGUMENT, f"{SCHEDULE_MIN_AVAILABLE}={text[:32]} is not a number")
        if not minimum:
            return None
        there = job.count(*READY_STATUSES, TaskStatus.PIPELINED, TaskStatus.PENDING)
        if there >= minimum:
            return None
        return Refusal(
            REASON_PODS, f"{there} Pods of the job exist, {minimum} are placed together ({self._source(job)})"
        )

    def missing(self, job: Job) -> int:
        """Returns the number of Pods that have to be placed before the job is ready."""
        minimum = self.minimum(job)
        return max(minimum - job.ready_count, 0) if minimum else 0

    def pipelined(self, job: Job) -> Vote:
        return Vote.REJECT if self.missing(job) > job.waiting_count else Vote.ABSTAIN

    # --- sources ---
    def _of(self, job: Job) -> int:
        if not self._demand.has_npus(job):
            return 0
        if job.min_member > 1 and SCHEDULE_MIN_AVAILABLE not in job.annotations:
            return 0
        return self._annotated(job) or (self._replicas(job) if job.min_member <= 1 else 0)

    def _annotated(self, job: Job) -> int:
        """Returns the number in the annotation of the PodGroup or of a Pod; 0 without a usable one."""
        text, task = _annotation(job)
        if text is None:
            return 0
        if _INTEGER.fullmatch(text) is None:
            self._no_numbers[job.key] = text
            return 0
        if job.min_member > 1:
            return 0
        if text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 0:
            return int(text)
        problem = f"{text[:32]!r} is not a positive number"
        if task is None:
            self._session.malformed_field(Malformed("PodGroup", job.namespace, job.name, _FIELD, problem))
        else:
            self._session.malformed_field(Malformed("Pod", task.namespace, task.name, _FIELD, problem))
        return 0

    def _replicas(self, job: Job) -> int:
        name = _replica_set(job)
        return self._session.snapshot.replicas.get(f"{job.namespace}/{name}", 0) if name else 0

    def _source(self, job: Job) -> str:
        replicas = self._replicas(job)
        if replicas == self.minimum(job):
            return f"replicas of ReplicaSet {_replica_set(job)}"
        return SCHEDULE_MIN_AVAILABLE


def _annotation(job: Job) -> tuple[str | None, Task | None]:
    """Returns the annotation of the PodGroup, or that of a Pod and the Pod; (None, None) without one."""
    text = job.annotations.get(SCHEDULE_MIN_AVAILABLE)
    if text is not None:
        return text, None
    task = next((task for task in job.tasks() if SCHEDULE_MIN_AVAILABLE in task.cls.annotations), None)
    return (None, None) if task is None else (task.cls.annotations[SCHEDULE_MIN_AVAILABLE], task)


def _replica_set(job: Job) -> str:
    """Returns the name of the ReplicaSet for which the PodGroup was made, or ""."""
    if not job.name.startswith(PODGROUP_PREFIX):
        return ""
    prefix = f"{REPLICA_SET.name}/"
    names = (task.cls.workload for task in job.tasks() if task.cls.workload.startswith(prefix))
    return next(names, "").removeprefix(prefix)
