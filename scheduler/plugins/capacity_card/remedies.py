"""What an explanation says about card quotas. A remedy: larger quotas of the job's queue, for each model that its Pods
need or, if they accept several, for one of them. Details: which queues use the quota that a job waits for, and what can
be lent to a job that needs more than its queue's quota."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from scheduler.api.cards import MILLI, Names
from scheduler.api.job import Job
from scheduler.api.kinds import QUEUE
from scheduler.api.names import CARD_QUOTA
from scheduler.api.quantity import format_milli
from scheduler.api.reasons import Shortage
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Edit, Plan, Raw, Step
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.gates import Gate, GateKind
from scheduler.framework.remedies.registry import job_details, remedies
from scheduler.framework.session import Session
from scheduler.plugins.capacity_card.accounting import minimum_tasks
from scheduler.plugins.capacity_card.books import CardBook
from scheduler.plugins.capacity_card.demand import join_names
from scheduler.plugins.capacity_card.lending import Lending, borrowed_of
from scheduler.plugins.capacity_card.plugin import CapacityCard

_SPARE: Final = 4
_CHOICES: Final = 4
"""Most alternative models that are tried."""


@remedies(CapacityCard, ChangeKind.CARD_QUOTA)
def raise_card_quota(evidence: Evidence, plugin: CapacityCard) -> Iterator[Plan]:
    book = plugin.book(evidence.job.queue)
    if book is None:
        return
    needs = plugin.needs(evidence.job, evidence.wanted)
    known = set()
    for place in range(min(max(map(len, needs), default=0), _CHOICES)):
        adjustments: dict[str, Adjustment] = {}
        for names, amount in needs.items():
            card = names[min(place, len(names) - 1)]
            adjustment = _adjustment(evidence, plugin, book, names, card, amount)
            if adjustment is not None and (card not in adjustments or adjustment.estimate > adjustments[card].estimate):
                adjustments[card] = adjustment
        if adjustments and tuple(adjustments) not in known:
            known.add(tuple(adjustments))
            yield tuple(adjustments.values())


def _adjustment(
    evidence: Evidence, plugin: CapacityCard, book: CardBook, names: Names, card: str, amount: float
) -> Adjustment | None:
    """Returns an increase of one of the alternative cards of a need; None if there is enough of the card."""
    left = book.admission_room if evidence.job.waiting_for_queue else book.room
    missing = amount - left(card)
    if missing <= 0:
        return None
    other_queues = sum(max(left(other), 0.0) for other in names if other != card)
    estimate = _cards(missing - other_queues if missing > other_queues else missing)
    most = _SPARE * _cards(missing) + _cards(book.pending(card))
    change = partial(_with_cards, plugin, book, card)
    return Adjustment(ChangeKind.CARD_QUOTA, estimate, most, change, f"{book.queue.name} {card}")


def _cards(amount: float) -> int:
    """Converts thousandths to whole cards, rounded up."""
    return int(-(-amount // MILLI))


def _with_cards(plugin: CapacityCard, book: CardBook, card: str, amount: int) -> Step:
    then = int(book.limit(card)) // MILLI + amount
    key = next((name for name in _written(book.queue.annotations) if plugin.canonical(name) == card), card)

    def raised(raw: Raw) -> Raw:
        annotations = raw["metadata"].get("annotations") or {}
        quota = {**_written(annotations), key: then}
        raw["metadata"]["annotations"] = {**annotations, CARD_QUOTA: json.dumps(quota)}
        return raw

    text = f"queue {book.queue.name} needs {amount} {key} more in its card quota ({then} in all)"
    return Step(text, (Edit(QUEUE, "", book.queue.name, raised),))


def _written(annotations: dict[str, str]) -> dict[str, Any]:
    """Returns the card quota in the annotation; an empty one if it cannot be read."""
    try:
        quota = json.loads(annotations.get(CARD_QUOTA, "{}"))
    except (ValueError, RecursionError):
        return {}
    return quota if isinstance(quota, dict) else {}


_SHOWN: Final = 5
_RECLAIM, _GANG_RECLAIM = "reclaim", "gangreclaim"


@job_details(CapacityCard)
def borrowing(session: Session, plugin: CapacityCard, job: Job) -> Iterator[Gate]:
    """Yields what the job needs and other queues have borrowed, and what it could borrow."""
    book = plugin.book(job.queue)
    if book is None or book.lending is None or not book.queue.open:
        return
    waiting = _waiting(job)
    for names, amount in sorted(plugin.needs(job, waiting).items()) if waiting or job.waiting_for_queue else ():
        own = sum(max(book.own_room(card), 0.0) for card in names)
        if amount <= own:
            yield from _borrowed_by_others(session, plugin, book, names, amount)
        else:
            yield from _not_lendable(plugin, book, book.lending, names, amount)


def _waiting(job: Job) -> list[Task]:
    """Returns the Pods that the job waits for: those of its minimum or, if it has that, one more."""
    pending = job.of(TaskStatus.PENDING)
    minimum = [task for task in minimum_tasks(job) if task.uid in pending]
    return minimum or [task for task in pending.values() if not task.gated][:1]


def _borrowed_by_others(
    session: Session, plugin: CapacityCard, book: CardBook, names: Names, amount: float
) -> Iterator[Gate]:
    """Yields that other queues have borrowed cards that the job waits for within the quota of its queue, if they
    have."""
    if plugin.unused(names) >= amount:
        return  # it does not wait for cards
    borrowers = [
        (other.queue.name, borrowed)
        for other in plugin.books()
        if other is not book and (borrowed := sum(borrowed_of(other, card) for card in names)) > 0
    ]
    if not borrowers:
        return
    borrowers.sort(key=lambda item: (-item[1], item[0]))
    listed = ", ".join(f"queue {queue} borrows {format_milli(borrowed)}" for queue, borrowed in borrowers[:_SHOWN])
    if len(borrowers) > _SHOWN:
        listed += (
            f", {len(borrowers) - _SHOWN} more queues borrow {format_milli(sum(b for _, b in borrowers[_SHOWN:]))}"
        )
    limit, used = sum(map(book.limit, names)), sum(book.allocated.get(card, 0.0) for card in names)
    message = (
        f"{format_milli(amount)} {join_names(names)} are within the quota of queue {book.queue.name} "
        f"({format_milli(used)} of {format_milli(limit)} used), but lent: {listed}; {_return(session)}"
    )
    yield Gate(GateKind.QUOTA, message, CapacityCard.name)


def _return(session: Session) -> str:
    """Returns how the cards come back."""
    configured = session.configuration.has_action
    if configured(_GANG_RECLAIM):
        if configured(_RECLAIM):
            return f"the actions {_RECLAIM} and {_GANG_RECLAIM} can take them back"
        return f"the action {_GANG_RECLAIM} can take them back"
    if configured(_RECLAIM):
        return (
            f"the action {_RECLAIM} can take them back from jobs that can spare Pods; whole gangs give them back only "
            f"with the action {_GANG_RECLAIM}"
        )
    return f"no configured action takes them back ({_RECLAIM}, {_GANG_RECLAIM}), so it waits until they end"


def _not_lendable(
    plugin: CapacityCard, book: CardBook, lending: Lending, names: Names, amount: float
) -> Iterator[Gate]:
    """Yields what the job needs beyond the quota of its queue, if it cannot borrow that."""
    if amount <= sum(max(book.room(card), 0.0) for card in names):
        return
    for card in names:
        own = max(book.own_room(card), 0.0)
        shortage = Shortage(card, amount, book.allocated.get(card, 0.0), book.limit(card), "Queue", book.queue.name)
        message = (
            f"{format_milli(amount)} {join_names(names)} needed, {format_milli(own)} {card} left of the quota of queue "
            f"{book.queue.name}; {_why_not_more(book, lending, card)}"
        )
        yield Gate(GateKind.QUOTA, message, plugin.name, (shortage,))


def _why_not_more(book: CardBook, lending: Lending, card: str) -> str:
    """Returns what the queue could borrow of a card, and where the rest of the quotas is."""
    obstacle = lending.obstacle(book, card)
    if obstacle:
        return f"it may not borrow, because {obstacle}"
    its = lending.lendable(book, card)
    limit = book.borrowing_limits.get(card)
    taken = max(book.allocated.get(card, 0.0) - book.limit(card), 0.0)
    can = its.amount if limit is None else max(min(its.amount, limit - taken), 0.0)
    parts = [f"{format_milli(its.used)} used"]
    for number, what in (
        (its.needed, "reserved or waited for"),
        (its.kept, "kept by lending limits"),
        (its.borrowed, "borrowed by other queues"),
    ):
        if number:
            parts.append(f"{format_milli(number)} {what}")
    text = f"{format_milli(can)} more can be borrowed: of the quota of {format_milli(its.quota)} of other queues, "
    text += ", ".join(parts)
    if its.missing:
        text += f"; nodes have {format_milli(its.missing)} less than all quotas"
    if limit is not None:
        text += f"; the queue may borrow {format_milli(limit)} and has borrowed {format_milli(taken)}"
    return text
