"""predicates: on which nodes a task may run at all."""

from scheduler.plugins.predicates import plugin

__all__ = ["plugin"]
