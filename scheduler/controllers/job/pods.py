"""The Pods of a job: the task of each, its condition, whether the spec still requests it, and how many there are."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from scheduler.api import batch
from scheduler.api.names import CARD_ALTERNATIVE, JOB_NAME, JOB_VERSION, OUT_OF_SYNC, PARTITION_ID, TASK_SPEC
from scheduler.api.objects import ENDED_PHASES, Pod
from scheduler.controllers.evictions import is_being_deleted, was_evicted
from scheduler.controllers.job.parsed_spec import ParsedSpec

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
TERMINATING: Final = "Terminating"
"""Pods that are being evicted, in ``taskStatusCount``."""


class Member(msgspec.Struct, frozen=True):
    """One Pod of a job."""

    pod: Pod
    task: str
    version: int
    """The version of the job when the Pod was created."""
    phase: str
    deleting: bool
    """The Pod is being deleted, and had not ended before, or the job no longer needs it."""
    evicted: bool
    """The Pod is being deleted by others, not by the job or because of its spec."""
    out_of_sync: bool
    """An action that restarts part of the job has marked it for deletion."""
    wanted: bool
    """The spec has a place for it."""
    of_another: bool = False
    """It was created for another alternative than the job has now."""

    @property
    def name(self) -> str:
        return self.pod.metadata.name

    @property
    def partition(self) -> str:
        """The number of its partition; "" if it is in none."""
        return (self.pod.metadata.labels or {}).get(PARTITION_ID, "")

    @property
    def ready(self) -> bool:
        """Whether tasks that depend on its task may count it."""
        return self.phase == SUCCEEDED or (self.phase == RUNNING and all_ready(self.pod))


Members = Mapping[str, Member]
"""The Pods of a job by name."""


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
    """The version of the job when the Pod was created; -1 if the annotation is missing or is no number."""
    text = (pod.metadata.annotations or {}).get(JOB_VERSION, "")
    return int(text) if text.isdecimal() and len(text) < 19 else -1


def members_of(
    parsed_spec: ParsedSpec, pods: Iterable[Pod], job: batch.Job, alternative: str = ""
) -> dict[str, Member]:
    """The Pods that carry the annotations of a job's Pods, by name. ``alternative``: the one of the job; Pods of
    another have no place."""
    members = {}
    for pod in pods:
        meta = pod.metadata
        marks = meta.annotations or {}
        version = version_of(pod)
        if version < 0 or JOB_NAME not in marks or TASK_SPEC not in marks:
            continue
        of_another = bool(alternative) and marks.get(CARD_ALTERNATIVE, alternative) != alternative
        slot = None if of_another else parsed_spec.slots.get(meta.name)
        marked = is_out_of_sync(pod)
        deleting = is_being_deleted(pod)
        evicted = deleting and slot is not None and not marked and version >= job.status.version
        if evicted and pod.status.phase in ENDED_PHASES and not was_evicted(pod):
            deleting = evicted = False  # it counts as what it was
        members[meta.name] = Member(
            pod=pod,
            task=marks[TASK_SPEC] if slot is None else slot.task.name,
            version=version,
            phase=pod.status.phase or PENDING,
            deleting=deleting,
            evicted=evicted,
            out_of_sync=marked,
            wanted=slot is not None,
            of_another=of_another,
        )
    return members


@dataclass(slots=True)
class JobPodCounts:
    """The numbers of Pods in a job's status."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    terminating: int = 0
    tasks: dict[str, dict[str, int]] = field(default_factory=dict)
    """Task -> phase -> Pods that are not terminating; and those that are being evicted, under TERMINATING."""

    def add(self, task: str, phase: str) -> None:
        phases = self.tasks.setdefault(task, {})
        phases[phase] = phases.get(phase, 0) + 1


def count_pods(members: Iterable[Member], to_delete: Collection[str], *, idle: bool) -> JobPodCounts:
    """Counts Pods by phase. Pods named in ``to_delete`` count as terminating. Of an idle job only terminating Pods
    count, as in Volcano."""
    result = JobPodCounts()
    for member in members:
        if member.deleting or member.name in to_delete:
            result.terminating += 1
            if member.evicted and not idle:
                result.add(member.task, TERMINATING)
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
        result.add(member.task, member.phase)
    return result
