"""Determines the Pods to delete from the status and the Pods alone.

No state is kept: after a crash, the next reconciliation finds the same Pods. An action on the whole job increases
``status.version``, so it applies to the Pods of lower versions. An action on some of the Pods marks them as out of sync
first. While a job restarts, ``status.state.reason`` names the action.
"""

from collections.abc import Iterable
from typing import Final

from scheduler.api import batch
from scheduler.api.batch import Action, JobPhase
from scheduler.api.kinds import POD, POD_GROUP
from scheduler.api.names import OUT_OF_SYNC, PARTITION_ID
from scheduler.api.objects import ENDED_PHASES, Pod
from scheduler.api.scheduling import PodGroup
from scheduler.controllers.effects import Delete, Effect, Json, Patch
from scheduler.controllers.job.events import PolicyRequest
from scheduler.controllers.job.phases import IDLE_PHASES, TARGETED
from scheduler.controllers.job.pods import Member
from scheduler.controllers.store import key_of

_MARK: Final[Json] = {"metadata": {"annotations": {OUT_OF_SYNC: "true"}}}


def pods_to_delete(
    members: Iterable[Member], status: batch.JobStatus, phase: JobPhase, max_retries: int
) -> list[Member]:
    """The Pods to delete, without those that are being deleted."""
    if phase in IDLE_PHASES:
        return [member for member in members if not member.deleting and member.phase not in ENDED_PHASES]
    # Pods that ended stay when a job is resumed, and on its last retry, so that one can see why it failed.
    spare_ended = not restarts_all(status) or 0 < status.retries >= max_retries
    return [member for member in members if not member.deleting and _is_to_delete(member, status.version, spare_ended)]


def _is_to_delete(member: Member, version: int, spare_ended: bool) -> bool:
    if member.out_of_sync or not member.wanted:
        return True
    return member.version < version and not (spare_ended and member.phase in ENDED_PHASES)


def restarts_all(status: batch.JobStatus) -> bool:
    """Whether the whole job is restarting: its Pods and its PodGroup are deleted."""
    return status.state.phase == JobPhase.RESTARTING and status.state.reason == Action.RESTART_JOB


def restarts_a_part(status: batch.JobStatus) -> bool:
    """Whether a task, a partition or a Pod is restarting. Meanwhile, each deleted Pod is recreated on its own."""
    return status.state.phase == JobPhase.RESTARTING and status.state.reason in TARGETED


def interrupted(to_delete: Iterable[Member]) -> bool:
    """Whether Pods were marked for a restart that was interrupted before the status was written. Those that the spec no
    longer asks for are marked before they are deleted, too."""
    return any(member.out_of_sync and member.wanted for member in to_delete)


def targets(action: Action, request: PolicyRequest, members: Iterable[Member]) -> list[Member]:
    """The Pods that a restart of a part of the job concerns, without those that are being deleted."""
    return [
        member
        for member in members
        if not member.deleting and not member.out_of_sync and _concerns(action, request, member)
    ]


def _concerns(action: Action, request: PolicyRequest, member: Member) -> bool:
    if action is Action.RESTART_POD:
        return member.name == request.pod
    if member.task != request.task:
        return False
    return action is not Action.RESTART_PARTITION or partition_of(member.pod) == request.partition


def partition_of(pod: Pod) -> str:
    return (pod.metadata.labels or {}).get(PARTITION_ID, "")


def mark(members: Iterable[Member]) -> list[Effect]:
    """Marks Pods as out of sync."""
    return [
        Patch(POD, member.pod.metadata.namespace, member.name, _MARK, member.pod.metadata.uid) for member in members
    ]


def delete_pods(members: Iterable[Member]) -> list[Effect]:
    return [Delete(POD, member.pod.metadata.namespace, member.name, member.pod.metadata.uid) for member in members]


def delete_group(group: PodGroup | None) -> list[Effect]:
    """Deletes the PodGroup, unless there is none or it is being deleted."""
    if group is None or group.metadata.deletion_timestamp is not None:
        return []
    return [Delete(POD_GROUP, *key_of(group), group.metadata.uid)]
