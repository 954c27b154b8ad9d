"""numa-aware: schedules Pods with exclusive cpus where the kubelet's topology manager admits them."""

from scheduler.plugins.numa_aware.plugin import NumaAware
