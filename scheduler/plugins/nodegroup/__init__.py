"""nodegroup: queues use the groups of nodes that their affinity names: ``plugin`` registers it."""

from scheduler.plugins.nodegroup import details, plugin, remedies

__all__ = ["details", "plugin", "remedies"]
