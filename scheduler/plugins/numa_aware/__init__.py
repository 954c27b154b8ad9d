"""numa-aware: Pods with cpus of their own get them from as few NUMA nodes as the kubelet would insist on."""

from scheduler.plugins.numa_aware import details
from scheduler.plugins.numa_aware.plugin import NumaAware

__all__ = ["NumaAware", "details"]
