"""The live model of the cluster: updated with watch events, read through snapshots."""

from scheduler.cache.cluster_cache import ClusterCache

__all__ = ["ClusterCache"]
