"""The number of revocable nodes, and whether a Pod may use them."""

from collections.abc import Iterator
from datetime import datetime

from scheduler.api.job import Job
from scheduler.api.names import REVOCABLE_ZONE
from scheduler.api.task import Task, revocable
from scheduler.framework.remedies.gates import Gate, GateKind
from scheduler.framework.remedies.registry import pod_details
from scheduler.framework.session import Session
from scheduler.plugins.tdm.plugin import Tdm


@pod_details(Tdm)
def zones(session: Session, plugin: Tdm, task: Task, job: Job, reasons: set[str]) -> Iterator[Gate]:
    if any("revocable" in reason for reason in reasons):
        codes, _ = session.nodes.facts.label_column(REVOCABLE_ZONE)
        number = int((codes >= 0).sum())
        clock = datetime.fromtimestamp(session.now).strftime("%H:%M")
        who = "may use them" if revocable(task.cls.annotations) else f"may not, without annotation {REVOCABLE_ZONE}"
        yield Gate(
            GateKind.NODES, f"{number} of {len(codes)} nodes are on loan, {task.name} {who}; it is {clock}", Tdm.name
        )
