"""A higher priority for the job: at which one others would have to make room for it."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from scheduler.api.kinds import POD_GROUP, PRIORITY_CLASS, VCJOB
from scheduler.api.objects import PriorityClass
from scheduler.explain.changes.evidence import Evidence
from scheduler.explain.changes.jobs import owner_of
from scheduler.explain.changes.lever import ChangeKind, Edit, Lever, Plan, Raw, Step
from scheduler.plugins.priority import Priority

_HIGHEST: Final = 1_000_000_000
"""Beyond are the priorities of the system."""
_EVICTING: Final = ("preempt", "gangpreempt")


def raise_priority(evidence: Evidence) -> Iterator[Plan]:
    """Give the job the priority of others of its queue, or one more: nothing differs in between."""
    session, job = evidence.session, evidence.job
    if session.plugin(Priority) is None or not any(map(session.configuration.has_action, _EVICTING)):
        return
    others = {other.priority for other in session.jobs.values() if other.queue == job.queue and other is not job}
    steps = sorted({p for q in others for p in (q, q + 1) if job.priority < p <= _HIGHEST})
    if steps:
        guess = next((i for i, p in enumerate(steps, start=1) if p - 1 in others), len(steps))
        yield (Lever(ChangeKind.PRIORITY, guess, len(steps), partial(_with_priority, evidence, steps)),)


def _with_priority(evidence: Evidence, steps: list[int], degree: int) -> Step:
    job, value = evidence.job, steps[degree - 1]
    classes = evidence.cluster.server.structs(PRIORITY_CLASS)
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
