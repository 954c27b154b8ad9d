"""The plugin: periodically names victims for the action shuffle, so that Pods move to less loaded nodes."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import numpy as np

from scheduler.api.names import CPU, MEMORY
from scheduler.api.node import Column
from scheduler.api.task import Task
from scheduler.api.usage import PERIOD
from scheduler.framework.arguments import Arguments
from scheduler.framework.registry import register_plugin
from scheduler.framework.session import Session
from scheduler.plugins.rescheduling.low_node_utilization import Thresholds, choose_victims
from scheduler.plugins.support.periodic import is_due

LOW_NODE_UTILIZATION: Final = "lowNodeUtilization"
DEFAULT_INTERVAL: Final = 300.0
DEFAULT_PERCENTAGE: Final = 100.0


@register_plugin
class Rescheduling:
    """Arguments: ``interval`` (5m): the time between two rounds, and before the first. ``strategies``: a list with the
    entry ``{name: lowNodeUtilization, params: {thresholds: {cpu, memory}, targetThresholds: {cpu, memory}}}`` (default:
    this entry; percentages, 100 each). ``metricsPeriod``: only 10m is supported."""

    name: ClassVar[str] = "rescheduling"

    def __init__(self, arguments: Arguments) -> None:
        self._interval = arguments.duration("interval", DEFAULT_INTERVAL)
        period = arguments.text("metricsPeriod", PERIOD)
        if period not in ("", PERIOD):
            arguments.set_aside("metricsPeriod", period, "not measured", PERIOD)
        self._thresholds = _thresholds(arguments)

    def open(self, session: Session) -> None:
        self._session = session
        self._due = is_due(session, self.name, self._interval, immediately=False)
        if self._thresholds is not None:
            session.add_victim_tasks(self._victims)

    def _victims(self, running: Sequence[Task]) -> list[Task]:
        session, usage = self._session, self._session.snapshot.usage
        due, self._due = self._due, False
        if not due or usage is None or self._thresholds is None:
            return []
        return choose_victims(session.nodes, usage, session.now, self._thresholds, running)


def _thresholds(arguments: Arguments) -> Thresholds | None:
    """Returns the thresholds of the strategy; None if the list does not contain it. Unknown strategies are reported."""
    listed = arguments.get("strategies")
    if listed is not None and not isinstance(listed, list):
        listed = arguments.set_aside("strategies", listed, "not a list", None)
    if not listed:
        return _strategy(Arguments())
    found = None
    for entry in listed:
        fields = entry if isinstance(entry, Mapping) else {}
        if fields.get("name") != LOW_NODE_UTILIZATION:
            arguments.set_aside("strategies", fields.get("name", entry), "not a known strategy", None)
            continue
        parameters = Arguments({"params": fields.get("params")}).nested("params")
        found = _strategy(parameters)
        arguments.problems += parameters.problems
    return found


def _strategy(parameters: Arguments) -> Thresholds:
    return Thresholds(
        _percentages(parameters.nested("thresholds")), _percentages(parameters.nested("targetThresholds"))
    )


def _percentages(arguments: Arguments) -> Column:
    """Shape (2,): the percentages of cpu and memory."""
    return np.array([arguments.number(name, DEFAULT_PERCENTAGE) for name in (CPU, MEMORY)])
