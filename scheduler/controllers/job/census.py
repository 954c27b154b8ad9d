"""The Pods that a job has: which task each belongs to, how it is, and whether it is still wanted."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from scheduler.api.names import JOB_NAME, JOB_VERSION, OUT_OF_SYNC, TASK_SPEC
from scheduler.api.objects import Pod
from scheduler.controllers.job.blueprint import Blueprint

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"


@dataclass(frozen=True, slots=True)
class Member:
    """A Pod of a job."""

    pod: Pod
    task: str
    version: int
    """Of the job, when the Pod was made."""
    phase: str
    deleting: bool
    out_of_sync: bool
    """It is to be deleted for an action that restarts part of the job."""
    wanted: bool
    """The spec has a place for it."""

    @property
    def name(self) -> str:
        return self.pod.metadata.name

    @property
    def ready(self) -> bool:
        """Another task may rely on it."""
        return self.phase == SUCCEEDED or (self.phase == RUNNING and all_ready(self.pod))


def all_ready(pod: Pod) -> bool:
    """All containers are."""
    return all(container.ready for container in pod.status.container_statuses or ())


def restarts(pod: Pod) -> int:
    """Of all containers of a Pod together."""
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


def count(blueprint: Blueprint, pods: Iterable[Pod]) -> dict[str, Member]:
    """The Pods that carry the marks of a job's Pods, by name."""
    members = {}
    for pod in pods:
        meta = pod.metadata
        marks = meta.annotations or {}
        version = version_of(pod)
        if version < 0 or JOB_NAME not in marks or TASK_SPEC not in marks:
            continue
        slot = blueprint.slots.get(meta.name)
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
class Tally:
    """Numbers of Pods, as a job's status has them."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    terminating: int = 0
    tasks: dict[str, dict[str, int]] = field(default_factory=dict)
    """Task -> phase -> Pods that are not terminating."""


def tally(members: Iterable[Member], doomed: Collection[str], *, idle: bool) -> Tally:
    """How many Pods are how. Those named in ``doomed`` are about to be deleted. Of an idle job only Pods that are still
    to go count, as Volcano has it."""
    result = Tally()
    for member in members:
        if member.deleting or member.name in doomed:
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
