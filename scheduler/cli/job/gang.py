"""A vcjob with its PodGroup: the progress of the gang, and why it waits."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.api.batch import FINISHED_PHASES, JobPhase
from scheduler.api.objects import controller_of
from scheduler.cli.job.fields import device_faults, why_it_waits
from scheduler.cli.job.list import replicas

if TYPE_CHECKING:
    from scheduler.api.batch import Job
    from scheduler.api.objects import KubeObject, ObjectMeta
    from scheduler.api.scheduling import PodGroup


@dataclass(frozen=True)
class GangRow:
    """A vcjob with its PodGroup. Numbers count Pods."""

    job: "Job"
    group: "PodGroup | None"
    """The PodGroup; None before the job controller creates it, and after it deletes it."""

    @property
    def metadata(self) -> "ObjectMeta":
        return self.job.metadata

    @property
    def queue(self) -> str:
        return self.job.spec.queue

    @property
    def ready(self) -> int:
        """Pods that run or have succeeded."""
        return self.job.status.running + self.job.status.succeeded

    @property
    def needed(self) -> int:
        """Pods that must run at once."""
        return self.job.status.min_available or self.job.spec.min_available

    @property
    def total(self) -> int:
        return replicas(self.job)

    @property
    def phase(self) -> str:
        return self.job.status.state.phase or JobPhase.PENDING.value

    @property
    def reason(self) -> str:
        """Why it waits or has failed, or what has failed under it, or ""."""
        state = self.job.status.state
        if state.phase not in FINISHED_PHASES and (faults := device_faults(self.group)):
            return faults
        if state.phase == JobPhase.PENDING or not state.phase:
            waiting = self.unschedulable_message
            if waiting:
                return waiting
        return "" if state.phase == JobPhase.COMPLETED else state.message or state.reason

    @property
    def unschedulable_message(self) -> str:
        """The message of the PodGroup's condition Unschedulable, or ""."""
        return "" if self.job.status.state.phase in FINISHED_PHASES else why_it_waits(self.group)


def group_of(job: "KubeObject", groups: "Iterable[PodGroup]") -> "PodGroup | None":
    """The PodGroup that a job owns."""
    return _owned(groups).get(_place(job)) if job.metadata.uid else None


def gangs(jobs: "Iterable[Job]", groups: "Iterable[PodGroup]") -> list[GangRow]:
    """Pairs each job with the PodGroup that it owns."""
    owned = _owned(groups)
    return [GangRow(job, owned.get(_place(job)) if job.metadata.uid else None) for job in jobs]


def _place(owner: "KubeObject") -> tuple[str, str]:
    return owner.metadata.namespace, owner.metadata.uid


def _owned(groups: "Iterable[PodGroup]") -> "dict[tuple[str, str], PodGroup]":
    """Namespace and uid of the owner -> PodGroup."""
    return {
        (group.metadata.namespace, owner.uid): group for group in groups if (owner := controller_of(group)) is not None
    }
