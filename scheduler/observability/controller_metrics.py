"""The metrics of the controllers."""

from prometheus_client import Counter, Gauge, Histogram

from scheduler.observability.role_metrics import RoleMetrics

_SECONDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


class ControllerMetrics(RoleMetrics):
    """All metrics of one process that runs controllers."""

    def __init__(self) -> None:
        super().__init__()
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
