"""nodegroup: restricts queues to node groups. ``plugin`` registers it; ``remedies`` is for explain."""

from scheduler.plugins.nodegroup import plugin, remedies
