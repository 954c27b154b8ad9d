"""Shared devices: ``plugin`` registers it; each family of devices has a file of its own."""

from scheduler.plugins.deviceshare import details, plugin

__all__ = ["details", "plugin"]
