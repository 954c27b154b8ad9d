"""task-topology: roles of a job that want to share nodes, or must not."""

from scheduler.plugins.task_topology.plugin import TaskTopology

__all__ = ["TaskTopology"]
