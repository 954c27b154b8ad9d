"""The shares of queues, jobs and namespaces that plugins compute, for dashboards, under Volcano's names."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler.api.job import without_uid
from scheduler.api.queue import Queue
from scheduler.api.resource import Dimensions, Vector
from scheduler.framework.figures import Figures, UsageByQueue
from scheduler.framework.session import Session
from scheduler.observability.metric_families import amount_families, gauge

_QUEUE = ["queue_name"]
_NAMESPACE = ["namespace_name"]


class _Shares(NamedTuple):
    """The reports of the plugins of one session."""

    figures: Sequence[Figures]
    """The figures of all plugins; later ones override earlier ones."""
    queues: Mapping[str, Queue]
    deserved: Mapping[str, Vector]
    """Queue -> the amounts that it deserves, as in ``Session``."""
    dimensions: Dimensions
    usage: UsageByQueue
    """What plugins limit by name."""


class ShareFigures(Collector):
    """Gauges of the shares of queues, jobs and namespaces that plugins compute. Deleted objects disappear."""

    def __init__(self) -> None:
        self._reported: _Shares | None = None

    def update(self, session: Session, figures: Sequence[Figures], usage: UsageByQueue = MappingProxyType({})) -> None:
        """``figures``, ``usage``: what the plugins of the session report."""
        self._reported = _Shares(figures, session.queues, session.deserved(), session.dimensions, usage)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        if self._reported is None:
            return
        yield from _queue_shares(self._reported)
        figures = self._reported.figures
        jobs = [((namespace, without_uid(name)), share) for one in figures for namespace, name, share in one.jobs]
        yield gauge("volcano_job_share", "Dominant share of a job", ["job_ns", "job_id"], jobs)
        yield from _namespace_shares(figures)


def _queue_shares(reported: _Shares) -> Iterable[GaugeMetricFamily]:
    figures, queues, deserved, dimensions, usage = reported
    queue_figures = {name: its for one in figures for name, its in one.queues.items() if name in queues}
    shares = {name: its for one in figures for name, its in one.shares.items() if name in queues}
    ordered = sorted((shares | queue_figures).items())
    share = [((name,), its.share) for name, its in ordered]
    yield gauge("volcano_queue_share", "Part in use of what a queue deserves", _QUEUE, share)
    overused = [((name,), int(its.overused)) for name, its in ordered]
    yield gauge("volcano_queue_overused", "1 if a queue has its share in use", _QUEUE, overused)
    listed = {name: its for name, its in deserved.items() if name in queue_figures or its.any()}
    yield from amount_families("deserved", "What a queue deserves", listed, dimensions, usage, "limit")
    for word, text, amounts, figure in (
        (
            "real_capacity",
            "The most that a queue may have now",
            {name: its.limit for name, its in queue_figures.items()},
            "limit",
        ),
        (
            "inqueue",
            "What admitted jobs still lack of their minimum",
            {name: its.inqueue for name, its in queue_figures.items()},
            "inqueue",
        ),
    ):
        yield from amount_families(word, text, amounts, dimensions, usage, figure)


def _namespace_shares(figures: Sequence[Figures]) -> Iterable[GaugeMetricFamily]:
    ordered = sorted(item for one in figures for item in one.namespaces.items())
    for word, text, values in (
        ("share", "Dominant share of a namespace", [((name,), its.share) for name, its in ordered]),
        ("weight", "Weight of a namespace", [((name,), its.weight) for name, its in ordered]),
        ("weighted_share", "Its share by its weight", [((name,), its.share / its.weight) for name, its in ordered]),
    ):
        yield gauge(f"volcano_namespace_{word}", text, _NAMESPACE, values)
