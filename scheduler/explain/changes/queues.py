"""Changes to queues and quotas: whether there is one, whether it is open, and how much it may have."""

from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np

from scheduler.api.kinds import QUEUE, RESOURCE_QUOTA
from scheduler.api.names import CLOSED_BY_PARENT
from scheduler.api.queue import OPEN, ancestors
from scheduler.api.reasons import Shortage
from scheduler.api.resource import PODS_INDEX
from scheduler.api.written_amounts import grain_of, quantity, unit_of, units
from scheduler.explain.gates import GUARDING
from scheduler.explain.turn import below, used_by
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Edit, Plan, Raw, Step, whole
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.gates import Held

_RAISED: Final = {"capability": ChangeKind.CAPABILITY, "deserved": ChangeKind.DESERVED}
_SPARE: Final = 4
"""How many times the amount that should do is tried before a limit is given up as not the cause."""


# --- being there, being open ---
def create_queue(evidence: Evidence) -> Iterator[Plan]:
    name = evidence.job.queue
    if name not in evidence.session.queues:
        edit = Edit(QUEUE, "", name, _new_queue, creates=True)
        yield (whole(ChangeKind.QUEUE, Step(f"create queue {name}", (edit,))),)


def _new_queue(blank: Raw) -> Raw:
    return {**blank, "spec": {"weight": 1}, "status": {"state": OPEN}}


def open_queue(evidence: Evidence) -> Iterator[Plan]:
    """Open the job's queue, and those above it that are not open either."""
    queues, name = evidence.session.queues, evidence.job.queue
    if name not in queues:
        return
    shut = [above for above in (*reversed(ancestors(queues, name)), name) if not queues[above].open]
    if shut:
        yield tuple(
            whole(ChangeKind.QUEUE_STATE, Step(f"open queue {above}", (Edit(QUEUE, "", above, _opened),)), above)
            for above in shut
        )


def _opened(queue: Raw) -> Raw:
    queue["status"] = {**(queue.get("status") or {}), "state": OPEN}
    annotations = queue["metadata"].get("annotations") or {}
    if CLOSED_BY_PARENT in annotations:
        queue["metadata"]["annotations"] = {**annotations, CLOSED_BY_PARENT: "false"}
    return queue


# --- amounts ---
def raise_limits(evidence: Evidence) -> Iterator[Plan]:
    """Raise the capability of the queue, and of those above it where they are in the way too."""
    if evidence.plugins() & GUARDING:
        yield from _raised(evidence, "capability")


def raise_deserved(evidence: Evidence) -> Iterator[Plan]:
    """Let the queue deserve more, so that it may take it from others."""
    if "capacity" in evidence.plugins() and evidence.session.configuration.has_action("reclaim"):
        yield from _raised(evidence, "deserved")


def _raised(evidence: Evidence, field: str) -> Iterator[Plan]:
    session, name = evidence.session, evidence.job.queue
    if name not in session.queues:
        return
    need = evidence.need
    known = {(s.name, s.resource): s.used for s in evidence.shortages("Queue")}
    adjustments = []
    for at in (name, *(ancestors(session.queues, name) if field == "capability" else ())):
        amounts = getattr(session.queues[at], field)
        used, others = used_by(session, at), evidence.others_need(below(session, at))
        for d in np.flatnonzero(need).tolist():
            resource, now = session.dimensions.names[d], float(amounts[d])
            if d == PODS_INDEX or np.isinf(now):
                continue
            counted, held = known.get((at, resource), 0.0), float(used[d])
            missing = units(resource, float(need[d]) + max(counted, held) - now)
            if missing > 0:
                # A queue that refuses the rest of a gang counts those of its Pods that it was giving room to.
                own = counted <= held + float(need[d])
                guess = max(units(resource, float(need[d]) + held - now), 1) if own else missing
                waiting = units(resource, float(others[d]))
                change = partial(_with_amount, at, field, resource, now)
                what, grain = f"{at} {resource}", grain_of(resource)
                most = missing * _SPARE + waiting
                adjustments.append(Adjustment(_RAISED[field], guess, most, change, what, grain, shared=guess + waiting))
    if adjustments:
        yield tuple(adjustments)


def _with_amount(queue: str, field: str, resource: str, now: float, degree: int) -> Step:
    then = quantity(resource, now + degree * unit_of(resource))
    text = f"raise queue {queue}'s {field} {resource} from {quantity(resource, now)} to {then}"

    def raised(raw: Raw) -> Raw:
        spec = raw.setdefault("spec", {})
        spec[field] = {**(spec.get(field) or {}), resource: then}
        return raw

    return Step(text, (Edit(QUEUE, "", queue, raised),))


def raise_weight(evidence: Evidence) -> Iterator[Plan]:
    """Give the queue more weight, where shares go by weight."""
    session, name = evidence.session, evidence.job.queue
    if "proportion" not in evidence.plugins() or name not in session.queues or len(session.queues) < 2:
        return
    if not (evidence.held(Held.OVERUSED, Held.QUOTA) or session.configuration.has_action("reclaim")):
        return
    weight = session.queues[name].weight
    most = 100 * sum(queue.weight for queue in session.queues.values())

    def at(degree: int) -> Step:
        def heavier(raw: Raw) -> Raw:
            raw["spec"]["weight"] = weight + degree
            return raw

        text = f"raise queue {name}'s weight from {weight} to {weight + degree}"
        return Step(text, (Edit(QUEUE, "", name, heavier),))

    yield (Adjustment(ChangeKind.WEIGHT, 1, most, at),)


# --- quotas ---
def raise_resource_quota(evidence: Evidence) -> Iterator[Plan]:
    adjustments = []
    for shortage in evidence.shortages("ResourceQuota"):
        guess = units(shortage.resource, shortage.missing)
        if guess > 0:
            what = f"{shortage.name} {shortage.resource}"
            change, grain = partial(_with_hard, shortage), grain_of(shortage.resource)
            adjustments.append(Adjustment(ChangeKind.RESOURCE_QUOTA, guess, guess * _SPARE, change, what, grain))
    if adjustments:
        yield tuple(adjustments)


def _with_hard(shortage: Shortage, degree: int) -> Step:
    resource = shortage.resource
    then = quantity(resource, shortage.limit + degree * unit_of(resource))
    text = f"raise ResourceQuota {shortage.name}'s {resource} from {quantity(resource, shortage.limit)} to {then}"
    namespace, _, name = shortage.name.partition("/")

    def raised(raw: Raw) -> Raw:
        for part in ("spec", "status"):
            fields = raw.setdefault(part, {})
            fields["hard"] = {**(fields.get("hard") or {}), resource: then}
        return raw

    return Step(text, (Edit(RESOURCE_QUOTA, namespace, name, raised),))
