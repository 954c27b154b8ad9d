"""The scheduler's metrics, under Volcano's names and labels, and a few of our own (``volcano_py_``).

Only figures that the scheduler has are exported: a metric without a source is left out. Amounts are in the units their
names give; resources other than cpu and memory in thousandths, as Volcano has them.
"""

import collections
import threading
from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import ClassVar, Final

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import HistogramMetricFamily, UnknownMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from scheduler.api.decisions import Decisions
from scheduler.api.job import Job, without_uid
from scheduler.api.task import Task
from scheduler.observability.card_figures import CardTotalFigures
from scheduler.observability.card_users import CardUserFigures
from scheduler.observability.cluster_figures import ChipFigures, ClusterFigures, DeviceFigures
from scheduler.observability.role_metrics import RoleMetrics, exponential_buckets
from scheduler.observability.session_figures import SessionFigures, ShareFigures
from scheduler.observability.waiting_figures import WaitingFigures


class AttemptFigures(Collector):
    """Attempts since the process started, for which Volcano uses names without ``_total``. The client library adds that
    suffix to every counter, so these are exported as untyped metrics."""

    def __init__(self) -> None:
        self._preemptions = 0
        self._retries: collections.Counter[str] = collections.Counter()

    def count(self, preemptions: int, unready: Iterable[str], present: Container[str]) -> None:
        """``preemptions``: nodes on which a session tried to preempt; ``unready``: keys of
        the jobs whose gang it left waiting; ``present``: keys of all jobs."""
        self._preemptions += preemptions
        retries = self._retries.copy()
        retries.update(unready)
        self._retries = collections.Counter({key: number for key, number in retries.items() if key in present})

    def collect(self) -> Iterable[UnknownMetricFamily]:
        yield UnknownMetricFamily(
            "volcano_total_preemption_attempts",
            "Nodes on which preempt tried to make room for a Pod",
            value=self._preemptions,
        )
        retries = UnknownMetricFamily(
            "volcano_job_retry_counts", "Sessions that left the gang of a job waiting", labels=["job_id"]
        )
        by_name: collections.Counter[str] = collections.Counter()
        for key, number in self._retries.items():
            by_name[without_uid(key.partition("/")[2])] += number
        for name, number in sorted(by_name.items()):
            retries.add_metric([name], number)
        yield retries


STAGES: Final = ("enqueued", "allocated", "bound", "running")
_MAX_NAME_LENGTH: Final = 100
"""Characters of the name in an exemplar, whose labels may have 128 characters together."""


