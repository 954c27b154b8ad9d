"""The rows of ``job top``: the progress of gangs, and why they wait. A gang is a vcjob with its PodGroup, or a workload
without a vcjob, such as a Deployment, with its Pods."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.api.batch import FINISHED_PHASES, JobPhase
from scheduler.api.names import GROUP_NAME, POD_SCHEDULED, POD_TEMPLATE_HASH
from scheduler.api.objects import controller_of
from scheduler.cli.job.fields import device_faults, why_it_waits
from scheduler.cli.job.list import replicas

if TYPE_CHECKING:
    from scheduler.api.batch import Job
    from scheduler.api.objects import KubeObject, ObjectMeta, Pod
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


@dataclass(frozen=True)
class WorkloadRow:
    """A PodGroup that no vcjob owns, with its Pods. Numbers count Pods."""

    metadata: "ObjectMeta"
    """The name is that of the owner after its kind, ``Deployment/web``."""
    group: "PodGroup"
    pods: "tuple[Pod, ...]"
    """The Pods that are not deleted and have not failed."""

    @property
    def queue(self) -> str:
        return self.group.spec.queue

    @property
    def ready(self) -> int:
        """Pods that run or have succeeded."""
        return sum(pod.status.phase in ("Running", "Succeeded") for pod in self.pods)

    @property
    def needed(self) -> int:
        """Pods that must run at once."""
        return self.group.spec.min_member

    @property
    def total(self) -> int:
        return len(self.pods)

    @property
    def phase(self) -> str:
        return self.group.status.phase or "Pending"

    @property
    def reason(self) -> str:
        """Why Pods wait for a node, or what has failed under them, or ""."""
        if faults := device_faults(self.group):
            return faults
        waiting = [pod for pod in self.pods if not pod.spec.node_name]
        if not waiting:
            return ""
        if message := why_it_waits(self.group):
            return message
        conditions = (condition for pod in waiting for condition in pod.status.conditions or ())
        messages = (
            condition.message or condition.reason
            for condition in conditions
            if condition.type == POD_SCHEDULED and condition.status == "False"
        )
        return next(messages, "")


def workloads(groups: "Iterable[PodGroup]", pods: "Iterable[Pod]") -> list[WorkloadRow]:
    """The PodGroups that have some of the Pods."""
    members: dict[tuple[str, str], list[Pod]] = {}
    for pod in pods:
        group = (pod.metadata.annotations or {}).get(GROUP_NAME)
        if group and pod.metadata.deletion_timestamp is None and pod.status.phase != "Failed":
            members.setdefault((pod.metadata.namespace, group), []).append(pod)
    return [
        _workload(group, found)
        for group in groups
        if (found := members.get((group.metadata.namespace, group.metadata.name)))
    ]


def _workload(group: "PodGroup", pods: "list[Pod]") -> WorkloadRow:
    from scheduler.api.objects import ObjectMeta

    of = group.metadata
    metadata = ObjectMeta(
        name=_shown_name(group, pods[0]), namespace=of.namespace, creation_timestamp=of.creation_timestamp
    )
    return WorkloadRow(metadata, group, tuple(pods))


def _shown_name(group: "PodGroup", pod: "Pod") -> str:
    for owner in group.metadata.owner_references or ():
        if owner.controller or owner.kind == "Pod":
            end = f"-{(pod.metadata.labels or {}).get(POD_TEMPLATE_HASH, '')}"
            if owner.kind == "ReplicaSet" and len(end) > 1 and owner.name.endswith(end):
                return f"Deployment/{owner.name.removesuffix(end)}"
            return f"{owner.kind}/{owner.name}"
    return f"PodGroup/{group.metadata.name}"
