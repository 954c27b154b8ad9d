"""Larger card quotas of the job's queue: of each model that its Pods lack or, where they leave a choice, of one of the
models."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from scheduler.api.kinds import QUEUE
from scheduler.api.names import CARD_QUOTA
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Edit, Plan, Raw, Step
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.registry import remedies
from scheduler.plugins.capacity_card.books import QueueBook
from scheduler.plugins.capacity_card.plugin import CapacityCard
from scheduler.plugins.capacity_card.quota import MILLI, Names

_SPARE: Final = 4
_CHOICES: Final = 4
"""So many models of those that Pods may choose from are tried."""


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
            if adjustment is not None and (card not in adjustments or adjustment.guess > adjustments[card].guess):
                adjustments[card] = adjustment
        if adjustments and tuple(adjustments) not in known:
            known.add(tuple(adjustments))
            yield tuple(adjustments.values())


def _adjustment(
    evidence: Evidence, plugin: CapacityCard, book: QueueBook, names: Names, card: str, amount: float
) -> Adjustment | None:
    """More of one of the cards that would do for an amount; None: there is enough of it."""
    left = book.room_for_promises if evidence.job.waiting_for_queue else book.room
    missing = amount - left(card)
    if missing <= 0:
        return None
    elsewhere = sum(max(left(other), 0.0) for other in names if other != card)
    guess = _cards(missing - elsewhere if missing > elsewhere else missing)
    most = _SPARE * _cards(missing) + _cards(book.pending.get(card, 0.0))
    change = partial(_with_cards, evidence, plugin, book, card)
    return Adjustment(ChangeKind.CARD_QUOTA, guess, most, change, f"{book.queue.name} {card}")


def _cards(amount: float) -> int:
    """Whole cards of an amount in thousandths."""
    return int(-(-amount // MILLI))


def _with_cards(evidence: Evidence, plugin: CapacityCard, book: QueueBook, card: str, degree: int) -> Step:
    then = int(book.limit(card)) // MILLI + degree
    key = next((name for name in _written(book.queue.annotations) if plugin.canonical(name) == card), card)

    def raised(raw: Raw) -> Raw:
        annotations = raw["metadata"].get("annotations") or {}
        quota = {**_written(annotations), key: then}
        raw["metadata"]["annotations"] = {**annotations, CARD_QUOTA: json.dumps(quota)}
        return raw

    text = f"queue {book.queue.name} needs {degree} {key} more in its card quota ({then} in all)"
    return Step(text, (Edit(QUEUE, "", book.queue.name, raised),))


def _written(annotations: dict[str, str]) -> dict[str, Any]:
    """The card quota as it is written; nothing of one that cannot be read."""
    try:
        quota = json.loads(annotations.get(CARD_QUOTA, "{}"))
    except (ValueError, RecursionError):
        return {}
    return quota if isinstance(quota, dict) else {}
