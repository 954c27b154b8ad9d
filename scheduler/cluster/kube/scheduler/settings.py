"""The settings of a scheduler process, which come from its flags."""

from typing import TYPE_CHECKING

import msgspec

from scheduler.api.names import DEFAULT_QUEUE, SYSTEM_NAMESPACE
from scheduler.cluster.kube.process.lease import LeaseSettings
from scheduler.cluster.kube.process.settings import ProcessSettings

if TYPE_CHECKING:
    from scheduler.cluster.kube.scheduler.visibility.role import VisibilitySettings


class DaemonSettings(msgspec.Struct, frozen=True):
    """The settings of the daemon; times in seconds."""

    scheduler_names: tuple[str, ...]
    process: ProcessSettings = msgspec.field(default_factory=ProcessSettings)
    schedule_period: float = 1.0
    """The longest pause between two sessions."""
    default_queue: str = DEFAULT_QUEUE
    bind_workers: int = 64
    percentage_nodes: int = 100
    """Percentage of the nodes that are searched for feasible ones; 0: adapts to the number of nodes."""
    minimum_nodes: int = 100
    csi_storage: bool = True
    """Whether to watch the free storage that CSI drivers report."""
    signing_key_namespace: str = SYSTEM_NAMESPACE
    signing_key_secret: str = ""
    """Name of the Secret with the key that signs decisions; "": there is none."""
    shard: str = ""
    """Name of the NodeShard with the nodes and queues of this scheduler; "": it uses the whole cluster."""
    whole_cluster_lease: LeaseSettings | None = None
    """The lease of a scheduler without a shard. While one holds it, no scheduler with a shard starts."""
    visibility: "VisibilitySettings | None" = None
    """None: tenants are not answered."""
