"""Shared devices: ``plugin`` registers the plugin; each family of devices has its own module."""

from scheduler.plugins.deviceshare import details, plugin

__all__ = ["details", "plugin"]
