"""The metrics of the controllers: some under Volcano's names and labels, and some of our own (``volcano_py_``)."""

import collections
from collections.abc import Iterable, Mapping
from typing import ClassVar

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import UnknownMetricFamily
from prometheus_client.registry import Collector

from scheduler.observability.role_metrics import RoleMetrics, exponential_buckets

_SECONDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


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
        """Counts an object. ``values``: of the labels."""
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
        self.job_phases = PhaseCounts(
            {"Completed": "volcano_job_completed_phase_count", "Failed": "volcano_job_failed_phase_count"},
            "Times that a vcjob entered",
            ("job_name", "queue_name"),
        )
        self.flow_phases = PhaseCounts(
            {"Succeed": "volcano_jobflow_succeed_phase_count", "Failed": "volcano_jobflow_failed_phase_count"},
            "Times that JobFlows of a namespace entered",
            ("jobflow_namespace",),
        )
        self.registry.register(self.job_phases)
        self.registry.register(self.flow_phases)
        self.waiting = Gauge(
            "volcano_py_worklist_depth", "Objects that controllers have yet to reconcile", registry=self.registry
        )
        self.plan_seconds = Histogram(
            "volcano_py_plan_seconds",
            "Planning for one object, without its writes",
            ["controller"],
            registry=self.registry,
            buckets=_SECONDS,
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
