"""Shares of queues, jobs and namespaces, under Volcano's names, computed from the last session when metrics are
scraped."""

from collections.abc import Iterable, Mapping, Sequence

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler.api.queue import Queue
from scheduler.api.resource import Dimensions
from scheduler.framework.figures import Figures
from scheduler.observability.session_figures import amount_families

_QUEUE = ["queue_name"]
_NAMESPACE = ["namespace_name"]


class ShareFigures(Collector):
    """Gauges of the figures of plugins. They are replaced as a whole, so a scrape never sees half of a session, and
    deleted objects disappear."""

    def __init__(self) -> None:
        self._reported: tuple[Sequence[Figures], Mapping[str, Queue], Dimensions] | None = None

    def update(self, figures: Sequence[Figures], queues: Mapping[str, Queue], dimensions: Dimensions) -> None:
        """``figures``: of all plugins of a session; later ones override earlier ones. ``queues``: those of the
        session."""
        self._reported = figures, queues, dimensions

    def collect(self) -> Iterable[GaugeMetricFamily]:
        if self._reported is None:
            return
        figures, queues, dimensions = self._reported
        yield from _queues(figures, queues, dimensions)
        jobs = GaugeMetricFamily("volcano_job_share", "Dominant share of a job", labels=["job_ns", "job_id"])
        for namespace, name, share in (job for one in figures for job in one.jobs):
            jobs.add_metric([namespace, name], share)
        yield jobs
        yield from _namespaces(figures)


def _queues(
    figures: Sequence[Figures], queues: Mapping[str, Queue], dimensions: Dimensions
) -> Iterable[GaugeMetricFamily]:
    queue_figures = {name: its for one in figures for name, its in one.queues.items() if name in queues}
    share = GaugeMetricFamily("volcano_queue_share", "Part in use of what a queue deserves", labels=_QUEUE)
    overused = GaugeMetricFamily("volcano_queue_overused", "1 if a queue has its share in use", labels=_QUEUE)
    for name, its in sorted(queue_figures.items()):
        share.add_metric([name], its.share)
        overused.add_metric([name], int(its.overused))
    yield share
    yield overused
    deserved = {name: queue.deserved for name, queue in queues.items() if queue.deserved.any()}
    deserved |= {name: its.deserved for name, its in queue_figures.items()}
    yield from amount_families("deserved", "What a queue deserves", deserved, dimensions)
    for word, text, amounts in (
        (
            "real_capacity",
            "The most that a queue may have now",
            {name: its.limit for name, its in queue_figures.items()},
        ),
        (
            "inqueue",
            "What jobs let in still lack of their minimum",
            {name: its.inqueue for name, its in queue_figures.items()},
        ),
    ):
        yield from amount_families(word, text, amounts, dimensions)


def _namespaces(figures: Sequence[Figures]) -> Iterable[GaugeMetricFamily]:
    share = GaugeMetricFamily("volcano_namespace_share", "Dominant share of a namespace", labels=_NAMESPACE)
    weight = GaugeMetricFamily("volcano_namespace_weight", "Weight of a namespace", labels=_NAMESPACE)
    weighted = GaugeMetricFamily("volcano_namespace_weighted_share", "Its share by its weight", labels=_NAMESPACE)
    for name, its in sorted(item for one in figures for item in one.namespaces.items()):
        share.add_metric([name], its.share)
        weight.add_metric([name], its.weight)
        weighted.add_metric([name], its.share / its.weight)
    return share, weight, weighted
