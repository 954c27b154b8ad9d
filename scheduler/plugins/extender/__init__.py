"""extender: calls another program over HTTP for scheduling decisions (Volcano's extender plugin)."""

from scheduler.plugins.extender.plugin import Extender
