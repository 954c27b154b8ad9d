"""The plugin capacity: deserved share, capability and guarantee of queues, flat or in a hierarchy."""

from scheduler.plugins.capacity.plugin import Capacity
