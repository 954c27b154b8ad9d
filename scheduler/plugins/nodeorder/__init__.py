"""nodeorder: which of the nodes that a task may run on is best, by kube-scheduler's scores."""

from scheduler.plugins.nodeorder import plugin

__all__ = ["plugin"]
