"""The load of the nodes that refuse a Pod."""

from collections.abc import Iterator

import numpy as np

from scheduler.api.job import Job
from scheduler.api.task import Task
from scheduler.framework.remedies.gates import Gate, GateKind
from scheduler.framework.remedies.registry import pod_details
from scheduler.framework.session import Session
from scheduler.plugins.usage.plugin import BUSY_CPU, BUSY_MEMORY, Usage
from scheduler.plugins.usage.settings import Settings


@pod_details(Usage)
def loads(session: Session, plugin: Usage, task: Task, job: Job, reasons: set[str]) -> Iterator[Gate]:
    usage = session.snapshot.usage
    if usage is None or reasons.isdisjoint((BUSY_CPU, BUSY_MEMORY)):
        return
    settings, known = Settings(session.arguments(Usage.name)), usage.known(session.now)
    for what, load, most in (("cpu", usage.cpu, settings.max_cpu), ("memory", usage.memory, settings.max_memory)):
        busy = np.flatnonzero(known & (load > most))
        if len(busy):
            row = int(busy[load[busy].argmin()])
            idlest = f"the idlest of them, {session.nodes.names[row]}, uses {load[row]:g}%"
            text = f"{len(busy)} of {len(known)} nodes use more than {most:g}% of their {what}; {idlest}"
            yield Gate(GateKind.NODES, text, Usage.name)
