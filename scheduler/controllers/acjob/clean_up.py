"""What is deleted of an AscendJob that has finished or is suspended."""

from collections.abc import Callable
from typing import Final

from scheduler.api.acjob import AscendJob
from scheduler.api.acjob_roles import FRAMEWORK, LEADERS
from scheduler.api.kinds import ACJOB, POD, POD_GROUP, SERVICE
from scheduler.api.objects import ENDED_PHASES, Pod, is_controlled_by
from scheduler.api.times import parse_timestamp
from scheduler.controllers.acjob.manifests import group_name
from scheduler.controllers.effects import Delete, Effect, Plan
from scheduler.controllers.store import Store, key_of

MAX_INTERVAL: Final = 30 * 86400.0
"""Seconds after which a job is checked again at the latest."""


def clean_up(store: Store, job: AscendJob, now: float) -> Plan:
    """Returns the plan for a finished job: deletes Pods by its clean-up policy and those that wait, the PodGroup, and
    in the end the job itself."""
    policy = job.spec.run_policy
    effects = deletions(store, job, lambda pod: _is_cleaned(pod, policy.clean_pod_policy))
    effects += _unused_service(store, job, effects)
    plan = Plan().then(*effects)
    left = seconds_left(policy.ttl_seconds_after_finished, job.status.completion_time, now)
    if left is not None and left <= 0:
        return plan.then(Delete(ACJOB, *key_of(job), job.metadata.uid, foreground=True))
    plan.after = None if left is None else min(left, MAX_INTERVAL)
    return plan


def deletions(store: Store, job: AscendJob, is_deleted: Callable[[Pod], bool]) -> list[Effect]:
    """Returns the deletions of the PodGroup of a job, and of some of its Pods."""
    effects: list[Effect] = []
    group = store.get(POD_GROUP, job.metadata.namespace, group_name(job))
    if group is not None:
        effects.append(Delete(POD_GROUP, *key_of(group), group.metadata.uid))
    pods = store.pods_of(job.metadata.namespace, job.metadata.uid).values()
    found = (each for each in pods if each.metadata.deletion_timestamp is None and is_deleted(each))
    effects += (Delete(POD, *key_of(each), each.metadata.uid) for each in found)
    return effects


def seconds_left(seconds: int | None, since: str | None, now: float) -> float | None:
    """Returns the seconds until a limit of ``seconds`` since a time is reached; None: there is no limit, or no time."""
    start = parse_timestamp(since)
    return None if seconds is None or start is None else start + seconds - now


def _unused_service(store: Store, job: AscendJob, effects: list[Effect]) -> list[Effect]:
    """Returns the deletion of the leader's Service, if its Pod is gone or is deleted by one of the effects."""
    leader = LEADERS.get((job.metadata.labels or {}).get(FRAMEWORK, ""), "")
    name = f"{job.metadata.name}-{leader.lower()}-0"
    found = store.get(SERVICE, job.metadata.namespace, name)
    if found is None or not is_controlled_by(found, job.metadata.uid):
        return []
    leads = store.pods_of(job.metadata.namespace, job.metadata.uid).get(name)
    if leads is not None and Delete(POD, *key_of(leads), leads.metadata.uid) not in effects:
        return []
    return [Delete(SERVICE, *key_of(found), found.metadata.uid)]


def _is_cleaned(pod: Pod, policy: str) -> bool:
    """Whether a Pod of a finished job is deleted. ``policy``: All, Running, or None (the default); Pods that wait are
    deleted in any case, as they would run later."""
    phase = pod.status.phase
    return phase in ("", "Pending") or policy == "All" or (policy == "Running" and phase not in ENDED_PHASES)
