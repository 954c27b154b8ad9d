"""The usage of nodes from a monitoring system: a module for each kind of system, and the poller."""

from scheduler.cluster.usage.http_client import SourceError
from scheduler.cluster.usage.poller import UsagePoller, measure_once

__all__ = ["SourceError", "UsagePoller", "measure_once"]
