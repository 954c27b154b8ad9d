"""Raises the priority of the job, so that it preempts others or comes before them in its queue."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from msgspec.structs import replace

from scheduler.api.kinds import POD_GROUP, PRIORITY_CLASS, VCJOB
from scheduler.explain.changes.jobs import delete_others
from scheduler.explain.changes.new_nodes import add_nodes
from scheduler.explain.changes.queues import raise_limits
from scheduler.explain.changes.workloads import vcjob_of
from scheduler.explain.queues import queue_position
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Edit, Plan, Raw, Step
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.registry import remedies_of

_HIGHEST: Final = 1_000_000_000
"""The highest priority of users; higher ones are reserved for the system."""
_FEW: Final = 2
"""Up to this many jobs before it in the queue, other changes serve them too."""
_EVICTING: Final = ("preempt", "gangpreempt")


def raise_priority(evidence: Evidence) -> Iterator[Plan]:
    """Raises the job to the priority of other jobs of its queue, or one above: values in between have the same
    effect."""
    adjustment = _adjustment(evidence)
    if adjustment is not None and any(map(evidence.session.configuration.has_action, _EVICTING)):
        yield (adjustment,)


def raise_priority_and_add(evidence: Evidence) -> Iterator[Plan]:
    """Raises the priority together with another plan, for a job behind many others, which would take what the plan
    adds."""
    adjustment, position = _adjustment(evidence), queue_position(evidence.session, evidence.job)
    if adjustment is None or position is None or len(position.before) <= _FEW:
        return
    quotas = [plans for kind, plans in remedies_of(evidence.session) if kind is ChangeKind.CARD_QUOTA]
    for added in (*quotas, raise_limits, add_nodes, delete_others):
        for plan in added(evidence):
            yield (adjustment, *(replace(other, shared=0) for other in plan))


def _adjustment(evidence: Evidence) -> Adjustment | None:
    session, job = evidence.session, evidence.job
    if "priority" not in evidence.plugins():
        return None
    others = {other.priority for other in session.jobs.values() if other.queue == job.queue and other is not job}
    steps = sorted({p for q in others for p in (q, q + 1) if job.priority < p <= _HIGHEST})
    if not steps:
        return None
    estimate = next((i for i, p in enumerate(steps, start=1) if p - 1 in others), len(steps))
    return Adjustment(ChangeKind.PRIORITY, estimate, len(steps), partial(_with_priority, evidence, steps))


def _with_priority(evidence: Evidence, steps: list[int], amount: int) -> Step:
    job, value = evidence.job, steps[amount - 1]
    classes = evidence.objects.structs(PRIORITY_CLASS)
    known = next((c.metadata.name for c in classes if c.value == value), None)
    name = known or evidence.unused_name(PRIORITY_CLASS, f"priority-{value}")
    vcjob = vcjob_of(evidence, job)
    kind, owner = (POD_GROUP, job.name) if vcjob is None else (VCJOB, vcjob)
    edits = [Edit(kind, job.namespace, owner, partial(_with_class, name))]
    if known is None:
        edits.append(Edit(PRIORITY_CLASS, "", name, partial(_with_value, value), creates=True))
    made = "" if known else ", to be created"
    what = "job" if kind is VCJOB else kind.name
    text = f"raise the priority of {what} {job.namespace}/{owner} from {job.priority} to {value}"
    return Step(f"{text} (PriorityClass {name}{made})", tuple(edits))


def _with_class(name: str, raw: Raw) -> Raw:
    raw.setdefault("spec", {})["priorityClassName"] = name
    return raw


def _with_value(value: int, blank: Raw) -> Raw:
    return {**blank, "value": value}
