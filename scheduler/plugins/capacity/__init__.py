"""capacity: queues have amounts that they deserve, may have at most, and are guaranteed, alone or in a hierarchy."""

from scheduler.plugins.capacity.plugin import Capacity

__all__ = ["Capacity"]
