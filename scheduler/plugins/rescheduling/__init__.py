"""rescheduling: Pods are evicted from busy nodes while others are idle (Volcano's rescheduling plugin)."""

from scheduler.plugins.rescheduling.plugin import Rescheduling

__all__ = ["Rescheduling"]
