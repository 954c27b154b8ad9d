"""The settings that all roles have in common. The module imports none of the libraries that a process needs later."""

import msgspec

from scheduler.cluster.kube.process.lease import LeaseSettings
from scheduler.cluster.kube.process.liveness import STOPPING


class ProcessSettings(msgspec.Struct, frozen=True):
    """The settings of the client, of leader election and of the endpoints. Without an address there is no endpoint."""

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
