"""network-topology-aware: gangs stay close together in the network, and leave whole HyperNodes free for others."""

from scheduler.plugins.network_topology_aware.plugin import NetworkTopologyAware

__all__ = ["NetworkTopologyAware"]
