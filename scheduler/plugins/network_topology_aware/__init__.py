"""network-topology-aware: places gangs close together in the network, and keeps whole HyperNodes free."""

from scheduler.plugins.network_topology_aware.plugin import NetworkTopologyAware
