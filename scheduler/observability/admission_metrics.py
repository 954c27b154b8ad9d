"""The metrics of the admission server."""

from typing import ClassVar

from prometheus_client import Counter, Gauge, Histogram

from scheduler.observability.role_metrics import RoleMetrics

_SECONDS = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


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
            buckets=_SECONDS,
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
