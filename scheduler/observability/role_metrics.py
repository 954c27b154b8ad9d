"""The metrics of the long-running roles, some under Volcano's names and labels, and some of our own (``volcano_py_``).

The metrics of every role are about requests to the API server, watches, and malformed objects. ``metrics`` has the
metrics of the scheduler.
"""

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import UnknownMetricFamily
from prometheus_client.registry import Collector

C = TypeVar("C", bound=Collector)
_REVIEW_SECONDS = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_QUESTION_SECONDS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0)
_PLAN_SECONDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


disable_created_metrics()  # type: ignore[no-untyped-call]  # they would add an unused second series per counter


def exponential_buckets(smallest: float, largest: float, number: int) -> Sequence[float]:
    """``number`` bounds, each the same multiple of the one before."""
    factor = (largest / smallest) ** (1 / (number - 1))
    return [round(smallest * factor**i, 6) for i in range(number)]


class RoleMetrics:
    """Metrics in one registry, in which a role registers its own metrics as well."""

    role: ClassVar[str] = ""

    def __init__(self, shard: str = "") -> None:
        """``shard``: name of the scheduler's shard, if there are several."""
        registry = self.registry = CollectorRegistry()
        self.malformed = Counter(
            "volcano_py_malformed_objects_total", "Fields and objects set aside", ["kind"], registry=registry
        )
        self.config_reloads = Counter(
            "volcano_py_config_reloads_total", "Changed configuration files", ["result"], registry=registry
        )
        self.api_requests = Counter(
            "volcano_py_api_requests_total", "Requests to the API server", ["class", "code"], registry=registry
        )
        self.api_seconds = Histogram(
            "volcano_py_api_request_duration_seconds",
            "Time until the API server has answered, by verb and HTTP status (error: no answer)",
            ["verb", "code"],
            registry=registry,
            buckets=(0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
        )
        self.watch_delay = Histogram(
            "volcano_py_watch_delay_seconds",
            "Age of new objects when the watch delivers them. Creation times are whole seconds",
            ["kind"],
            registry=registry,
            buckets=(1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0),
        )
        self.writes_waiting = Gauge(
            "volcano_py_writes_waiting", "Writes that are queued or under way", ["class"], registry=registry
        )
        self.watch_restarts = Counter(
            "volcano_py_watch_restarts_total", "Watches that broke off", ["kind", "reason"], registry=registry
        )
        self.listed_objects = Gauge(
            "volcano_py_listed_objects",
            "Objects that the last list has delivered so far",
            ["source"],
            registry=registry,
        )
        self.expected_objects = Gauge(
            "volcano_py_expected_objects", "Objects that the last list delivers in all", ["source"], registry=registry
        )
        self.synced = Gauge(
            "volcano_py_synced", "1 once the first list of a source is complete", ["source"], registry=registry
        )
        self.dropped_events = Counter("volcano_py_dropped_events_total", "Events never recorded", registry=registry)
        leader = Gauge(
            "volcano_py_leader",
            "1 while this process leads its role, or its shard",
            ["role", "shard"],
            registry=registry,
        )
        self.leading = leader.labels(self.role, shard)

    def _registered(self, collector: C) -> C:
        """Registers a collector, and returns it."""
        self.registry.register(collector)
        return collector


class AdmissionMetrics(RoleMetrics):
    """All metrics of one process that answers admission reviews."""

    role: ClassVar[str] = "webhooks"

    def __init__(self) -> None:
        super().__init__()
        self.requests = Counter(
            "volcano_py_admission_requests_total",
            "Reviews by result: allowed, denied, error (a bug), malformed, busy, failed (worker process), cancelled, "
            "unvalidated (Pod templates)",
            ["path", "result"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "volcano_py_admission_seconds",
            "From a whole request to its answer",
            ["path"],
            registry=self.registry,
            buckets=_REVIEW_SECONDS,
        )
        self.queue_reads = Counter(
            "volcano_py_admission_queue_reads_total",
            "Queues read from the API server because the watch had not delivered them",
            ["result"],
            registry=self.registry,
        )
        self.certificate_end = Gauge(
            "volcano_py_admission_certificate_not_after_seconds",
            "When the serving certificate ends, in seconds since the epoch",
            registry=self.registry,
        )
        self.bundle_writes = Counter(
            "volcano_py_admission_bundle_writes_total",
            "Webhook configurations that were given our certificate authority",
            ["result"],
            registry=self.registry,
        )


class VisibilityMetrics:
    """Registered with the other metrics of the scheduler."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "volcano_py_visibility_requests_total", "Questions of users", ["resource", "code"], registry=registry
        )
        self.seconds = Histogram(
            "volcano_py_visibility_seconds",
            "From a question to its answer",
            ["resource"],
            registry=registry,
            buckets=_QUESTION_SECONDS,
        )
        self.streams = Gauge("volcano_py_visibility_pages", "Web pages that are open", registry=registry)
        self.certificate_end = Gauge(
            "volcano_py_visibility_certificate_not_after_seconds",
            "When the serving certificate ends, in seconds since the epoch",
            registry=registry,
        )


class PhaseCounts(Collector):
    """How often objects entered a phase, counted by Volcano under names without ``_total``. The client library adds
    that suffix to every counter, so these are exported as untyped metrics."""

    def __init__(self, metrics: Mapping[str, str], what: str, labels: tuple[str, ...]) -> None:
        """``metrics``: phase -> name of its metric; ``what``: the objects; ``labels``: the first one is the key by
        which series are removed."""
        self._metrics = metrics
        self._what = what
        self._labels = labels
        self._counts: dict[str, collections.Counter[tuple[str, ...]]] = {}
        """First label -> phase and the other labels -> number."""

    def count(self, phase: str, *values: str) -> None:
        """Counts an object. ``values``: the values of the labels."""
        key, *rest = values
        self._counts.setdefault(key, collections.Counter())[(phase, *rest)] += 1

    def forget(self, key: str) -> None:
        """Removes the series whose first label has this value."""
        self._counts.pop(key, None)

    def collect(self) -> Iterable[UnknownMetricFamily]:
        families = {
            phase: UnknownMetricFamily(name, f"{self._what} the phase {phase}", labels=self._labels)
            for phase, name in self._metrics.items()
        }
        for key, counts in sorted(self._counts.copy().items()):
            for (phase, *rest), number in sorted(counts.copy().items()):
                families[phase].add_metric([key, *rest], number)
        yield from families.values()


class ControllerMetrics(RoleMetrics):
    """All metrics of one process that runs controllers."""

    role: ClassVar[str] = "controllers"

    def __init__(self) -> None:
        super().__init__()
        self.pod_creation = Histogram(
            "volcano_controller_job_to_pod_creation_latency_milliseconds",
            "From the creation of a vcjob to that of each of its Pods",
            registry=self.registry,
            buckets=exponential_buckets(50, 60_000, 30),
        )
        self.job_phases = self._registered(
            PhaseCounts(
                {"Completed": "volcano_job_completed_phase_count", "Failed": "volcano_job_failed_phase_count"},
                "Times that a vcjob entered",
                ("job_name", "queue_name"),
            )
        )
        self.flow_phases = self._registered(
            PhaseCounts(
                {"Succeed": "volcano_jobflow_succeed_phase_count", "Failed": "volcano_jobflow_failed_phase_count"},
                "Times that JobFlows of a namespace entered",
                ("jobflow_namespace",),
            )
        )
        self.waiting = Gauge(
            "volcano_py_worklist_depth", "Objects that controllers have yet to reconcile", registry=self.registry
        )
        self.plan_seconds = Histogram(
            "volcano_py_plan_seconds",
            "Planning for one object, without its writes",
            ["controller"],
            registry=self.registry,
            buckets=_PLAN_SECONDS,
        )
        self.effects = Counter(
            "volcano_py_effects_total",
            "Writes that controllers asked for",
            ["controller", "verb", "kind", "result"],
            registry=self.registry,
        )
        self.plan_errors = Counter(
            "volcano_py_plan_errors_total", "Plans that raised an exception", ["controller"], registry=self.registry
        )
