"""A cluster in memory, read from manifests, on which ``simulate``, ``explain`` and the scenario tests run."""

from scheduler.cluster.manifests import ManifestError, read_manifests
from scheduler.cluster.memory.cluster import MemoryCluster
from scheduler.cluster.memory.simulation import Kubelet, Report, Simulation, simulate

__all__ = ["Kubelet", "ManifestError", "MemoryCluster", "Report", "Simulation", "read_manifests", "simulate"]
