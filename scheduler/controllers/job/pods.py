"""The Pods of a job: the task of each, its condition, whether the spec still wants it, and how many there are."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import msgspec

from scheduler.api.names import JOB_NAME, JOB_VERSION, OUT_OF_SYNC, TASK_SPEC
from scheduler.api.objects import Pod
from scheduler.controllers.job.parsed_spec import ParsedSpec

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"


class Member(msgspec.Struct, frozen=True):
    """One Pod of a job."""

    pod: Pod
    task: str
    version: int
    """Of the job, when the Pod was made."""
    phase: str
    deleting: bool
    out_of_sync: bool
    """An action that restarts part of the job has marked it for deletion."""
    wanted: bool
    """The spec has a place for it."""

    @property
    def name(self) -> str:
        return self.pod.metadata.name

    @property
    def ready(self) -> bool:
        """Whether tasks that depend on its task may count it."""
        return self.phase == SUCCEEDED or (self.phase == RUNNING and all_ready(self.pod))


def all_ready(pod: Pod) -> bool:
    """Whether all containers are ready."""
    return all(container.ready for container in pod.status.container_statuses or ())


def restarts(pod: Pod) -> int:
    """The restarts of all containers of a Pod."""
    status = pod.status
    return sum(
        container.restart_count
        for containers in (status.container_statuses, status.init_container_statuses)
        for container in containers or ()
    )


def is_out_of_sync(pod: Pod) -> bool:
    annotations = pod.metadata.annotations
    return annotations is not None and annotations.get(OUT_OF_SYNC) == "true"


def version_of(pod: Pod) -> int:
    """The job's version when the Pod was made; -1 where the annotation is missing or none."""
    text = (pod.metadata.annotations or {}).get(JOB_VERSION, "")
    return int(text) if text.isdecimal() and len(text) < 19 else -1


def members_of(parsed_spec: ParsedSpec, pods: Iterable[Pod]) -> dict[str, Member]:
    """The Pods that carry the annotations of a job's Pods, by name."""
    members = {}
    for pod in pods:
        meta = pod.metadata
        marks = meta.annotations or {}
        version = version_of(pod)
        if version < 0 or JOB_NAME not in marks or TASK_SPEC not in marks:
            continue
        slot = parsed_spec.slots.get(meta.name)
        members[meta.name] = Member(
            pod=pod,
            task=marks[TASK_SPEC] if slot is None else slot.task.name,
            version=version,
            phase=pod.status.phase or PENDING,
            deleting=meta.deletion_timestamp is not None,
            out_of_sync=is_out_of_sync(pod),
            wanted=slot is not None,
        )
    return members


@dataclass(slots=True)
class PodCounts:
    """The numbers of Pods in a job's status."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    terminating: int = 0
    tasks: dict[str, dict[str, int]] = field(default_factory=dict)
    """Task -> phase -> Pods that are not terminating."""


def count_pods(members: Iterable[Member], to_delete: Collection[str], *, idle: bool) -> PodCounts:
    """Counts Pods by phase. Those named in ``to_delete`` count as terminating. Of an idle job only terminating Pods
    count, as in Volcano."""
    result = PodCounts()
    for member in members:
        if member.deleting or member.name in to_delete:
            result.terminating += 1
            continue
        if idle:
            continue
        if member.phase == PENDING:
            result.pending += 1
        elif member.phase == RUNNING:
            result.running += 1
        elif member.phase == SUCCEEDED:
            result.succeeded += 1
        elif member.phase == FAILED:
            result.failed += 1
        else:
            result.unknown += 1
        phases = result.tasks.setdefault(member.task, {})
        phases[member.phase] = phases.get(member.phase, 0) + 1
    return result
