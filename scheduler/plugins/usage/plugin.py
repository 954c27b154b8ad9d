"""The plugin: nodes above the load thresholds take no new Pods, and nodes with less load are preferred.

A monitoring system measures the load (``metrics:`` in the configuration file). Nodes without current measurements pass
the filter and score 0. For ``explain``, the plugin names the load of the nodes that refuse a Pod, and offers higher
thresholds.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from math import ceil
from typing import ClassVar, Final

import msgspec
import numpy as np

from scheduler.api.job import Job
from scheduler.api.names import CPU, MEMORY
from scheduler.api.node import Column, Mask, Rows
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.resource import scale_of
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import CodedFilter, Counts, PinUse, Scope, Score
from scheduler.framework.configuration import DEFAULT_INTERVAL
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Plan, Step
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.gates import Gate, GateKind
from scheduler.framework.remedies.registry import pod_details, remedies
from scheduler.framework.session import Session
from scheduler.plugins.usage.estimated_load import EstimatedLoad, Pair, Rates, Weights

BUSY_CPU: Final = "the CPU load of the node exceeds the upper limit."
BUSY_MEMORY: Final = "the memory load of the node exceeds the upper limit."
BEST: Final = 100.0
_ALL: Final = 100
"""The highest threshold, in per cent."""
_UNITS: Final = {CPU: 1.0, MEMORY: 1024.0 * 1024}
"""The unit of a plain number in ``be_cpu`` (milli-cores) and ``be_mem`` (MiB)."""
_ARRIVING: Final = (TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.BOUND)


@register_plugin
class Usage:
    """Arguments: ``usage.weight`` (5), ``cpu.weight`` and ``memory.weight`` (1 each), ``thresholds`` (``cpu`` and
    ``mem``, 80 per cent each), ``estimator`` (``request_ratio`` 0.7, ``burst_ratio`` 0, ``risk_threshold`` 0.6,
    ``risk_factor`` 1.2, ``be_cpu`` 250m, ``be_mem`` 200Mi). ``enablePredicate: false`` leaves the thresholds out."""

    name: ClassVar[str] = "usage"

    def __init__(self, arguments: Arguments) -> None:
        thresholds = arguments.nested("thresholds")
        self._weight = arguments.integer("usage.weight", 5, least=0)
        """The weight of the score (0 to 100)."""
        self._weights = Weights(
            arguments.integer("cpu.weight", 1, least=0), arguments.integer("memory.weight", 1, least=0)
        )
        self.max_cpu = thresholds.integer("cpu", 80, least=0, most=100)
        """Percentage of cpu usage above which a node takes no new Pods."""
        self.max_memory = thresholds.integer("mem", 80, least=0, most=100)
        self._rates = _rates(arguments.nested("estimator"))

    def open(self, session: PluginSession) -> None:
        self._session = session
        usage = session.snapshot.usage
        if usage is None:
            return
        self._load = EstimatedLoad(session.nodes, usage, self._rates, self._weights)
        self._placed: dict[str, tuple[int, Pair]] = {}
        """uid -> (row, estimated usage) of a task."""
        self._evicted: dict[str, tuple[int, Pair] | None] = {}
        """uid -> (row, estimated usage) of an evicted task; None if the measurements include the task."""
        for task, row in sorted(self._unmeasured(), key=lambda entry: entry[0].key):
            self._placed[task.uid] = (row, self._load.add(row, task.cls))
        session.add_handlers(self._allocated, self._deallocated)
        known = usage.known(session.now)
        over_memory = np.where(usage.memory > self.max_memory, 1, -1)
        codes = np.where(usage.cpu > self.max_cpu, 0, over_memory)
        busy = CodedFilter(np.where(known, codes, -1).astype(np.int32), (BUSY_CPU, BUSY_MEMORY))
        session.add_filter(lambda cls: [busy], pin=PinUse.IGNORED)
        self._known = known
        session.add_score(self._scores)

    def _unmeasured(self) -> Iterator[tuple[Task, int]]:
        """Yields tasks on nodes that the measurements do not include yet."""
        session, index = self._session, self._session.nodes.index
        source = session.configuration.metrics
        recent = session.now - (source.interval if source is not None else DEFAULT_INTERVAL)
        jobs, without_job = session.jobs.values(), session.snapshot.tasks_without_job
        tasks = [task for job in jobs for status in _ARRIVING for task in job.of(status).values()]
        tasks += [task for task in without_job if task.status in _ARRIVING]
        running = [task for job in jobs for task in job.of(TaskStatus.RUNNING).values()]
        running += [task for task in without_job if task.status is TaskStatus.RUNNING]
        tasks += [task for task in running if not task.started_at or task.started_at > recent]
        return ((task, index[task.node]) for task in tasks if task.node in index)

    def _scores(self, cls: TaskClass) -> list[Score]:
        if not self._weight:
            return []
        return [UsageScore(self._load, self._known, cls, self._weights, BEST * self._weight)]

    # --- placements of the session ---
    def _allocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        for task, row in zip(tasks, rows, strict=True):
            if task.uid in self._evicted:
                before = self._evicted.pop(task.uid)
                if before is not None:
                    self._load.change(*before)
                    self._placed[task.uid] = before
            else:
                self._placed[task.uid] = (row, self._load.add(row, task.cls))

    def _deallocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        for task in tasks:
            held = self._placed.pop(task.uid, None)
            if held is not None:
                self._load.change(held[0], -held[1])
            if task.node:
                self._evicted[task.uid] = held


class UsageScore(msgspec.Struct, eq=False):
    """Scores nodes with less load higher; 0 if the load is unknown."""

    load: EstimatedLoad
    known: Mask
    """Shape (nodes,): whether the load of each node is known."""
    cls: TaskClass
    weights: Weights
    scale: float
    scope = Scope.NODE

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        load = self.load.of(rows) if ahead is None else self.load.ahead(rows, ahead, self.cls)
        score: Column = np.where(self.known[rows], self.weights.mean(1.0 - load) * self.scale, 0.0)
        return score


def _rates(estimator: Arguments) -> Rates:
    defaults = Rates()

    def ratio(key: str, default: float) -> float:
        return estimator.number(key, default, least=0, most=1)

    cpu, memory = defaults.best_effort.tolist()
    return Rates(
        request=ratio("request_ratio", defaults.request),
        burst=ratio("burst_ratio", defaults.burst),
        risk_threshold=ratio("risk_threshold", defaults.risk_threshold),
        risk=estimator.number("risk_factor", defaults.risk, least=1),
        best_effort=np.array([_amount(estimator, "be_cpu", CPU, cpu), _amount(estimator, "be_mem", MEMORY, memory)]),
    )


def _amount(arguments: Arguments, key: str, resource: str, default: float) -> float:
    """Reads a quantity, or an integer in the unit of ``_UNITS``."""
    value = arguments.get(key)
    if value is None:
        return default
    try:
        bare = isinstance(value, int) and not isinstance(value, bool)
        amount = value * _UNITS[resource] if bare else float(parse_quantity(str(value), scale_of(resource)))
    except QuantityError:
        return arguments.set_aside(key, value, "not a quantity", default)
    return amount if amount >= 0 else arguments.set_aside(key, value, "negative", default)


@pod_details(Usage)
def loads(session: Session, plugin: Usage, task: Task, job: Job, reasons: set[str]) -> Iterator[Gate]:
    usage = session.snapshot.usage
    if usage is None or reasons.isdisjoint((BUSY_CPU, BUSY_MEMORY)):
        return
    known = usage.known(session.now)
    for what, load, most in (("cpu", usage.cpu, plugin.max_cpu), ("memory", usage.memory, plugin.max_memory)):
        busy = np.flatnonzero(known & (load > most))
        if len(busy):
            row = int(busy[load[busy].argmin()])
            idlest = f"the idlest of them, {session.nodes.names[row]}, uses {load[row]:g}%"
            text = f"{len(busy)} of {len(known)} nodes use more than {most:g}% of their {what}; {idlest}"
            yield Gate(GateKind.NODES, text, Usage.name)


@remedies(Usage, ChangeKind.LOAD)
def raise_thresholds(evidence: Evidence, plugin: Usage) -> Iterator[Plan]:
    """Proposes to raise the thresholds of ``usage`` so that the least loaded of the refusing nodes passes."""
    usage = evidence.session.snapshot.usage
    if usage is None:
        return
    rows = evidence.rows[usage.known(evidence.session.now)[evidence.rows]]
    measured = (("cpu", CPU, usage.cpu, plugin.max_cpu), ("mem", MEMORY, usage.memory, plugin.max_memory))
    adjustments = []
    for key, resource, load, most in measured:
        busy = load[rows][load[rows] > most]
        if len(busy):
            change, over = partial(_with_threshold, key, resource, int(most)), ceil(float(busy.min()) - most)
            adjustments.append(Adjustment(ChangeKind.LOAD, over, _ALL - int(most), change, resource))
    if adjustments:
        yield tuple(adjustments)


def _with_threshold(key: str, resource: str, now: int, amount: int) -> Step:
    text = f"raise usage's threshold of {resource} from {now}% to {now + amount}%"
    return Step(text, arguments={"usage": {"thresholds": {key: now + amount}}})
