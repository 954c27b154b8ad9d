"""The metrics of every long-running role: requests to the API server, watches, and malformed objects."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics, generate_latest

disable_created_metrics()  # type: ignore[no-untyped-call]  # they would add an unused second series per counter


def exponential_buckets(smallest: float, largest: float, number: int) -> Sequence[float]:
    """``number`` bounds, each the same multiple of the one before."""
    factor = (largest / smallest) ** (1 / (number - 1))
    return [round(smallest * factor**i, 6) for i in range(number)]


class RoleMetrics:
    """Metrics in one registry, in which a role registers its own metrics as well."""

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
