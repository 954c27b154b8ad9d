"""nodegroup: restricts queues to node groups. ``plugin`` registers it; ``details`` and ``remedies`` are for explain."""

from scheduler.plugins.nodegroup import details, plugin, remedies

__all__ = ["details", "plugin", "remedies"]