class WaitTimes:
    """How long Pods wait, stage by stage: created → enqueued → allocated → bound → running.

    A stage begins where the one before ends. The object is the exemplar of its bucket. Times are Unix times in seconds.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        histogram = Histogram(
            "volcano_py_pod_wait_seconds",
            "How long a Pod waits to reach a stage from the one before: enqueued (its PodGroup, since its creation), "
            "allocated (by a session), bound (by the API server), running (in whole seconds)",
            ["stage"],
            registry=registry,
            buckets=(0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0, 100_000.0),
        )
        self._stages = {stage: histogram.labels(stage) for stage in STAGES}
        self._admitted: dict[str, float] = {}
        """Key of a job -> when it was admitted to its queue."""

    def decided(self, decisions: Decisions, jobs: Mapping[str, Job], now: float) -> None:
        """Records that a session has admitted jobs and allocated nodes. ``jobs``: the jobs of the session, by key."""
        for group in decisions.pod_groups:
            key = f"{group.namespace}/{group.name}"
            if group.admits and key in jobs:
                self._observe("enqueued", now - jobs[key].creation, without_uid(key))
                self._admitted[key] = now
        for bind in decisions.binds:
            task = bind.task
            self._observe("allocated", now - max(task.creation, self._admitted.get(task.job, 0.0)), task.key)
        if len(self._admitted) > len(jobs):
            self._admitted = {key: moment for key, moment in self._admitted.items() if key in jobs}

    def bound(self, task: Task, allocated: float, now: float) -> None:
        """Records that the API server has bound a Pod. ``allocated``: when the session allocated its node."""
        self._observe("bound", now - allocated, task.key)

    def runs(self, task: Task, now: float) -> None:
        """Records that a bound Pod has begun to run."""
        if task.scheduled_at:
            self._observe("running", now - task.scheduled_at, task.key)

    def _observe(self, stage: str, seconds: float, key: str) -> None:
        self._stages[stage].observe(max(seconds, 0.0), exemplar={"object": key[:_MAX_NAME_LENGTH]})


PLACING_STAGES: Final = ("Predicate", "Scoring", "PreBind", "Bind")
_PLACING_BOUNDS: Final = exponential_buckets(0.1, 500, 20)
"""Milliseconds."""
_PLACING_TITLES: Final = [*map(floatToGoString, _PLACING_BOUNDS), "+Inf"]


class StageDurations(Collector):
    """The durations of the stages of placing Pods since the process started.

    A session reports its searches at once: with thousands of them, one observation each would take longer than the
    sums.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = {stage: [0] * len(_PLACING_TITLES) for stage in PLACING_STAGES}
        """Stage -> the counts of its buckets, in the order of the bounds."""
        self._sums = dict.fromkeys(PLACING_STAGES, 0.0)

    def observe(self, stage: str, seconds: float) -> None:
        """Records one duration of a stage."""
        milliseconds = seconds * 1000
        with self._lock:
            self._counts[stage][bisect_left(_PLACING_BOUNDS, milliseconds)] += 1
            self._sums[stage] += milliseconds

    def observe_all(self, stage: str, seconds: Sequence[float]) -> None:
        """Records durations of a stage."""
        milliseconds = np.array(seconds) * 1000
        counts: list[int] = np.bincount(
            np.searchsorted(_PLACING_BOUNDS, milliseconds), minlength=len(_PLACING_TITLES)
        ).tolist()
        with self._lock:
            self._counts[stage] = [old + new for old, new in zip(self._counts[stage], counts, strict=True)]
            self._sums[stage] += float(milliseconds.sum())

    def collect(self) -> Iterable[HistogramMetricFamily]:
        family = HistogramMetricFamily(
            "volcano_scheduling_stage_duration_milliseconds",
            "One stage of placing Pods: Predicate (filters) and Scoring, once for all equal Pods that are placed "
            "together; PreBind (volumes, claims and devices) and Bind, of each Pod",
            labels=["stage"],
        )
        with self._lock:
            for stage, counts in self._counts.items():
                buckets = list(zip(_PLACING_TITLES, accumulate(counts), strict=True))
                family.add_metric([stage], buckets, self._sums[stage])
        yield family


