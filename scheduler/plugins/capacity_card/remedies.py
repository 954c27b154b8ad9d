"""A remedy: larger card quotas of the job's queue, for each model that its Pods need or, if they accept several, for
one of them."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from scheduler.api.cards import MILLI, Names
from scheduler.api.kinds import QUEUE
from scheduler.api.names import CARD_QUOTA
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Edit, Plan, Raw, Step
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.registry import remedies
from scheduler.plugins.capacity_card.books import CardBook
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
