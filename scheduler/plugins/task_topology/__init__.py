"""The plugin task-topology: affinity and anti-affinity between the roles of a job."""

from scheduler.plugins.task_topology.plugin import TaskTopology
