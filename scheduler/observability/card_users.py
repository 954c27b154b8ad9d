"""Gauges of the cards in use, by queue, namespace and workload."""

from collections.abc import Iterable, Mapping

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler.api.cards import MILLI
from scheduler.api.names import NO_QUEUE, OFFLINE, ONLINE
from scheduler.framework.figures import CardsByUser, CardUser


class CardUserFigures(Collector):
    """The gauges, in whole cards. They are built when metrics are scraped."""

    def __init__(self) -> None:
        self._used: Mapping[tuple[str, str, str, str], float] = {}
        """Card, queue, namespace and workload -> number."""

    def update(self, used: CardsByUser) -> None:
        """``used``: what the plugins of a session report (``Session.cards_in_use``)."""
        self._used = {
            (card, *labels_of(user)): amount / MILLI for user, cards in used.items() for card, amount in cards.items()
        }

    def collect(self) -> Iterable[GaugeMetricFamily]:
        used = GaugeMetricFamily(
            "volcano_py_used_cards",
            "Cards that Pods hold until they end or are deleted, by queue, namespace and workload: online (services, "
            "such as inference) or offline (work that ends, such as training)",
            labels=["card", "queue_name", "namespace_name", "workload"],
        )
        for labels, number in sorted(self._used.items()):
            used.add_metric(labels, number)
        return (used,)


def labels_of(user: CardUser) -> tuple[str, str, str]:
    """The values of the labels ``queue_name``, ``namespace_name`` and ``workload``."""
    return user.queue or NO_QUEUE, user.namespace, ONLINE if user.online else OFFLINE
