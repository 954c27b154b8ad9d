"""A cluster in memory, read from manifests: what ``simulate`` and the scenario tests run on."""

from scheduler.cluster.manifests import ManifestError, read_manifests
from scheduler.cluster.memory.cluster import MemoryCluster
from scheduler.cluster.memory.simulation import Kubelet, Report, Simulation, simulate

__all__ = ["Kubelet", "ManifestError", "MemoryCluster", "Report", "Simulation", "read_manifests", "simulate"]
