"""usage: nodes are chosen by how busy they really are (Volcano's usage plugin)."""

from scheduler.plugins.usage.plugin import Usage

__all__ = ["Usage"]
