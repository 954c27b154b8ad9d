"""Chip affinity for Ascend nodes: ``plugin`` registers it, ``families`` holds the rules as data."""

from scheduler.plugins.ascend import plugin, remedies

__all__ = ["plugin", "remedies"]