class Metrics(RoleMetrics):
    """All metrics of one scheduler process."""

    role: ClassVar[str] = "scheduler"

    def __init__(self, shard: str = "") -> None:
        super().__init__(shard)
        registry = self.registry
        cycle = exponential_buckets(1, 5000, 20)
        self._cycle = Histogram(
            "volcano_e2e_scheduling_latency_milliseconds", "Whole cycle", registry=registry, buckets=cycle
        )
        self._opening = Histogram(
            "volcano_open_session_duration_milliseconds", "Opening of a session", registry=registry, buckets=cycle
        )
        self._actions = Histogram(
            "volcano_action_scheduling_latency_milliseconds",
            "One action of a cycle",
            ["action"],
            registry=registry,
            buckets=exponential_buckets(1, 2000, 20),
        )
        self._plugins = Histogram(
            "volcano_plugin_scheduling_latency_milliseconds",
            "One plugin's part of opening a session",
            ["plugin", "OnSession"],
            registry=registry,
            buckets=exponential_buckets(0.1, 100, 15),
        )
        self._job_latency = Histogram(
            "volcano_e2e_job_scheduling_latency_milliseconds",
            "From the creation of a PodGroup to the binding of its gang",
            registry=registry,
            buckets=exponential_buckets(100, 120_000, 30),
        )
        latency = Histogram(
            "volcano_task_scheduling_latency_milliseconds",
            "From the creation of a Pod to the stage",
            ["stage"],
            registry=registry,
            buckets=exponential_buckets(50, 60_000, 30),
        )
        self.stages = self._registered(StageDurations())
        self._watched, self._assumed, self._prepared, self._bound = (
            latency.labels(stage) for stage in ("Watched", "Assumed", "PreBound", "Bound")
        )
        self.schedule_attempts = Counter(
            "volcano_schedule_attempts_total",
            "Pods that a session placed (scheduled), refused (unschedulable), or whose binding failed (error)",
            ["result"],
            registry=registry,
        )
        self.victims = Gauge(
            "volcano_pod_preemption_victims", "Pods preempted by the last session that preempted any", registry=registry
        )
        self.eviction_transactions = Counter(
            "volcano_eviction_transactions_total",
            "Times that an action evicted Pods for a job, or for one of its Pods, all or none",
            ["action"],
            registry=registry,
        )
        self.unscheduled_jobs = Gauge(
            "volcano_unschedule_job_count", "Jobs with Pods that the last session could not place", registry=registry
        )
        self.waits = WaitTimes(registry)
        self.session = self._registered(SessionFigures())
        self.cluster = self._registered(ClusterFigures())
        self.waiting = self._registered(WaitingFigures())
        self.chips = self._registered(ChipFigures())
        self.shares = self._registered(ShareFigures())
        self.card_users = self._registered(CardUserFigures())
        self.card_totals = self._registered(CardTotalFigures(shard))
        self.attempts = self._registered(AttemptFigures())
        self.devices = self._registered(DeviceFigures())

        self.status_failures = Counter(
            "volcano_py_status_write_failures_total",
            "Status updates that were refused or given up",
            ["kind"],
            registry=registry,
        )
        self.cycle_errors = Counter("volcano_py_cycle_errors_total", "Cycles that raised", registry=registry)
        self.cycles_skipped = Counter(
            "volcano_py_cycles_skipped_total", "Cycles left out because nothing had changed", registry=registry
        )
        self.usage_polls = Counter(
            "volcano_py_node_usage_polls_total",
            "Requests to the monitoring system for the usage of nodes",
            ["result"],
            registry=registry,
        )
        self.nodes_with_usage = Gauge(
            "volcano_py_nodes_with_usage", "Nodes whose usage the last answer contained", registry=registry
        )

    def watched(self, seconds: float) -> None:
        """Records the seconds from the creation of a Pod to its delivery by the watch."""
        self._watched.observe(max(0.0, seconds) * 1000)

    def assumed(self, seconds: float) -> None:
        """Records the seconds from the creation of a Pod to the end of the session that allocated its node."""
        self._assumed.observe(max(0.0, seconds) * 1000)

    def prepared(self, seconds: float) -> None:
        """Records the seconds from the creation of a Pod to the request of its binding, after its preparations."""
        self._prepared.observe(max(0.0, seconds) * 1000)

    def bound(self, seconds: float) -> None:
        """Records the seconds from the creation of a Pod to its binding."""
        self._bound.observe(max(0.0, seconds) * 1000)

    def job_bound(self, seconds: float) -> None:
        """Records the seconds from the creation of a job to a binding of its Pods."""
        self._job_latency.observe(max(0.0, seconds) * 1000)

    def cycle(
        self, *, seconds: float, opening: float, actions: Mapping[str, float], plugins: Mapping[str, float]
    ) -> None:
        """Records the duration of a cycle; ``actions`` and ``plugins`` (their opening): seconds by name."""
        self._cycle.observe(seconds * 1000)
        self._opening.observe(opening * 1000)
        for name, spent in actions.items():
            self._actions.labels(name).observe(spent * 1000)
        for name, spent in plugins.items():
            self._plugins.labels(name, "OnSessionOpen").observe(spent * 1000)
