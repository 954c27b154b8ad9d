"""The scheduler's metrics, under Volcano's names and labels, and a few of our own (``volcano_py_``).

Only what the scheduler knows is exported: a metric that nothing feeds is left out. Amounts are in the units their names
give; resources other than cpu and memory in thousandths, as Volcano has them.
"""

from collections.abc import Iterable, Mapping, Sequence

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler.api.job import Job
from scheduler.api.queue import Queue
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, PODS_INDEX, Dimensions, Vector
from scheduler.api.task import TaskStatus
from scheduler.observability.role_metrics import RoleMetrics

_PHASES = {"": "pending", "Pending": "pending", "Inqueue": "inqueue", "Running": "running", "Completed": "completed"}
_PHASE_NAMES = ("inqueue", "pending", "running", "unknown", "completed")


def exponential_buckets(smallest: float, largest: float, number: int) -> Sequence[float]:
    """``number`` bounds, each the same multiple of the one before."""
    factor = (largest / smallest) ** (1 / (number - 1))
    return [round(smallest * factor**i, 6) for i in range(number)]


class Metrics(RoleMetrics):
    """All metrics of one scheduler process."""

    def __init__(self) -> None:
        super().__init__()
        registry = self.registry
        cycle = exponential_buckets(1, 5000, 20)
        self.cycle_seconds = Histogram(
            "volcano_e2e_scheduling_latency_milliseconds", "Whole cycle", registry=registry, buckets=cycle
        )
        self.open_seconds = Histogram(
            "volcano_open_session_duration_milliseconds", "Opening of a session", registry=registry, buckets=cycle
        )
        self.action_seconds = Histogram(
            "volcano_action_scheduling_latency_milliseconds",
            "One action of a cycle",
            ["action"],
            registry=registry,
            buckets=exponential_buckets(1, 2000, 20),
        )
        self.plugin_seconds = Histogram(
            "volcano_plugin_scheduling_latency_milliseconds",
            "One plugin's part of opening a session",
            ["plugin", "OnSession"],
            registry=registry,
            buckets=exponential_buckets(0.1, 100, 15),
        )
        job_latency = exponential_buckets(100, 120_000, 30)
        self.job_latency = Histogram(
            "volcano_e2e_job_scheduling_latency_milliseconds",
            "From the creation of a PodGroup to the binding of its gang",
            registry=registry,
            buckets=job_latency,
        )
        self.task_latency = Histogram(
            "volcano_task_scheduling_latency_milliseconds",
            "From the creation of a Pod to the stage",
            ["stage"],
            registry=registry,
            buckets=exponential_buckets(50, 60_000, 30),
        )
        self.stage_duration = Histogram(
            "volcano_scheduling_stage_duration_milliseconds",
            "One stage of placing a Pod",
            ["stage"],
            registry=registry,
            buckets=exponential_buckets(0.1, 500, 20),
        )
        self.bind_seconds = self.stage_duration.labels("Bind")
        self._bound = self.task_latency.labels("Bound")
        self.schedule_attempts = Counter(
            "volcano_schedule_attempts_total",
            "Pods that a session placed (scheduled), refused (unschedulable), or whose binding failed (error)",
            ["result"],
            registry=registry,
        )
        self.victims = Gauge(
            "volcano_pod_preemption_victims", "Pods evicted by the last session that evicted any", registry=registry
        )
        self.unscheduled_jobs = Gauge(
            "volcano_unschedule_job_count", "Jobs with Pods that the last session could not place", registry=registry
        )
        self.session = SessionFigures()
        registry.register(self.session)

        self.status_failures = Counter(
            "volcano_py_status_write_failures_total", "Status updates given up", ["kind"], registry=registry
        )
        self.cycle_errors = Counter("volcano_py_cycle_errors_total", "Cycles that raised", registry=registry)
        self.cycles_skipped = Counter(
            "volcano_py_cycles_skipped_total", "Cycles left out because nothing had changed", registry=registry
        )

    def bound(self, seconds: float) -> None:
        """A Pod was bound, so many seconds after its creation."""
        self._bound.observe(seconds * 1000)

    def cycle(
        self, *, seconds: float, opening: float, actions: Mapping[str, float], plugins: Mapping[str, float]
    ) -> None:
        """A cycle took so long; ``actions`` and ``plugins`` (their opening): seconds by name."""
        self.cycle_seconds.observe(seconds * 1000)
        self.open_seconds.observe(opening * 1000)
        for name, spent in actions.items():
            self.action_seconds.labels(name).observe(spent * 1000)
        for name, spent in plugins.items():
            self.plugin_seconds.labels(name, "OnSessionOpen").observe(spent * 1000)


