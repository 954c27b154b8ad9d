"""The cards of one model in the whole cluster: how many the quotas of the queues grant, and how many the nodes have.

Quotas may add up to more cards than exist: the upper layer that gives quotas may be wrong or oversell cards, a node may
leave or fail. ``problem_of`` decides what is wrong. The scheduler (statuses, Events, metrics) and the admission of
queues use the same definitions. Amounts are in thousandths.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from scheduler.api.quantity import format_milli


class CardTotals(NamedTuple):
    """The amounts of one card model."""

    granted: float = 0.0
    """The sum of the quotas of all queues (``totalGuarantee`` in the published design)."""
    existing: float = 0.0
    """What the nodes have, healthy or not: their capacity."""
    allocatable: float = 0.0
    """What the nodes offer to Pods (``totalResource`` in the published design)."""
    healthy: float = 0.0
    """The allocatable amount of the nodes that are ready."""
    used: float = 0.0
    """What the Pods on these nodes hold, of all queues or of none."""
    listed: bool = False
    """Whether the quota of a queue lists the card, even with the number 0."""

    @property
    def elastic(self) -> float:
        """The allocatable amount that no quota grants."""
        return max(self.allocatable - self.granted, 0.0)

    @property
    def numbers(self) -> str:
        """The amounts that decide about problems: ``11 granted, 10 existing, 10 healthy``."""
        amounts = {"granted": self.granted, "existing": self.existing, "healthy": self.healthy}
        return ", ".join(f"{format_milli(amount)} {what}" for what, amount in amounts.items())


NO_TOTALS: Final = CardTotals()
"""Of a card that no node has and no quota lists."""


class QuotaProblem(StrEnum):
    """What is wrong with the quotas of a card. The values are reasons of Events, and values of the label ``problem`` of
    metrics."""

    NOT_FOUND = "CardNotFound"
    """A quota names a card that no node has."""
    OVER_GRANTED = "CardOverGranted"
    """The quotas add up to more cards than exist."""
    UNHEALTHY = "CardUnhealthy"
    """The quotas add up to more cards than are healthy, though not to more than exist."""
    NOT_GRANTED = "CardNotGranted"
    """The card exists, and no queue may use it."""


PROBLEM_TEXTS: Final = {
    QuotaProblem.NOT_FOUND: "no node has the card {!r}",
    QuotaProblem.OVER_GRANTED: "the quotas of all queues add up to more cards than the nodes have",
    QuotaProblem.UNHEALTHY: "the quotas of all queues add up to more cards than are healthy",
    QuotaProblem.NOT_GRANTED: "the nodes have this card, and no queue has quota of it",
}
"""What is wrong, with a place for the name of the card."""


def problem_of(totals: CardTotals) -> QuotaProblem | None:
    """Returns what is wrong with the quotas of a card; None: nothing."""
    if totals.listed and not totals.existing:
        return QuotaProblem.NOT_FOUND
    if totals.granted > totals.existing:
        return QuotaProblem.OVER_GRANTED
    if totals.granted > totals.healthy:
        return QuotaProblem.UNHEALTHY
    return QuotaProblem.NOT_GRANTED if totals.existing and not totals.granted else None


def problem_of_queue(totals: CardTotals, quota: float) -> QuotaProblem | None:
    """Returns the problem of a card that concerns a queue whose quota lists it. A queue with the number 0 does not
    contribute to over-granting."""
    problem = problem_of(totals)
    return problem if quota or problem is QuotaProblem.NOT_FOUND else None
