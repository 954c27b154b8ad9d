"""How busy nodes are, asked of a monitoring system: a file for each kind of it, and the poller that goes on asking."""

from scheduler.cluster.usage.poller import UsagePoller
from scheduler.cluster.usage.source import SourceError, measure_once

__all__ = ["SourceError", "UsagePoller", "measure_once"]
