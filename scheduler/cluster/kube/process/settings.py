"""The settings that all roles have in common. They do without the libraries that a process needs later."""

import msgspec

from scheduler.cluster.kube.process.lease import LeaseSettings
from scheduler.cluster.kube.process.liveness import STOPPING


class ProcessSettings(msgspec.Struct, frozen=True):
    """How a process reaches the API server, leads and is observed. An empty address leaves its endpoints out."""

    lease: LeaseSettings | None = None
    """None: no leader election."""
    qps: float = 2000
    burst: int = 2000
    metrics_address: str = ""
    health_address: str = ""
    stopping: float = STOPPING
    """Seconds from the stop signal until ``/healthz`` calls the process stuck."""

    @property
    def serves(self) -> bool:
        """Whether there are endpoints."""
        return bool(self.metrics_address or self.health_address)
