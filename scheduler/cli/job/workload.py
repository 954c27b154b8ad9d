"""Workloads without a vcjob, such as Deployments: how many of their Pods run, and why others wait."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scheduler.api.names import CONDITION_UNSCHEDULABLE, GROUP_NAME, POD_SCHEDULED
from scheduler.cli.job.fields import device_faults

if TYPE_CHECKING:
    from scheduler.api.objects import ObjectMeta, Pod
    from scheduler.api.scheduling import PodGroup

_TEMPLATE_HASH: Final = "pod-template-hash"
"""The label of a Deployment's Pods with the end of the name of their ReplicaSet."""


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
        for condition in self.group.status.conditions or ():
            if condition.type == CONDITION_UNSCHEDULABLE and condition.status == "True":
                return condition.message or condition.reason
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
            end = f"-{(pod.metadata.labels or {}).get(_TEMPLATE_HASH, '')}"
            if owner.kind == "ReplicaSet" and len(end) > 1 and owner.name.endswith(end):
                return f"Deployment/{owner.name.removesuffix(end)}"
            return f"{owner.kind}/{owner.name}"
    return f"PodGroup/{group.metadata.name}"
