"""rescheduling: periodically names victims for the action shuffle, so that Pods move to less loaded nodes (Volcano's
rescheduling plugin).

The strategy lowNodeUtilization evicts Pods from busy nodes while other nodes are idle. A node is idle if its cpu and
memory loads are below ``thresholds``, and busy if one of them is above the target. A Pod is assumed to use its request.
Pods are evicted until the busy nodes are below the target, or until the idle nodes would reach it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

import msgspec
import numpy as np

from scheduler.api.names import CPU, MEMORY
from scheduler.api.node import Column, Nodes, Rows
from scheduler.api.pod_amounts import Qos, qos_of
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX
from scheduler.api.task import Task
from scheduler.api.usage import PERIOD, UsageColumns
from scheduler.framework.arguments import Arguments
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin
from scheduler.plugins.support.periodic import is_due

LOW_NODE_UTILIZATION: Final = "lowNodeUtilization"
DEFAULT_INTERVAL: Final = 300.0
DEFAULT_PERCENTAGE: Final = 100.0
_PAIR: Final = [CPU_INDEX, MEMORY_INDEX]


class Thresholds(msgspec.Struct, frozen=True):
    """Percentages of cpu and memory; both of shape (2,)."""

    idle: Column
    """A node below is idle."""
    target: Column
    """A node above is busy."""


def choose_victims(
    nodes: Nodes, usage: UsageColumns, now: float, thresholds: Thresholds, running: Iterable[Task]
) -> list[Task]:
    """Returns the tasks to evict: from the busiest node first, then by lowest priority, lowest QoS class, and youngest
    age."""
    load = np.stack([usage.cpu, usage.memory])
    known = usage.known(now)
    idle = known & (load < thresholds.idle[:, np.newaxis]).all(axis=0) & ~nodes.facts.unschedulable
    busy = known & (load > thresholds.target[:, np.newaxis]).any(axis=0) & ~idle
    if not idle.any() or not busy.any():
        return []
    room = _room(nodes, load, np.flatnonzero(idle), thresholds.target)
    order = sorted(np.flatnonzero(busy).tolist(), key=lambda row: -load[:, row].sum())
    tasks = _by_row(nodes, running)
    victims: list[Task] = []
    qos: dict[int, Qos] = {}
    for row in order:
        here, capacity = load[:, row], nodes.capacity[_PAIR, row]
        for task in _in_eviction_order(tasks.get(row, ()), qos):
            if (here < thresholds.target).all() or (room <= 0).any():
                break
            freed = task.cls.request[_PAIR]
            room = room - freed
            here = here - 100.0 * np.divide(freed, capacity, out=np.zeros(2), where=capacity > 0)
            victims.append(task)
    return victims


def _room(nodes: Nodes, load: Column, idle: Rows, target: Column) -> Column:
    """Returns the cpu and memory that the idle nodes can take until they reach the target, shape (2,)."""
    allocatable = nodes.allocatable[_PAIR][:, idle]
    room: Column = np.trunc((target[:, np.newaxis] - load[:, idle]) * 0.01 * allocatable).sum(axis=1)
    return room


def _by_row(nodes: Nodes, tasks: Iterable[Task]) -> dict[int, list[Task]]:
    result: dict[int, list[Task]] = {}
    for task in tasks:
        row = nodes.index.get(task.node)
        if row is not None:
            result.setdefault(row, []).append(task)
    return result


def _in_eviction_order(tasks: Sequence[Task], qos: dict[int, Qos]) -> list[Task]:
    """Sorts tasks in the order of eviction. ``qos``: a cache by class."""
    for task in tasks:
        if task.cls.id not in qos:
            qos[task.cls.id] = qos_of(task.cls.spec)
    return sorted(tasks, key=lambda task: (task.priority, qos[task.cls.id], -task.creation, task.key))


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

    def open(self, session: PluginSession) -> None:
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
    """Returns the percentages of cpu and memory, shape (2,)."""
    return np.array([arguments.number(name, DEFAULT_PERCENTAGE) for name in (CPU, MEMORY)])
