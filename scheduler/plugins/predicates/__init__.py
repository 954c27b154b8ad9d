"""The predicates plugin: filters nodes by everything except amounts of resources."""

from scheduler.plugins.predicates import plugin

__all__ = ["plugin"]
