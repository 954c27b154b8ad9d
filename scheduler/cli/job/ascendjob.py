"""The sections of ``job view`` about an AscendJob."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from scheduler.api.acjob_roles import FRAMEWORK
from scheduler.cli.connection import Raw
from scheduler.cli.job.fields import NONE, Field, about, containers, pod_group, why_it_waits
from scheduler.cli.text import pairs

if TYPE_CHECKING:
    from scheduler.api.acjob import AscendJob, RunPolicy, SchedulingPolicy
    from scheduler.api.scheduling import PodGroup

_LIMITS: Final = (
    ("Backoff Limit", "backoff_limit"),
    ("Active Deadline", "active_deadline_seconds"),
    ("TTL", "ttl_seconds_after_finished"),
)
"""Keys and fields of the run policy, which may be absent."""


def sections(job: "AscendJob", group: "PodGroup | None", raw: Raw) -> Iterator[Field]:
    yield from about(job.metadata, raw)
    yield from _spec(job)
    yield from _status(job)
    yield from pod_group(group, "" if job.is_finished else why_it_waits(group))


def _spec(job: "AscendJob") -> Iterator[Field]:
    yield 0, "Spec", None
    yield 1, "Framework", (job.metadata.labels or {}).get(FRAMEWORK) or NONE
    yield from _policy(job.spec.run_policy)
    yield 1, "Scheduler Name", job.spec.scheduler_name or NONE
    yield 1, "Roles", None
    for name, role in (job.spec.replica_specs or {}).items():
        yield 2, name or NONE, None
        yield 3, "Replicas", 1 if role.replicas is None else role.replicas
        if role.restart_policy:
            yield 3, "Restart Policy", role.restart_policy
        yield from containers(role.template)


def _policy(policy: "RunPolicy") -> Iterator[Field]:
    scheduling: SchedulingPolicy | None = policy.scheduling_policy
    yield 1, "Queue", (scheduling.queue if scheduling else "") or NONE
    if scheduling is not None and scheduling.min_available is not None:
        yield 1, "Min Available", scheduling.min_available
    if scheduling is not None and scheduling.priority_class:
        yield 1, "Priority Class", scheduling.priority_class
    for key, field in _LIMITS:
        if getattr(policy, field) is not None:
            yield 1, key, getattr(policy, field)
    if policy.clean_pod_policy:
        yield 1, "Clean Pod Policy", policy.clean_pod_policy
    if policy.suspend:
        yield 1, "Suspend", "true"


def _status(job: "AscendJob") -> Iterator[Field]:
    conditions = job.status.conditions or []
    yield 0, "Status", None
    newest = next((each for each in reversed(conditions) if each.status == "True"), None)
    yield 1, "Phase", newest.type if newest is not None else "Pending"
    for key, text in (("Reason", newest.reason), ("Message", newest.message)) if newest is not None else ():
        if text:
            yield 1, key, text
    for role, counts in (job.status.replica_statuses or {}).items():
        yield 1, f"Role {role}", pairs((word, count) for word, count in counts.items() if isinstance(count, int))
    for condition in conditions:
        since = condition.last_transition_time or "<unknown>"
        yield 1, "Condition", f"{condition.type} is {condition.status} since {since}"
