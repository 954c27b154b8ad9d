"""The figures of queues and jobs in the last session for dashboards, under Volcano's names.

The jobs are summed up when the session ends, because the next one changes them; gauges are built when metrics are
scraped. The figures of each collector are replaced as a whole, so a scrape never sees half of a session.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler.api.job import RUNNING, Job, without_uid
from scheduler.api.names import NO_QUEUE
from scheduler.api.queue import COUNTED_PHASE, QUEUE_PHASES, Queue
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, PODS_INDEX, Dimensions, Vector
from scheduler.api.snapshot import SettledJobs
from scheduler.api.task import TaskStatus
from scheduler.framework.charged_namespaces import ChargedPods
from scheduler.framework.figures import Figures, QueueUsage, UsageByQueue
from scheduler.framework.session import Session

_MILLI = 1000
_QUEUE = ["queue_name"]
_NAMESPACE = ["namespace_name"]


class _Scheduled(NamedTuple):
    """A job with Pods that were bound."""

    labels: tuple[str, str, str]
    """Job, queue, namespace."""
    creation: float
    bound: float
    """The time of the last binding."""


class _Session(msgspec.Struct, frozen=True):
    """One session, added up."""

    queues: dict[str, Queue]
    dimensions: Dimensions
    allocated: dict[str, Vector]
    """Queue -> the amounts that it holds, from the plugin that divides the cluster; without such a plugin, the sums
    over the queue's own jobs. ``NO_QUEUE``: what counts in no queue."""
    requested: dict[str, Vector]
    """Queue -> the amounts that it requests, from the same source."""
    usage: UsageByQueue
    cards_without_queue: Mapping[str, QueueUsage]
    """The cards that count in no queue."""
    phases: Counter[tuple[str, str]]
    """(queue, phase) -> number of PodGroups."""
    unplaced: Counter[str]
    """Name of a job -> its Pods that found no place. Jobs of one name in several namespaces are as one."""
    scheduled: Mapping[str, _Scheduled]
    """Key of a job -> its Pods that were scheduled."""


class SessionFigures(Collector):
    """Gauges of queues and jobs."""

    def __init__(self) -> None:
        self._last: _Session | None = None
        self._scheduled: Mapping[str, _Scheduled] = {}
        """Replaced, not changed: metrics may be scraped meanwhile."""

    def update(
        self,
        jobs: Mapping[str, Job],
        queues: Mapping[str, Queue],
        dimensions: Dimensions,
        bound: Mapping[str, float],
        figures: Iterable[Figures] = (),
        usage: UsageByQueue = MappingProxyType({}),
        *,
        active: Mapping[str, Job] | None = None,
        settled: Mapping[str, SettledJobs] = MappingProxyType({}),
        touched: Mapping[Job, Vector] = MappingProxyType({}),
        charged: ChargedPods | None = None,
        without_queue: tuple[Vector, Mapping[str, QueueUsage]] | None = None,
    ) -> tuple[Vector, Vector]:
        """``jobs``: all jobs at the end of the session; ``active``, ``settled``, ``touched``: as in ``Session``, None:
        there are no settled jobs; ``bound``: keys of the jobs with Pods that were bound, and when; ``figures`` and
        ``usage``: what its plugins report; ``charged``: the Pods without a queue; ``without_queue``: the amounts and
        cards that count in no queue, None if they are not known.

        Returns what the jobs of these queues hold, and the Pods without a queue that these are charged for: the online
        ones (``workloads.is_online``) and the others.
        """
        newly = {
            key: _Scheduled((without_uid(job.name), job.queue, job.namespace), job.creation, when)
            for key, when in bound.items()
            if (job := jobs.get(key)) is not None
        }
        if newly:
            self._scheduled = {**self._scheduled, **newly}
        if not self._scheduled.keys() <= jobs.keys():
            self._scheduled = {key: its for key, its in self._scheduled.items() if key in jobs}
        code = {name: i for i, name in enumerate(queues)}
        looked_at = jobs if active is None else active
        queued = [job for job in looked_at.values() if job.queue in code]
        at = np.array([2 * code[job.queue] + job.is_online for job in queued], dtype=np.intp)
        now = [job.allocated - touched[job] if job in touched else job.allocated for job in queued]
        held = _sums(now, at, 2 * len(code), dimensions)
        phases = Counter((job.queue, COUNTED_PHASE.get(job.phase, "unknown")) for job in queued if job not in touched)
        for name, sums in settled.items():
            held[2 * code[name]] += sums.allocated - sums.online
            held[2 * code[name] + 1] += sums.online
            phases[name, COUNTED_PHASE[RUNNING]] += sums.number
        if charged is not None:
            for name in charged.amounts.keys() & code.keys():
                online = charged.online[name]
                held[2 * code[name]] += charged.amounts[name] - online
                held[2 * code[name] + 1] += online
        allocated = held[0::2] + held[1::2]
        waiting = [job for job in queued if TaskStatus.PENDING in job.by_status]
        at = np.array([code[job.queue] for job in waiting], dtype=np.intp)
        pending = _sums([job.pending for job in waiting], at, len(code), dimensions)
        queue_figures = {name: its for one in figures for name, its in one.queues.items() if name in code}
        unplaced: Counter[str] = Counter()
        for job in looked_at.values():
            if job.fit_errors or job.refusals:
                unplaced[job.name] += job.count(TaskStatus.PENDING)
        self._last = _Session(
            queues=dict(queues),
            dimensions=dimensions,
            allocated=dict(zip(code, allocated, strict=True))
            | {name: its.allocated for name, its in queue_figures.items()}
            | ({} if without_queue is None else {NO_QUEUE: without_queue[0]}),
            requested=dict(zip(code, allocated + pending, strict=True))
            | {name: its.request for name, its in queue_figures.items()},
            usage=usage,
            cards_without_queue={} if without_queue is None else without_queue[1],
            phases=phases,
            unplaced=unplaced,
            scheduled=self._scheduled,
        )
        return held[1::2].sum(axis=0), held[0::2].sum(axis=0)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        last = self._last
        if last is None:
            return
        capacity = {name: queue.capability for name, queue in last.queues.items() if queue.has_capability}
        for word, amounts, figure in (
            ("allocated", last.allocated, "used"),
            ("request", last.requested, "requested"),
            ("capacity", capacity, "limit"),
        ):
            usage = last.usage
            if word == "allocated" and last.cards_without_queue:
                usage = {**usage, NO_QUEUE: last.cards_without_queue}
            yield from amount_families(word, f"What is {word} in a queue", amounts, last.dimensions, usage, figure)
        yield from _loan_families(last.usage)
        for phase in QUEUE_PHASES:
            name, text = f"volcano_queue_pod_group_{phase}_count", f"PodGroups of a queue in phase {phase}"
            yield gauge(name, text, _QUEUE, [((queue,), last.phases[queue, phase]) for queue in sorted(last.queues)])
        weights = [((name,), queue.weight) for name, queue in sorted(last.queues.items())]
        yield gauge("volcano_queue_weight", "Weight of a queue", _QUEUE, weights)
        by_name: Counter[str] = Counter()
        for name, number in last.unplaced.items():
            by_name[without_uid(name)] += number
        unplaced = [((name,), number) for name, number in sorted(by_name.items()) if number]
        text = "Pods of a job that the last session could not place"
        yield gauge("volcano_unschedule_task_count", text, ["job_id"], unplaced)
        labels, times = ["job_name", "queue", "job_namespace"], last.scheduled.values()
        for word, text, values in (
            ("start_time", "Creation of a job", [(each.labels, each.creation) for each in times]),
            ("last_time", "Last binding of a job", [(each.labels, each.bound) for each in times]),
            (
                "duration",
                "Milliseconds from creation to last binding",
                [(each.labels, max(0.0, each.bound - each.creation) * 1000) for each in times],
            ),
        ):
            yield gauge(f"volcano_e2e_job_scheduling_{word}", text, labels, values)


