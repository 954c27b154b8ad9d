"""The usage of nodes from a monitoring system: a module for each kind of system, and the poller."""

from scheduler.cluster.usage.poller import UsagePoller
from scheduler.cluster.usage.source import SourceError, measure_once

__all__ = ["SourceError", "UsagePoller", "measure_once"]
