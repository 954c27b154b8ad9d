"""Computes the status of Queues when a session is closed: the amounts, devices and cards that they hold, and the
numbers of their PodGroups."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from scheduler.api.decisions import QueueAllocated
from scheduler.api.dra import ResourceClaim
from scheduler.api.job import RUNNING
from scheduler.api.kinds import RESOURCE_CLAIM
from scheduler.api.names import ROOT_QUEUE
from scheduler.api.quantity import QuantityError, format_milli
from scheduler.api.queue import COUNTED_PHASE, QUEUE_PHASES, Amounts, add, ancestors, claims_of, device_amounts
from scheduler.api.resource import Vector, scale_of
from scheduler.api.task import ALLOCATED_STATUSES
from scheduler.framework.charged_namespaces import (
    amounts_without_queue,
    cards_without_queue,
    charged_pods,
    tasks_with_claims,
)
from scheduler.framework.extension import HELD_AMOUNTS
from scheduler.framework.figures import QueueUsage
from scheduler.framework.session import Session


def close_queues(session: Session) -> None:
    """Updates the status of every queue: what its jobs and its child queues hold, its cards, and its PodGroups."""
    dimensions, queues = session.dimensions, session.queues
    sums, devices = _amounts(session), _devices(session)
    groups = _groups_by_phase(session)
    usage = session.usage_by_queue()
    deserved = session.deserved()
    for name, queue in queues.items():
        cards = {card: _card_status(its) for card, its in usage.get(name, {}).items()}
        held = {card: status["used"] for card, status in cards.items() if usage[name][card].used}
        allocated = {**dimensions.to_list(sums[name]), **devices.get(name, {}), **held}
        changed = any(number != queue.groups.get(phase, 0) for phase, number in groups[name].items())
        changed |= allocated != queue.allocated or cards != queue.cards
        without_queue = _without_queue(session) if name == ROOT_QUEUE else None
        changed |= without_queue != queue.without_queue
        if queue.without_queue and without_queue is None:
            without_queue = {}
        deserves: dict[str, str] | None = dimensions.listed(deserved[name])
        if deserves == queue.shown_deserved:
            deserves = None
        if changed or deserves is not None:
            written = cards if cards or queue.cards else None
            numbers = {phase: number for phase, number in groups[name].items() if number or queue.groups.get(phase)}
            session.decisions.queues.append(
                QueueAllocated(
                    name, allocated, written, numbers, deserves, only_deserved=not changed, without_queue=without_queue
                )
            )


def _amounts(session: Session) -> dict[str, Vector]:
    """Returns queue -> the amounts that its jobs and those of its child queues hold, and Pods without a queue that they
    are charged for."""
    dimensions, queues = session.dimensions, session.queues
    own: dict[str, Vector] = {name: dimensions.zeros() for name in queues}
    for name, settled in session.settled_jobs.items():
        own[name] += settled.allocated
    for job in session.active_jobs.values():
        total = own.get(job.queue)
        if total is not None:
            total += job.allocated
            if job in session.touched:
                total -= session.touched[job]
    for name, charged in session.once(charged_pods).amounts.items():
        if name in own:
            own[name] += charged
    _correct(session, own)
    sums = {name: total.copy() for name, total in own.items()}
    for name, total in own.items():
        for ancestor in ancestors(queues, name):
            sums[ancestor] += total
    return sums


def _devices(session: Session) -> dict[str, dict[str, str]]:
    """Returns queue -> amount of devices -> quantity, of the queues whose jobs or child queues hold any, or Pods
    without a queue that they are charged for. Each claim of the tasks that hold nodes counts once per queue; claims
    with malformed amounts do not count."""
    queues, claims = session.queues, session.snapshot.objects[RESOURCE_CLAIM]
    counted: dict[str, dict[str, None]] = {}
    for job in session.jobs.values() if claims else ():
        for status in ALLOCATED_STATUSES:
            for task in job.of(status).values():
                if task.cls.spec.resource_claims:
                    for queue in (job.queue, *ancestors(queues, job.queue)):
                        counted.setdefault(queue, {}).update(dict.fromkeys(claims_of(task)))
    for charged, task in tasks_with_claims(session) if claims else ():
        for queue in (charged, *ancestors(queues, charged)):
            counted.setdefault(queue, {}).update(dict.fromkeys(claims_of(task)))
    return {queue: _sum(keys, claims) for queue, keys in counted.items()}


def _sum(keys: Iterable[str], claims: Mapping[str, ResourceClaim]) -> dict[str, str]:
    """Returns the amounts of the devices of claims."""
    total: Amounts = {}
    for key in keys:
        claim = claims.get(key)
        if claim is not None:
            try:
                add(total, device_amounts(claim.spec))
            except QuantityError:
                continue
    return {name: str(amount) for name, amount in total.items() if amount.nano}


def _without_queue(session: Session) -> dict[str, Any] | None:
    """Returns what Pods hold that count in no queue, for the status of the root; None if there are no such Pods."""
    amounts, cards = amounts_without_queue(session), cards_without_queue(session.cards_in_use())
    if not (amounts.any() or cards):
        return None
    names = ("used", "online", "offline")
    written = {card: {name: format_milli(getattr(its, name)) for name in names} for card, its in cards.items()}
    return {"allocated": session.dimensions.to_list(amounts), "cards": written}


def _groups_by_phase(session: Session) -> dict[str, dict[str, int]]:
    """Returns queue -> phase -> number of its PodGroups, with the phases that this session sets."""
    active = (job for job in session.active_jobs.values() if job not in session.touched)
    counts = Counter((job.queue, job.stored_phase) for job in active)
    counts.update({(queue, RUNNING): settled.number for queue, settled in session.settled_jobs.items()})
    for update in session.decisions.pod_groups:
        job = session.jobs[f"{update.namespace}/{update.name}"]
        counts[job.queue, job.stored_phase] -= 1
        counts[job.queue, update.phase] += 1
    found = {name: dict.fromkeys(QUEUE_PHASES, 0) for name in session.queues}
    for (queue, phase), number in counts.items():
        if queue in found:
            found[queue][COUNTED_PHASE.get(phase, "unknown")] += number
    return found


def _card_status(usage: QueueUsage) -> dict[str, str]:
    totals = usage.totals
    names = {
        "quota": usage.limit,
        "used": usage.used,
        "inqueue": usage.inqueue,
        "requested": usage.requested,
        "borrowed": usage.borrowed,
        "lent": usage.lent,
        "online": usage.online if usage.used else None,
        "offline": usage.offline if usage.used else None,
        "guarantee": usage.guarantee,
        "elastic": usage.elastic,
        "granted": None if totals is None else totals.granted,
        "existing": None if totals is None else totals.existing,
        "healthy": None if totals is None else totals.healthy,
    }
    status = {name: format_milli(amount) for name, amount in names.items() if amount is not None}
    return status if usage.problem is None else {**status, "problem": usage.problem.value}


def _correct(session: Session, own: dict[str, Vector]) -> None:
    """Replaces the requested amounts of tasks by the amounts that they hold."""
    for held in session.ask(HELD_AMOUNTS):
        for task, amounts in held:
            job = session.jobs.get(task.job)
            total = None if job is None else own.get(job.queue)
            if job is None or total is None or not any(task.uid in job.of(status) for status in ALLOCATED_STATUSES):
                continue
            for name, amount in amounts.items():
                position = session.dimensions.find(name)
                if position is not None:
                    total[position] += amount * scale_of(name) - task.cls.request[position]
