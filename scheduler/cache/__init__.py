"""The live model of the cluster: fed by whoever watches it, read through snapshots."""

from scheduler.cache.cluster_cache import ClusterCache

__all__ = ["ClusterCache"]
