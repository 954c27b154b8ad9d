"""The metrics of every long-running role: requests to the API server, watches, and malformed objects."""

from collections.abc import Sequence
from typing import ClassVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

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
