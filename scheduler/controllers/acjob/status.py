"""The status of an AscendJob: conditions, numbers of Pods by role, times."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.api.acjob import (
    ALL_WORKERS,
    CONTAINER,
    CREATED,
    FAILED,
    RESTARTING,
    RUNNING,
    SUCCEEDED,
    SUSPENDED,
    AscendJob,
    AscendJobCondition,
    JobRoles,
)
from scheduler.api.objects import ENDED_PHASES, Pod
from scheduler.api.times import format_timestamp
from scheduler.controllers.acjob.manifests import members, min_available
from scheduler.controllers.evictions import was_evicted

Json = dict[str, Any]
_EXCLUSIVE: Final = frozenset({RUNNING, RESTARTING, SUSPENDED, SUCCEEDED, FAILED})
"""Conditions that exclude each other: one is True at a time. The newest is the last: ``kubectl get`` shows its type."""
SIGNALLED: Final = 128
"""The smallest exit code that means a signal."""
_FINISHED: Final = (SUCCEEDED, FAILED)


class ConditionChange(NamedTuple):
    """A condition that becomes True."""

    type: str
    reason: str
    message: str


def replica_statuses(job: AscendJob, roles: JobRoles, pods: Mapping[str, Pod]) -> dict[str, Json]:
    """Role -> numbers of active, succeeded and failed Pods, without zeros. A Pod that ends because it is being deleted
    was evicted, and does not count."""
    result: dict[str, Json] = {role.type: {} for role in roles.roles}
    words = {"Running": "active", "Succeeded": "succeeded", "Failed": "failed"}
    for name, role, _ in members(job, roles):
        pod = pods.get(name)
        word = words.get(pod.status.phase) if pod is not None else None
        if pod is not None and word is not None and not (pod.status.phase in ENDED_PHASES and was_evicted(pod)):
            counts = result[role.type]
            counts[word] = counts.get(word, 0) + 1
    return result


def retryable(job: AscendJob, roles: JobRoles, pods: Mapping[str, Pod]) -> Iterator[Pod]:
    """The failed Pods that are replaced: those of roles with ``restartPolicy: ExitCode`` whose container ``ascend``
    was ended by a signal (exit code 128 or more)."""
    for name, role, _ in members(job, roles):
        pod = pods.get(name)
        if pod is None or pod.status.phase != "Failed" or pod.metadata.deletion_timestamp is not None:
            continue
        if role.restart_policy == "ExitCode" and _exit_code(pod) >= SIGNALLED:
            yield pod


def _exit_code(pod: Pod) -> int:
    """Returns the exit code of the container ``ascend``; 0 while it is unknown."""
    for status in pod.status.container_statuses or ():
        if status.name == CONTAINER and status.state is not None and status.state.terminated is not None:
            return status.state.terminated.exit_code
    return 0


def change_by_pods(
    job: AscendJob, roles: JobRoles, counts: Mapping[str, Mapping[str, int]], retries: int
) -> ConditionChange | None:
    """The condition that the Pods of a job cause; None: it stays. ``retries``: restarts that remain after a Pod failed;
    the scheduler carries them out."""
    where = f"{job.metadata.namespace}/{job.metadata.name}"
    failed = _sum(counts.values(), "failed")
    if failed and retries > 0:
        text = f"Job {where} restarts: {failed} of {roles.total} Pods failed, and {retries} retries remain."
        return ConditionChange(RESTARTING, "JobRestarting", text)
    if failed:
        return ConditionChange(
            FAILED, "JobFailed", f"Job {where} has failed because {failed} of {roles.total} Pods failed."
        )
    if job.spec.success_policy == ALL_WORKERS and _has_trained(roles, counts):
        return ConditionChange(SUCCEEDED, "JobSucceeded", f"Job {where} successfully completed: all its workers have.")
    if _sum(counts.values(), "active"):
        return ConditionChange(RUNNING, "JobRunning", f"Job {where} is running.")
    succeeded = _sum(counts.values(), "succeeded")
    if succeeded and succeeded >= min_available(job, roles):  # the others of an elastic job never got a node
        return ConditionChange(SUCCEEDED, "JobSucceeded", f"Job {where} successfully completed.")
    return None


def _has_trained(roles: JobRoles, counts: Mapping[str, Mapping[str, int]]) -> bool:
    """Whether all Pods that train have succeeded."""
    training = [role for role in roles.roles if role.replicas and roles.trains(role)]
    return bool(training) and all(counts[role.type].get("succeeded", 0) == role.replicas for role in training)


def _sum(counts: Iterable[Mapping[str, int]], word: str) -> int:
    return sum(each.get(word, 0) for each in counts)


def status_patch(
    job: AscendJob,
    changes: Iterable[ConditionChange],
    counts: Mapping[str, Json] | None,
    now: float,
    restarts: tuple[int, int] | None = None,
) -> Json:
    """The merge patch of the status; empty if nothing changes. ``restarts``: their number, and the number of those that
    do not count towards the limit; None if they stay."""
    time = format_timestamp(now)
    old = job.status.conditions or []
    conditions = [each for each in old if each.type != SUSPENDED or job.spec.run_policy.suspend]
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
    number, uncounted = restarts or (job.status.restarts, job.status.uncounted_restarts)
    if number != job.status.restarts:
        patch["restarts"] = number
    if uncounted != job.status.uncounted_restarts:
        patch["uncountedRestarts"] = uncounted
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


def _with_condition(
    conditions: list[AscendJobCondition], change: ConditionChange, time: str
) -> list[AscendJobCondition]:
    """The conditions with one that became True. Others that exclude it are removed, but for Running, which a finished
    job keeps as False."""
    old = next((each for each in conditions if each.type == change.type), None)
    is_true = old is not None and old.status == "True"
    new = AscendJobCondition(
        type=change.type,
        status="True",
        reason=change.reason,
        message=change.message,
        last_update_time=time,
        last_transition_time=old.last_transition_time if old is not None and is_true else time,
    )
    if old is not None and msgspec.structs.replace(new, last_update_time=old.last_update_time) == old:
        new = old
    if change.type not in _EXCLUSIVE:
        return [new if each is old else each for each in conditions] if old is not None else [*conditions, new]
    others = (_other(each, change, time) for each in conditions if each is not old)
    return [*(each for each in others if each is not None), new]


def _other(condition: AscendJobCondition, change: ConditionChange, time: str) -> AscendJobCondition | None:
    """The condition after an exclusive one has become True; None: it is removed."""
    if condition.type not in _EXCLUSIVE:
        return condition
    if condition.type != RUNNING or change.type not in _FINISHED:
        return None
    if condition.status != "True":
        return condition
    return msgspec.structs.replace(condition, status="False", last_update_time=time, last_transition_time=time)


def created(job: AscendJob) -> ConditionChange:
    return ConditionChange(CREATED, "JobCreated", f"Job {job.metadata.name} is created.")
