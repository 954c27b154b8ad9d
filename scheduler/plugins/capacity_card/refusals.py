"""The refusals of the plugin, with the wording of the published design. Numbers are in thousandths."""

from collections.abc import Sequence

from scheduler.api.names import CPU, MEMORY
from scheduler.api.quantity import format_milli
from scheduler.api.reasons import Shortage
from scheduler.plugins.capacity_card.books import CardBook
from scheduler.plugins.capacity_card.demand import CardsOfTask, join_names


def card_shortages(book: CardBook, card_request: CardsOfTask, usable: Sequence[str]) -> list[Shortage]:
    """Returns the shortages for a card request. ``usable``: the acceptable cards that the queue has quota of."""
    if not usable and (len(card_request.cards) > 1 or not card_request.named):
        taken = sum(map(book.used, card_request.cards))
        return [Shortage(join_names(card_request.written), card_request.amount, taken, 0.0, "Queue", book.queue.name)]
    written = dict(zip(card_request.cards, card_request.written, strict=True)) if card_request.named else {}
    return [
        shortage_of(book, card, written.get(card, card), card_request.amount) for card in usable or card_request.cards
    ]


def shortage_of(book: CardBook, name: str, written: str, amount: float) -> Shortage:
    """Returns how much a queue lacks of a dimension. ``written``: the name of the dimension in messages."""
    return Shortage(written, amount, book.used(name), book.limit(name), "Queue", book.queue.name)


def insufficient(book: CardBook, shortage: Shortage) -> str:
    """Returns the message of the published design."""
    note = (
        ""
        if shortage.resource in (CPU, MEMORY)
        else book.note + _uncertain(book, shortage.resource) + _idle_quota(book, shortage.resource)
    )
    asked, total = shortage.asked, shortage.asked + shortage.used
    return (
        f"Queue <{book.queue.name}> has insufficient <{shortage.resource}> quota: requested <{asked:.0f}>, "
        f"total would be <{total:.0f}>, but capability is <{shortage.limit:.0f}>{note}"
    )


def _uncertain(book: CardBook, card: str) -> str:
    amount = book.uncertain.get(card, 0.0)
    return f"; <{amount:.0f}> of these may be other cards, because nodes do not say which they have" if amount else ""


def _idle_quota(book: CardBook, written: str) -> str:
    """Returns what the queue could borrow of a card; "" if queues do not borrow, or if the Pods accept several
    cards."""
    lending = book.lending
    card = "" if lending is None else lending.canonical(written)
    if lending is None or card not in book.limits:
        return ""
    obstacle = lending.obstacle(book, card)
    if obstacle:
        return f"; it may not borrow, because {obstacle}"
    limit = book.borrowing_limits.get(card)
    limited = "" if limit is None else f", borrowing limit: <{limit:.0f}>"
    return f"; idle quota of queues: <{lending.lendable(book, card).amount:.0f}>{limited}"


def quota_exhausted(book: CardBook, card: str, card_request: CardsOfTask) -> str:
    """Returns why nodes with a card are refused."""
    numbers = ((w, format_milli(a)) for w, a in (("asked", card_request.amount), ("used", book.used(card))))
    listed = ", ".join(f"{what} {amount}" for what, amount in numbers)
    quota = format_milli(book.limit(card))
    return f"node(s) had card {card}, quota of which is used up in queue {book.queue.name} ({listed}, quota {quota})"
