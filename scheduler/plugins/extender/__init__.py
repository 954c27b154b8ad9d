"""extender: other programs have a say in scheduling, asked over HTTP (Volcano's extender plugin)."""

from scheduler.plugins.extender.plugin import Extender

__all__ = ["Extender"]
