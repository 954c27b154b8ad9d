"""Borrowing of idle card quota between queues, and who gives back (argument ``cardBorrowing``).

A queue may use more cards of a model than its quota while other queues leave theirs idle. A queue's own Pods come
first: what they use and wait for, up to its quota, is not lent. A queue that waits for cards that others have borrowed
reclaims them with the actions ``reclaim`` and ``gangreclaim``. Annotations limit how much a queue borrows and lends.

For reports, a queue has borrowed what its Pods hold beyond its quota. The lenders are the queues with idle quota. Cards
have no owner, so a lender's part is computed: the borrowed cards are divided among the lenders in proportion to what
each may lend, in whole cards.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from scheduler.api.cards import MILLI
from scheduler.api.queue import Queue
from scheduler.plugins.capacity_card.holdings import Amounts
from scheduler.plugins.capacity_card.totals import granted_cards


class LendingBook(Protocol):
    """What lending and loans need of the book of a queue."""

    queue: Queue
    limits: Amounts
    borrowing_limits: Amounts
    lending_limits: Amounts
    allocated: Amounts
    uncertain: Amounts
    inqueue: Amounts

    def limit(self, name: str) -> float: ...
    def held(self, name: str) -> float: ...
    def used(self, name: str) -> float: ...
    def pending(self, card: str) -> float: ...


class Lendable(NamedTuple):
    """What a queue can borrow of a card, and where the rest of the other queues' quotas is, in thousandths."""

    amount: float
    quota: float
    """The sum over all other queues."""
    used: float
    """Used by the queues of these quotas, within them."""
    needed: float
    """Reserved in these quotas, or waited for."""
    kept: float
    """Not lent because of lending limits."""
    borrowed: float
    """Borrowed already, by other queues."""
    missing: float
    """How many cards the nodes have less than all quotas add up to."""


class Lending:
    """The quotas of a session as one stock per model of card. Amounts are in thousandths of a card."""

    def __init__(
        self, books: Mapping[str, LendingBook], cards: Mapping[str, float], canonical: Callable[[str], str]
    ) -> None:
        """``cards``: how many the nodes have of each model. Quotas of more cards than exist lend what exists.
        ``canonical``: returns the name of a card on nodes."""
        self.canonical = canonical
        self._books = list(books.values())
        granted = granted_cards(book.limits for book in self._books)
        self._stock = {card: min(quota, cards.get(card, 0.0)) for card, quota in granted.items()}

    def room(self, book: LendingBook, card: str, *, now: bool) -> float:
        """Returns how much more of a card a queue may use, from its own quota and that of others; negative infinity if
        it may not borrow: if its quota does not list the card, or if nothing can be reclaimed from it."""
        if not self._may_borrow(book, card):
            return float("-inf")
        others = sum(_claim(other, card, now=now) for other in self._books if other is not book)
        use = _use(book, card, now=now)
        return min(self._stock[card] - others, _ceiling(book, card)) - use

    def admission_room(self, book: LendingBook, card: str) -> float:
        """Returns the same for what can be reserved. What other queues have reserved is not lent, even beyond their
        quota: otherwise more jobs would be admitted than can be placed."""
        if not self._may_borrow(book, card):
            return float("-inf")
        others = sum(
            max(_claim(other, card, now=False), _use(other, card, now=False) + other.inqueue.get(card, 0.0))
            for other in self._books
            if other is not book
        )
        return min(self._stock[card] - others, _ceiling(book, card)) - _use(book, card, now=False)

    def lendable(self, book: LendingBook, card: str) -> Lendable:
        """Returns what a queue can borrow of a card, beyond what it has borrowed, without its borrowing limit."""
        others = [other for other in self._books if other is not book]
        quota = sum(other.limit(card) for other in others)
        used = sum(min(_use(other, card, now=False), other.limit(card)) for other in others)
        borrowed = sum(max(_use(other, card, now=False) - other.limit(card), 0.0) for other in others)
        needed = sum(min(_use(o, card, now=False) + _wanted(o, card), o.limit(card)) for o in others) - used
        claimed = sum(_claim(other, card, now=False) for other in others)
        stock = self._stock.get(card, 0.0)
        own = max(book.limit(card), _use(book, card, now=False))
        return Lendable(
            amount=max(stock - claimed - own, 0.0),
            quota=quota,
            used=used,
            needed=needed,
            kept=claimed - borrowed - used - needed,
            borrowed=borrowed,
            missing=quota + book.limit(card) - stock,
        )

    def obstacle(self, book: LendingBook, card: str) -> str:
        """Returns why a queue may not borrow a card at all, or ""."""
        if card not in book.limits:
            return f"its quota does not list {card}"
        return "" if book.queue.reclaimable else "it is not reclaimable"

    def _may_borrow(self, book: LendingBook, card: str) -> bool:
        return card in self._stock and not self.obstacle(book, card)


def _ceiling(book: LendingBook, card: str) -> float:
    """Returns how much a queue may use, borrowed cards included."""
    return book.limit(card) + book.borrowing_limits.get(card, float("inf"))


def _use(book: LendingBook, card: str, *, now: bool) -> float:
    return book.used(card) if now else book.allocated.get(card, 0.0) + book.uncertain.get(card, 0.0)


def _claim(book: LendingBook, card: str, *, now: bool) -> float:
    """Returns the number of a card that a queue does not lend: used ones; within its quota, reserved ones and those
    that its Pods wait for; and those that its lending limit keeps."""
    use, limit = _use(book, card, now=now), book.limit(card)
    kept = limit - book.lending_limits.get(card, float("inf"))
    return max(use, min(limit, max(use + _wanted(book, card), kept)))


def _wanted(book: LendingBook, card: str) -> float:
    """Returns what a queue has reserved, or its Pods wait for."""
    return max(book.pending(card), book.inqueue.get(card, 0.0))


class Loan(NamedTuple):
    """What a queue has borrowed and lent of a card, in thousandths."""

    borrowed: float
    lent: float


NO_LOAN: Final = Loan(0.0, 0.0)
LoansByQueue = dict[str, dict[str, Loan]]
"""Queue -> card -> what it has borrowed and lent."""


def loans(books: Iterable[LendingBook], cards: Iterable[str]) -> LoansByQueue:
    """Returns the loans of these cards. Queues without any are left out."""
    ordered = sorted(books, key=lambda book: book.queue.name)
    found: LoansByQueue = {}
    for card in cards:
        borrowed = [borrowed_of(book, card) for book in ordered]
        total = sum(borrowed)
        if not total:
            continue
        idle = [
            min(max(book.limit(card) - book.held(card), 0.0), book.lending_limits.get(card, float("inf")))
            for book in ordered
        ]
        for book, its, lent in zip(ordered, borrowed, _divided(total, idle), strict=True):
            if its or lent:
                found.setdefault(book.queue.name, {})[card] = Loan(its, lent)
    return found


def borrowed_of(book: LendingBook, card: str) -> float:
    """Returns what the Pods of a queue hold beyond its quota."""
    return max(book.held(card) - book.limit(card), 0.0)


def _divided(total: float, shares: Sequence[float]) -> list[float]:
    """Divides a number of cards in proportion to shares, in whole cards and at most the share each. The largest
    remainders are rounded up; of equal ones, the first."""
    whole = sum(shares)
    if total >= whole:
        return list(shares)
    exact = [total * share / whole for share in shares]
    parts = [each // MILLI * MILLI for each in exact]
    by_remainder = sorted(range(len(shares)), key=lambda i: parts[i] - exact[i])
    for i in by_remainder[: round((total - sum(parts)) / MILLI)]:
        parts[i] += MILLI
    return parts