def _sums(vectors: Sequence[Vector], at: NDArray[np.intp], number: int, dimensions: Dimensions) -> NDArray[np.float64]:
    """Sums by position: shape (number, resources)."""
    sums = np.zeros((number, dimensions.width))
    if vectors:
        rows = np.concatenate([dimensions.fit(vector) for vector in vectors]).reshape(len(vectors), -1)
        np.add.at(sums, at, rows)
    return sums


def _loan_families(usage: UsageByQueue) -> Iterable[GaugeMetricFamily]:
    """What queues have borrowed and lent, in whole cards; no families if they do not borrow from each other."""
    listed = [((queue, name), its) for queue, by_name in sorted(usage.items()) for name, its in by_name.items()]
    labels = ["queue_name", "resource"]
    borrowed = [(key, its.borrowed / _MILLI) for key, its in listed if its.borrowed is not None]
    lent = [(key, its.lent / _MILLI) for key, its in listed if its.lent is not None]
    if borrowed:
        yield gauge("volcano_py_queue_borrowed_cards", "Cards that a queue uses beyond its quota", labels, borrowed)
        yield gauge("volcano_py_queue_lent_cards", "Cards of a queue's quota that other queues use", labels, lent)


def gauge(
    name: str, text: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float]]
) -> GaugeMetricFamily:
    """A family of gauges. ``values``: the values of the labels, and the value. If several have equal labels, the last
    counts."""
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in {tuple(key): value for key, value in values}.items():
        family.add_metric(key, value)
    return family


def amount_families(
    word: str, text: str, amounts: Mapping[str, Vector], dimensions: Dimensions, usage: UsageByQueue, figure: str
) -> list[GaugeMetricFamily]:
    """``volcano_queue_<word>_...`` in the units their names give, other resources in thousandths. ``amounts``: by
    queue; Pods count as one each; of what is no cpu and no memory, none and no limit are left out. ``usage``: what
    plugins limit by name has series like a resource, with the amount in field ``figure``."""
    prefix = f"volcano_queue_{word}"
    cpu = GaugeMetricFamily(f"{prefix}_milli_cpu", text, labels=["queue_name"])
    memory = GaugeMetricFamily(f"{prefix}_memory_bytes", text, labels=["queue_name"])
    scalar = GaugeMetricFamily(f"{prefix}_scalar_resources", text, labels=["queue_name", "resource"])
    for name, vector in sorted(amounts.items()):
        values = vector.tolist()
        cpu.add_metric([name], values[CPU_INDEX])
        memory.add_metric([name], values[MEMORY_INDEX])
        for resource, value in zip(dimensions.names[PODS_INDEX:], values[PODS_INDEX:], strict=False):
            if value not in (0, float("inf")):
                scalar.add_metric([name, resource], value)
    for name, by_name in sorted(usage.items()):
        for resource, of_queue in by_name.items():
            scalar.add_metric([name, resource], getattr(of_queue, figure))
    return [cpu, memory, scalar]


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
