"""Gauges that compare the card quotas of all queues with the cards of the nodes, and the guaranteed and elastic cards
of each queue (plugin capacity-card)."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler.api.card_totals import CardTotals, QuotaProblem, problem_of
from scheduler.api.cards import MILLI
from scheduler.framework.figures import Figures, UsageByQueue
from scheduler.observability.session_figures import gauge

_TOTALS = {
    "granted": "Cards that the quotas of all queues grant (totalGuarantee)",
    "existing": "Cards of all nodes, healthy or not",
    "allocatable": "Cards that all nodes offer to Pods (totalResource)",
    "healthy": "Cards that nodes which are ready offer to Pods",
    "used": "Cards that Pods hold, of all queues or of none",
    "elastic": "Allocatable cards that no quota grants",
}
"""Field of ``CardTotals`` -> the text of its metric."""
_AMOUNTS = {
    "guarantee": ("guaranteed", "Cards that the cluster keeps for a queue: its quota"),
    "elastic": ("elastic", "Cards that the jobs of a queue hold beyond their minimum"),
}
"""Field of ``QueueUsage`` -> the word in the name of its metric, and its text."""


class CardTotalFigures(Collector):
    """The gauges, in whole cards. They are built when metrics are scraped."""

    def __init__(self, shard: str = "") -> None:
        """``shard``: name of the scheduler's shard, if there are several: its queues have quotas of its nodes."""
        self._shard = shard
        self._totals: Mapping[str, CardTotals] = {}
        self._usage: UsageByQueue = {}

    def update(self, figures: Iterable[Figures], usage: UsageByQueue = MappingProxyType({})) -> None:
        """``figures``, ``usage``: what the plugins of a session report."""
        self._totals = {card: its for one in figures for card, its in one.cards.items()}
        self._usage = usage

    def collect(self) -> Iterable[GaugeMetricFamily]:
        totals, usage = self._totals, self._usage
        for field, text in _TOTALS.items():
            values = [((card, self._shard), getattr(its, field) / MILLI) for card, its in totals.items()]
            yield gauge(f"volcano_py_cards_{field}", text, ["card", "shard"], values)
        listed = [((queue, card), its) for queue, by_name in sorted(usage.items()) for card, its in by_name.items()]
        for field, (word, text) in _AMOUNTS.items():
            amounts = [(key, amount / MILLI) for key, its in listed if (amount := getattr(its, field)) is not None]
            yield gauge(f"volcano_py_queue_{word}_cards", text, ["queue_name", "resource"], amounts)
        shard = self._shard
        problems = [
            ((its.problem, queue, card, shard), 1.0) for (queue, card), its in listed if its.problem is not None
        ]
        unused = [card for card, its in totals.items() if problem_of(its) is QuotaProblem.NOT_GRANTED]
        problems += [((QuotaProblem.NOT_GRANTED, "", card, shard), 1.0) for card in unused]
        yield gauge(
            "volcano_py_card_quota_problem",
            "1 for each queue and card whose quota has a problem (CardNotFound, CardOverGranted, CardUnhealthy), and "
            "for each card that no queue may use (CardNotGranted, without a queue)",
            ["problem", "queue_name", "card", "shard"],
            problems,
        )
