"""The metrics of the scheduler's answers to tenants."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0)


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
            buckets=_SECONDS,
        )
        self.streams = Gauge("volcano_py_visibility_pages", "Web pages that are open", registry=registry)
        self.certificate_end = Gauge(
            "volcano_py_visibility_certificate_not_after_seconds",
            "When the serving certificate ends, in seconds since the epoch",
            registry=registry,
        )
