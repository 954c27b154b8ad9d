"""Shared devices: ``plugin`` registers it; each family of devices has a file of its own."""

from scheduler.plugins.deviceshare import plugin

__all__ = ["plugin"]
