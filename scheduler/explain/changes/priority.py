"""A higher priority for the job: at which one others would have to make room for it, or let it go first."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from scheduler.api.kinds import POD_GROUP, PRIORITY_CLASS, VCJOB
from scheduler.api.objects import PriorityClass
from scheduler.explain.changes.jobs import delete_others, owner_of
from scheduler.explain.changes.new_nodes import more_nodes
from scheduler.explain.changes.queues import raise_limits
from scheduler.explain.turn import turn
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Edit, Plan, Raw, Step
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.registry import remedies_of

_HIGHEST: Final = 1_000_000_000
"""Beyond are the priorities of the system."""
_FEW: Final = 2
"""So many jobs whose turn comes first get what they wait for as well."""
_EVICTING: Final = ("preempt", "gangpreempt")


def raise_priority(evidence: Evidence) -> Iterator[Plan]:
    """Give the job the priority of others of its queue, or one more: nothing differs in between."""
    adjustment = _adjustment(evidence)
    if adjustment is not None and any(map(evidence.session.configuration.has_action, _EVICTING)):
        yield (adjustment,)


def go_first(evidence: Evidence) -> Iterator[Plan]:
    """Let the job have its turn before many others, together with what is lacking: these would take what is added."""
    adjustment, place = _adjustment(evidence), turn(evidence.session, evidence.job)
    if adjustment is None or place is None or len(place.before) <= _FEW:
        return
    quotas = [plans for place, plans in remedies_of(evidence.session) if place is ChangeKind.CARD_QUOTA]
    for added in (*quotas, raise_limits, more_nodes, delete_others):
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
    guess = next((i for i, p in enumerate(steps, start=1) if p - 1 in others), len(steps))
    return Adjustment(ChangeKind.PRIORITY, guess, len(steps), partial(_with_priority, evidence, steps))


def _with_priority(evidence: Evidence, steps: list[int], degree: int) -> Step:
    job, value = evidence.job, steps[degree - 1]
    classes = evidence.objects.structs(PRIORITY_CLASS)
    known = next((c.metadata.name for c in classes if isinstance(c, PriorityClass) and c.value == value), None)
    name = known or evidence.unused(PRIORITY_CLASS, f"priority-{value}")
    kind, owner = owner_of(evidence, job)
    edits = [Edit(VCJOB if kind == "job" else POD_GROUP, job.namespace, owner, partial(_in_class, name))]
    if known is None:
        edits.append(Edit(PRIORITY_CLASS, "", name, partial(_valued, value), creates=True))
    made = "" if known else ", to be created"
    text = f"raise the priority of {kind} {job.namespace}/{owner} from {job.priority} to {value}"
    return Step(f"{text} (PriorityClass {name}{made})", tuple(edits))


def _in_class(name: str, raw: Raw) -> Raw:
    raw.setdefault("spec", {})["priorityClassName"] = name
    return raw


def _valued(value: int, blank: Raw) -> Raw:
    return {**blank, "value": value}
