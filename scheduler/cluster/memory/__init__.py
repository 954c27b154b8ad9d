"""A cluster in memory, read from manifests, on which ``simulate``, ``explain`` and the scenario tests run."""

from scheduler.cluster.manifests import ManifestError, read_manifests
from scheduler.cluster.memory.cluster import MemoryCluster
from scheduler.cluster.memory.simulation import KubeletBehaviour, Simulation, SimulationReport, simulate

__all__ = [
    "KubeletBehaviour",
    "ManifestError",
    "MemoryCluster",
    "Simulation",
    "SimulationReport",
    "read_manifests",
    "simulate",
]
