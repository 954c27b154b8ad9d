"""What queues have borrowed and lent of each card, for reports.

A queue has borrowed what its Pods hold beyond its quota. The lenders are the queues with idle quota. Cards have no
owner, so a lender's part is computed: the borrowed cards are divided among the lenders in proportion to what each may
lend, in whole cards.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from scheduler.api.cards import MILLI
from scheduler.api.queue import Queue
from scheduler.plugins.capacity_card.holdings import Amounts


class Loan(NamedTuple):
    """What a queue has borrowed and lent of a card, in thousandths."""

    borrowed: float
    lent: float


NO_LOAN: Final = Loan(0.0, 0.0)
LoansByQueue = dict[str, dict[str, Loan]]
"""Queue -> card -> what it has borrowed and lent."""


class LoanBook(Protocol):
    """What loans need of the book of a queue."""

    queue: Queue
    limits: Amounts
    lending_limits: Amounts

    def limit(self, name: str) -> float: ...
    def held(self, name: str) -> float: ...


def loans(books: Iterable[LoanBook], cards: Iterable[str]) -> LoansByQueue:
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


def borrowed_of(book: LoanBook, card: str) -> float:
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
