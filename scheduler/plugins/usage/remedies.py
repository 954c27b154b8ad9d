"""For ``explain``: the load of the nodes that refuse a Pod, and a remedy: higher thresholds."""

from collections.abc import Iterator
from functools import partial
from math import ceil
from typing import Final

import numpy as np

from scheduler.api.job import Job
from scheduler.api.names import CPU, MEMORY
from scheduler.api.task import Task
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Plan, Step
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.gates import Gate, GateKind
from scheduler.framework.remedies.registry import pod_details, remedies
from scheduler.framework.session import Session
from scheduler.plugins.usage.plugin import BUSY_CPU, BUSY_MEMORY, Usage, UsageSettings

_ALL: Final = 100
"""Per cent: the highest threshold."""


@pod_details(Usage)
def loads(session: Session, plugin: Usage, task: Task, job: Job, reasons: set[str]) -> Iterator[Gate]:
    usage = session.snapshot.usage
    if usage is None or reasons.isdisjoint((BUSY_CPU, BUSY_MEMORY)):
        return
    settings, known = UsageSettings(session.arguments(Usage.name)), usage.known(session.now)
    for what, load, most in (("cpu", usage.cpu, settings.max_cpu), ("memory", usage.memory, settings.max_memory)):
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
    settings = UsageSettings(evidence.session.arguments("usage"))
    measured = (("cpu", CPU, usage.cpu, settings.max_cpu), ("mem", MEMORY, usage.memory, settings.max_memory))
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
