"""Changes to queues and quotas: creates and opens queues, raises limits."""

from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np

from scheduler.api.kinds import QUEUE, RESOURCE_QUOTA
from scheduler.api.names import CLOSED_BY_PARENT
from scheduler.api.queue import OPEN, ancestors, device_class_of
from scheduler.api.reasons import Shortage
from scheduler.api.resource import PODS_INDEX
from scheduler.api.written_amounts import grain_of, quantity, unit_of, units
from scheduler.explain.gates import QUEUE_PLUGINS
from scheduler.explain.queues import subtree, used_in_queue
from scheduler.framework.remedies.adjustments import (
    Adjustment,
    ChangeKind,
    Edit,
    Plan,
    Raw,
    Step,
    indivisible,
)
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.gates import GateKind

_RAISED: Final = {"capability": ChangeKind.CAPABILITY, "deserved": ChangeKind.DESERVED}
_LARGEST_WEIGHT: Final = 65535
"""The largest weight that the API server accepts."""
_MAX_FACTOR: Final = 4
"""The maximum amount of an adjustment is this many times the estimate. If that does not help, the limit is not the
cause."""


# --- existence and state ---
def create_queue(evidence: Evidence) -> Iterator[Plan]:
    """Creates the job's queue if it does not exist."""
    name = evidence.job.queue
    if name not in evidence.session.queues:
        edit = Edit(QUEUE, "", name, _new_queue, creates=True)
        yield (indivisible(ChangeKind.QUEUE, Step(f"create queue {name}", (edit,))),)


def _new_queue(blank: Raw) -> Raw:
    return {**blank, "spec": {"weight": 1}, "status": {"state": OPEN}}


def open_queue(evidence: Evidence) -> Iterator[Plan]:
    """Opens the job's queue and its closed ancestors."""
    queues, name = evidence.session.queues, evidence.job.queue
    if name not in queues:
        return
    closed = [above for above in (*reversed(ancestors(queues, name)), name) if not queues[above].open]
    if closed:
        yield tuple(
            indivisible(ChangeKind.QUEUE_STATE, Step(f"open queue {above}", (Edit(QUEUE, "", above, _opened),)), above)
            for above in closed
        )


def _opened(queue: Raw) -> Raw:
    queue["status"] = {**(queue.get("status") or {}), "state": OPEN}
    annotations = queue["metadata"].get("annotations") or {}
    if CLOSED_BY_PARENT in annotations:
        queue["metadata"]["annotations"] = {**annotations, CLOSED_BY_PARENT: "false"}
    return queue


# --- amounts ---
def raise_limits(evidence: Evidence) -> Iterator[Plan]:
    """Raises the capability of the queue and of those ancestors that limit it."""
    if evidence.plugins() & QUEUE_PLUGINS:
        yield from _raised(evidence, "capability")


def raise_deserved(evidence: Evidence) -> Iterator[Plan]:
    """Raises the deserved amount of the queue, so that it may reclaim from others."""
    if "capacity" in evidence.plugins() and _reclaims(evidence):
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
        used, others = used_in_queue(session, at), evidence.other_jobs_need(subtree(session, at))
        for d in np.flatnonzero(need).tolist():
            resource, now = session.dimensions.names[d], float(amounts[d])
            if d == PODS_INDEX or np.isinf(now):
                continue
            counted, held = known.get((at, resource), 0.0), float(used[d])
            missing = units(resource, float(need[d]) + max(counted, held) - now)
            if missing > 0:
                # A queue that refuses the rest of a gang counts the Pods of the gang that it has accepted so far.
                own = counted <= held + float(need[d])
                estimate = max(units(resource, float(need[d]) + held - now), 1) if own else missing
                waiting = units(resource, float(others[d]))
                change = partial(_with_amount, at, field, resource, now)
                what, grain = f"{at} {resource}", grain_of(resource)
                most = missing * _MAX_FACTOR + waiting
                adjustments.append(
                    Adjustment(_RAISED[field], estimate, most, change, what, grain, shared=estimate + waiting)
                )
    if adjustments:
        yield tuple(adjustments)


