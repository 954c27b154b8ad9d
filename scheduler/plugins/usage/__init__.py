"""usage: nodes are chosen by how busy they really are (Volcano's usage plugin)."""

from scheduler.plugins.usage import details, remedies
from scheduler.plugins.usage.plugin import Usage

__all__ = ["Usage", "details", "remedies"]
