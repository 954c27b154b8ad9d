"""How the plugin says no, in the words of the published design where it has some: numbers are in thousandths."""

from collections.abc import Sequence

from scheduler.api.names import CPU, MEMORY
from scheduler.api.quantity import format_milli
from scheduler.api.reasons import Shortage
from scheduler.plugins.capacity_card.books import QueueBook
from scheduler.plugins.capacity_card.demand import Part


def shortages_of_part(book: QueueBook, part: Part, usable: Sequence[str]) -> list[Shortage]:
    """What there is too little of for a resource that a task asks for. ``usable``: the cards of which the queue has any
    quota."""
    if not part.named and not usable:
        taken = sum(map(book.used, part.cards))
        return [Shortage(part.resource, part.amount, taken, 0.0, "Queue", book.queue.name)]
    written = dict(zip(part.cards, part.written, strict=True)) if part.named else {}
    return [shortage_of(book, card, written.get(card, card), part.amount) for card in usable or part.cards]


def shortage_of(book: QueueBook, name: str, written: str, amount: float) -> Shortage:
    """``written``: what people call the dimension."""
    return Shortage(written, amount, book.used(name), book.limit(name), "Queue", book.queue.name)


def insufficient(book: QueueBook, shortage: Shortage) -> str:
    """The sentence of the published design."""
    note = "" if shortage.resource in (CPU, MEMORY) else book.note
    asked, total = shortage.asked, shortage.asked + shortage.used
    return (
        f"Queue <{book.queue.name}> has insufficient <{shortage.resource}> quota: requested <{asked:.0f}>, "
        f"total would be <{total:.0f}>, but capability is <{shortage.limit:.0f}>{note}"
    )


def used_up(book: QueueBook, card: str, part: Part) -> str:
    """Why nodes of a card are refused."""
    numbers = ((w, format_milli(a)) for w, a in (("asked", part.amount), ("used", book.used(card))))
    told = ", ".join(f"{what} {amount}" for what, amount in numbers)
    quota = format_milli(book.limit(card))
    return f"node(s) had card {card}, quota of which is used up in queue {book.queue.name} ({told}, quota {quota})"
