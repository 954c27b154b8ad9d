"""Gauges of the cards in use: by queue, namespace and workload, and by owner for Pods that belong to no queue."""

from collections.abc import Iterable, Mapping
from heapq import nlargest
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler.api.cards import MILLI
from scheduler.api.names import NO_QUEUE, OFFLINE, ONLINE
from scheduler.framework.figures import CardsByUser, CardUser, Figures

OWNERS: Final = 1000
"""Maximum of owners with series of their own. Those with the most cards come first."""


class CardUserFigures(Collector):
    """The gauges, in whole cards. They are built when metrics are scraped."""

    def __init__(self) -> None:
        self._used: Mapping[tuple[str, str, str, str], float] = {}
        """Card, queue, namespace and workload -> number."""
        self._owned: Mapping[tuple[str, str, str, str, str], float] = {}
        """Card, queue, namespace, workload and owner -> number, of Pods without a queue."""
        self._omitted = 0
        """Number of owners without a series."""

    def update(self, used: CardsByUser, figures: Iterable[Figures] = ()) -> None:
        """``used``: what the plugins of a session report (``Session.cards_in_use``); ``figures``: theirs, too."""
        self._used = {
            (card, *labels_of(user)): amount / MILLI for user, cards in used.items() for card, amount in cards.items()
        }

        owned: dict[tuple[str, str, str, str, str], float] = {}
        for each in (owner for one in figures for owner in one.card_owners):
            key = (each.card, *labels_of(each.user), each.owner)
            owned[key] = owned.get(key, 0.0) + each.amount / MILLI
        shown = nlargest(OWNERS, owned, key=lambda key: (owned[key], key))
        self._owned = {key: owned[key] for key in sorted(shown)}
        self._omitted = len(owned) - len(shown)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        used = GaugeMetricFamily(
            "volcano_py_used_cards",
            "Cards that Pods hold until they end or are deleted, by queue, namespace and workload: online (services, "
            "such as inference) or offline (work that ends, such as training)",
            labels=["card", "queue_name", "namespace_name", "workload"],
        )
        for labels, number in sorted(self._used.items()):
            used.add_metric(labels, number)
        owned = GaugeMetricFamily(
            "volcano_py_cards_without_queue",
            "Cards of Pods that belong to no queue, by owner, and the queue that is charged for them, for at most "
            f"{OWNERS} owners",
            labels=["card", "queue_name", "namespace_name", "workload", "owner"],
        )
        for owner, number in self._owned.items():
            owned.add_metric(owner, number)
        omitted = GaugeMetricFamily(
            "volcano_py_cards_without_queue_omitted_owners", "Owners without series in volcano_py_cards_without_queue"
        )
        omitted.add_metric([], self._omitted)
        return (used, owned, omitted)


def labels_of(user: CardUser) -> tuple[str, str, str]:
    """The values of the labels ``queue_name``, ``namespace_name`` and ``workload``."""
    return user.queue or NO_QUEUE, user.namespace, ONLINE if user.online else OFFLINE
