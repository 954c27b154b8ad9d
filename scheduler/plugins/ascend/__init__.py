"""Chip affinity for Ascend nodes: ``plugin`` registers the plugin, ``families`` contains the rules as data."""

from scheduler.plugins.ascend import plugin, remedies

__all__ = ["plugin", "remedies"]