class SessionFigures(Collector):
    """What the last session leaves behind for dashboards: figures by queue and by job. Swapped as a whole, so a scrape
    never sees half of one."""

    def __init__(self) -> None:
        self._families: tuple[GaugeMetricFamily, ...] = ()
        self._scheduled: dict[tuple[str, str, str], tuple[float, float]] = {}
        """(job, queue, namespace) -> creation and time of the last binding."""

    def collect(self) -> Iterable[GaugeMetricFamily]:
        return self._families

    def update(
        self,
        jobs: Mapping[str, Job],
        queues: Mapping[str, Queue],
        dimensions: Dimensions,
        bound_jobs: Iterable[str],
        now: float,
    ) -> None:
        """``jobs``: as the session left them; ``bound_jobs``: keys of those it bound Pods of; ``now``: its time."""
        for key in bound_jobs:
            job = jobs.get(key)
            if job is not None:
                self._scheduled[job.name, job.queue, job.namespace] = (job.creation, now)
        present = {(job.name, job.queue, job.namespace) for job in jobs.values()}
        for labels in [labels for labels in self._scheduled if labels not in present]:
            del self._scheduled[labels]
        self._families = (
            *_queue_amounts(jobs, queues, dimensions),
            *_phase_counts(jobs, queues),
            _weights(queues),
            _unplaced(jobs),
            *self._durations(),
        )

    def _durations(self) -> list[GaugeMetricFamily]:
        labels = ["job_name", "queue", "job_namespace"]
        start = GaugeMetricFamily("volcano_e2e_job_scheduling_start_time", "Creation of a job", labels=labels)
        last = GaugeMetricFamily("volcano_e2e_job_scheduling_last_time", "Last binding of a job", labels=labels)
        spent = GaugeMetricFamily(
            "volcano_e2e_job_scheduling_duration", "Milliseconds from creation to last binding", labels=labels
        )
        for key, (creation, bound) in self._scheduled.items():
            start.add_metric(key, creation)
            last.add_metric(key, bound)
            spent.add_metric(key, max(0.0, bound - creation) * 1000)
        return [start, last, spent]


def _queue_amounts(
    jobs: Mapping[str, Job], queues: Mapping[str, Queue], dimensions: Dimensions
) -> list[GaugeMetricFamily]:
    """Allocated, requested and capacity of every queue, by resource. A queue's own jobs count, not its children's."""
    allocated: dict[str, Vector] = {name: dimensions.zeros() for name in queues}
    requested: dict[str, Vector] = {name: dimensions.zeros() for name in queues}
    for job in jobs.values():
        total = allocated.get(job.queue)
        if total is not None:
            total += dimensions.fit(job.allocated)
            requested[job.queue] += dimensions.fit(job.allocated) + dimensions.fit(job.pending)
    capacity = {name: queue.capability for name, queue in queues.items() if queue.has_capability}
    deserved = {name: queue.deserved for name, queue in queues.items() if queue.deserved.any()}
    return [
        family
        for word, amounts in (
            ("allocated", allocated),
            ("request", requested),
            ("capacity", capacity),
            ("deserved", deserved),
        )
        for family in _amounts(word, amounts, dimensions)
    ]


def _amounts(word: str, amounts: Mapping[str, Vector], dimensions: Dimensions) -> list[GaugeMetricFamily]:
    prefix, text = f"volcano_queue_{word}", f"What is {word} in a queue"
    cpu = GaugeMetricFamily(f"{prefix}_milli_cpu", text, labels=["queue_name"])
    memory = GaugeMetricFamily(f"{prefix}_memory_bytes", text, labels=["queue_name"])
    scalar = GaugeMetricFamily(f"{prefix}_scalar_resources", text, labels=["queue_name", "resource"])
    for name, vector in sorted(amounts.items()):
        cpu.add_metric([name], float(vector[CPU_INDEX]))
        memory.add_metric([name], float(vector[MEMORY_INDEX]))
        for position, resource in enumerate(dimensions.names):
            if position > PODS_INDEX and position < len(vector) and vector[position] not in (0, float("inf")):
                scalar.add_metric([name, resource], float(vector[position]))
    return [cpu, memory, scalar]


def _phase_counts(jobs: Mapping[str, Job], queues: Mapping[str, Queue]) -> list[GaugeMetricFamily]:
    counts = {name: dict.fromkeys(_PHASE_NAMES, 0) for name in queues}
    for job in jobs.values():
        of_queue = counts.get(job.queue)
        if of_queue is not None:
            of_queue[_PHASES.get(job.phase, "unknown")] += 1
    families = []
    for phase in _PHASE_NAMES:
        family = GaugeMetricFamily(
            f"volcano_queue_pod_group_{phase}_count", f"PodGroups of a queue in phase {phase}", labels=["queue_name"]
        )
        for name in sorted(counts):
            family.add_metric([name], counts[name][phase])
        families.append(family)
    return families


def _weights(queues: Mapping[str, Queue]) -> GaugeMetricFamily:
    family = GaugeMetricFamily("volcano_queue_weight", "Weight of a queue", labels=["queue_name"])
    for name in sorted(queues):
        family.add_metric([name], queues[name].weight)
    return family


def _unplaced(jobs: Mapping[str, Job]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "volcano_unschedule_task_count", "Pods of a job that the last session could not place", labels=["job_id"]
    )
    for key in sorted(jobs):
        count = jobs[key].count(TaskStatus.PENDING)
        if count and (jobs[key].fit_errors or jobs[key].refusals):
            family.add_metric([key], count)
    return family
