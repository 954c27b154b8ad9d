"""drf: dominant resource fairness between jobs, between namespaces, and between queues of a hierarchy."""

from scheduler.plugins.drf import plugin
