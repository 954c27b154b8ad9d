"""The metrics that every long-running role has: its calls to the API server, its watches, what it set aside."""

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics, generate_latest

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series per counter that nobody asks for


class RoleMetrics:
    """In a registry of their own; a role with more to tell registers that in the same registry."""

    def __init__(self) -> None:
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
        self.watch_restarts = Counter(
            "volcano_py_watch_restarts_total", "Watches that broke off", ["kind", "reason"], registry=registry
        )
        self.dropped_events = Counter("volcano_py_dropped_events_total", "Events never posted", registry=registry)
        self.leading = Gauge("volcano_py_leader", "1 while this process leads", registry=registry)

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)
