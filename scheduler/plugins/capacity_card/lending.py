"""Borrowing of idle card quota between queues, and who gives back (argument ``cardBorrowing``).

A queue may use more cards of a model than its quota while other queues leave theirs idle. A queue's own Pods come
first: what they use and wait for, up to its quota, is not lent. A queue that waits for cards that others have borrowed
reclaims them with the actions ``reclaim`` and ``gangreclaim``.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from scheduler.api.names import CPU, MEMORY
from scheduler.api.queue import Queue
from scheduler.plugins.capacity_card.holdings import Amounts, add


class Book(Protocol):
    """What lending needs of the book of a queue."""

    queue: Queue
    limits: Amounts
    allocated: Amounts
    inqueue: Amounts

    def limit(self, name: str) -> float: ...
    def used(self, name: str) -> float: ...
    def pending(self, card: str) -> float: ...


class Lending:
    """The quotas of a session as one stock per model of card. Amounts are in thousandths of a card."""

    def __init__(self, books: Mapping[str, Book], cards: Mapping[str, float], canonical: Callable[[str], str]) -> None:
        """``cards``: how many the nodes have of each model. Quotas of more cards than exist lend what exists.
        ``canonical``: returns the name of a card on nodes."""
        self.canonical = canonical
        self._books = list(books.values())
        quotas: Amounts = {}
        for book in self._books:
            add(quotas, ((name, limit) for name, limit in book.limits.items() if name not in (CPU, MEMORY)))
        self._stock = {card: min(quota, cards.get(card, 0.0)) for card, quota in quotas.items()}

    def room(self, book: Book, card: str, *, now: bool) -> float:
        """Returns how much more of a card a queue may use, from its own quota and that of others; negative infinity if
        it may not borrow: if its quota does not list the card, or if nothing can be reclaimed from it."""
        if not self._may_borrow(book, card):
            return float("-inf")
        others = sum(_claim(other, card, now=now) for other in self._books if other is not book)
        return self._stock[card] - others - _use(book, card, now=now)

    def admission_room(self, book: Book, card: str) -> float:
        """The same for what can be reserved. What other queues have reserved is not lent, even beyond their quota:
        otherwise more jobs would be admitted than can be placed."""
        if not self._may_borrow(book, card):
            return float("-inf")
        others = sum(
            max(_claim(other, card, now=False), other.allocated.get(card, 0.0) + other.inqueue.get(card, 0.0))
            for other in self._books
            if other is not book
        )
        return self._stock[card] - others - book.allocated.get(card, 0.0)

    def idle(self, card: str) -> float:
        """Returns how much of a card can be borrowed."""
        claimed = sum(_claim(book, card, now=False) for book in self._books)
        return max(self._stock.get(card, 0.0) - claimed, 0.0)

    def _may_borrow(self, book: Book, card: str) -> bool:
        return card in self._stock and card in book.limits and book.queue.reclaimable


def _use(book: Book, card: str, *, now: bool) -> float:
    return book.used(card) if now else book.allocated.get(card, 0.0)


def _claim(book: Book, card: str, *, now: bool) -> float:
    """What a queue does not lend: what it uses, and within its quota what it has reserved or its Pods wait for."""
    use = _use(book, card, now=now)
    return max(use, min(book.limit(card), use + max(book.pending(card), book.inqueue.get(card, 0.0))))