def _with_amount(queue: str, field: str, resource: str, now: float, amount: int) -> Step:
    then = quantity(resource, now + amount * unit_of(resource))
    text = f"raise queue {queue}'s {field} {resource} from {quantity(resource, now)} to {then}"

    def raised(raw: Raw) -> Raw:
        spec = raw.setdefault("spec", {})
        spec[field] = {**(spec.get(field) or {}), resource: then}
        return raw

    return Step(text, (Edit(QUEUE, "", queue, raised),))


def raise_device_limit(evidence: Evidence) -> Iterator[Plan]:
    """Raises the limits of the queue and its ancestors on devices of a class, or on their capacity."""
    over = [s for s in evidence.shortages("Queue") if device_class_of(s.resource)]
    number = 1 if evidence.job.waiting_for_queue else max(len(evidence.wanted), 1)
    adjustments = []
    for shortage in over:
        estimate = units(shortage.resource, shortage.asked * number - shortage.free)
        change = partial(_with_amount, shortage.name, "capability", shortage.resource, shortage.limit)
        what = f"{shortage.name} {shortage.resource}"
        adjustments.append(Adjustment(ChangeKind.DEVICE_QUOTA, estimate, estimate * _MAX_FACTOR, change, what))
    if adjustments:
        yield tuple(adjustments)


def raise_weight(evidence: Evidence) -> Iterator[Plan]:
    """Raises the weight of the queue, where shares depend on weights."""
    session, name = evidence.session, evidence.job.queue
    if "proportion" not in evidence.plugins() or name not in session.queues or len(session.queues) < 2:
        return
    if not (evidence.has_gate(GateKind.OVERUSED, GateKind.QUOTA) or _reclaims(evidence)):
        return
    weight = session.queues[name].weight
    most = min(100 * sum(queue.weight for queue in session.queues.values()), _LARGEST_WEIGHT - weight)

    def at(amount: int) -> Step:
        def heavier(raw: Raw) -> Raw:
            raw["spec"]["weight"] = weight + amount
            return raw

        text = f"raise queue {name}'s weight from {weight} to {weight + amount}"
        return Step(text, (Edit(QUEUE, "", name, heavier),))

    if most > 0:
        yield (Adjustment(ChangeKind.WEIGHT, 1, most, at),)


def _reclaims(evidence: Evidence) -> bool:
    """Whether an action takes resources from other queues."""
    configuration = evidence.session.configuration
    return configuration.has_action("reclaim") or configuration.has_action("gangreclaim")


# --- quotas ---
def raise_resource_quota(evidence: Evidence) -> Iterator[Plan]:
    """Raises the ResourceQuotas of the namespace that refuse the job."""
    adjustments = []
    for shortage in evidence.shortages("ResourceQuota"):
        estimate = units(shortage.resource, shortage.missing)
        if estimate > 0:
            what = f"{shortage.name} {shortage.resource}"
            change, grain = partial(_with_hard, shortage), grain_of(shortage.resource)
            adjustments.append(
                Adjustment(ChangeKind.RESOURCE_QUOTA, estimate, estimate * _MAX_FACTOR, change, what, grain)
            )
    if adjustments:
        yield tuple(adjustments)


def _with_hard(shortage: Shortage, amount: int) -> Step:
    resource = shortage.resource
    then = quantity(resource, shortage.limit + amount * unit_of(resource))
    text = f"raise ResourceQuota {shortage.name}'s {resource} from {quantity(resource, shortage.limit)} to {then}"
    namespace, _, name = shortage.name.partition("/")

    def raised(raw: Raw) -> Raw:
        for part in ("spec", "status"):
            fields = raw.setdefault(part, {})
            fields["hard"] = {**(fields.get("hard") or {}), resource: then}
        return raw

    return Step(text, (Edit(RESOURCE_QUOTA, namespace, name, raised),))
