"""The status of an AscendJob: conditions, numbers of Pods by role, times."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.api.acjob import (
    CREATED,
    FAILED,
    RESTARTING,
    RUNNING,
    SUCCEEDED,
    SUSPENDED,
    AscendJob,
    JobCondition,
)
from scheduler.api.acjob_roles import WORKER, JobRoles
from scheduler.api.objects import Pod
from scheduler.api.times import format_timestamp
from scheduler.controllers.acjob.manifests import members

Json = dict[str, Any]
_EXCLUSIVE: Final = frozenset({RUNNING, RESTARTING, SUSPENDED, SUCCEEDED, FAILED})
"""Conditions of which one is True at a time."""
_FINISHED: Final = (SUCCEEDED, FAILED)


class Verdict(NamedTuple):
    """The condition that a job has now."""

    type: str
    reason: str
    message: str


def replica_statuses(job: AscendJob, roles: JobRoles, pods: Mapping[str, Pod]) -> dict[str, Json]:
    """Role -> numbers of active, succeeded and failed Pods, without zeros."""
    result: dict[str, Json] = {role.type: {} for role in roles.roles}
    words = {"Running": "active", "Succeeded": "succeeded", "Failed": "failed"}
    for name, role, _ in members(job, roles):
        word = words.get(pods[name].status.phase) if name in pods else None
        if word is not None:
            counts = result[role.type]
            counts[word] = counts.get(word, 0) + 1
    return result


def verdict(job: AscendJob, roles: JobRoles, counts: Mapping[str, Mapping[str, int]], retries: int) -> Verdict | None:
    """The condition that the Pods of a job cause; None: it stays. ``retries``: restarts that remain after a Pod failed;
    the scheduler carries them out."""
    where = f"{job.metadata.namespace}/{job.metadata.name}"
    failed = _sum(counts.values(), "failed")
    if failed and retries > 0:
        text = f"Job {where} restarts: {failed} of {roles.total} Pods failed, and {retries} retries remain."
        return Verdict(RESTARTING, "JobRestarting", text)
    if failed:
        return Verdict(FAILED, "JobFailed", f"Job {where} has failed because {failed} of {roles.total} Pods failed.")
    succeeded = _sum(counts.values(), "succeeded")
    workers = counts.get(WORKER, {}).get("succeeded", 0)
    all_workers = job.spec.success_policy == "AllWorkers" and 0 < roles.workers == workers
    if succeeded == roles.total or all_workers:
        return Verdict(SUCCEEDED, "JobSucceeded", f"Job {where} successfully completed.")
    if _sum(counts.values(), "active"):
        return Verdict(RUNNING, "JobRunning", f"Job {where} is running.")
    return None


def _sum(counts: Iterable[Mapping[str, int]], word: str) -> int:
    return sum(each.get(word, 0) for each in counts)


def status_patch(job: AscendJob, changes: Iterable[Verdict], counts: Mapping[str, Json] | None, now: float) -> Json:
    """The merge patch of the status; empty if nothing changes."""
    time = format_timestamp(now)
    old = job.status.conditions or []
    conditions = [_resumed(each, time) for each in old] if not job.spec.run_policy.suspend else list(old)
    for change in changes:
        conditions = _with_condition(conditions, change, time)
    patch: Json = {}
    if conditions != old:
        patch["conditions"] = msgspec.to_builtins(conditions)
    known = job.status.replica_statuses
    if counts is not None and counts != known:
        gone = {role: None for role in known or {} if role not in counts}
        patch["replicaStatuses"] = {
            **gone,
            **{role: _replaced((known or {}).get(role), c) for role, c in counts.items()},
        }
    elif known is None:
        patch["replicaStatuses"] = {}
    if patch and job.spec.run_policy.suspend:
        patch["startTime"] = None  # the time until the deadline begins again when the job is resumed
    elif patch and job.status.start_time is None:
        patch["startTime"] = time
    if job.status.completion_time is None and any(c.type in _FINISHED and c.status == "True" for c in conditions):
        patch["completionTime"] = time
    if patch:
        patch["lastReconcileTime"] = time
    return patch


def _replaced(old: Mapping[str, Any] | None, new: Json) -> Json:
    return {**{word: None for word in old or {} if word not in new}, **new}


def _with_condition(conditions: list[JobCondition], change: Verdict, time: str) -> list[JobCondition]:
    """The conditions with one that became True; others that exclude it become False."""
    result = [_other(each, change, time) for each in conditions if each.type != change.type]
    old = next((each for each in conditions if each.type == change.type), None)
    place = len(result) if old is None else conditions.index(old)
    new = JobCondition(
        type=change.type,
        status="True",
        reason=change.reason,
        message=change.message,
        last_update_time=time,
        last_transition_time=old.last_transition_time if old is not None and old.status == "True" else time,
    )
    unchanged = old is not None and msgspec.structs.replace(new, last_update_time=old.last_update_time) == old
    result.insert(place, old if old is not None and unchanged else new)
    return result


def _resumed(condition: JobCondition, time: str) -> JobCondition:
    if (condition.type, condition.status) != (SUSPENDED, "True"):
        return condition
    return msgspec.structs.replace(condition, status="False", last_update_time=time, last_transition_time=time)


def _other(condition: JobCondition, change: Verdict, time: str) -> JobCondition:
    if condition.status != "True" or not _EXCLUSIVE.issuperset((condition.type, change.type)):
        return condition
    return msgspec.structs.replace(condition, status="False", last_update_time=time, last_transition_time=time)


def created(job: AscendJob) -> Verdict:
    return Verdict(CREATED, "JobCreated", f"Job {job.metadata.name} is created.")
