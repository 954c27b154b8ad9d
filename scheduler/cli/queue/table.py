"""Queues with the PodGroups in them, counted by phase: the status of a Queue holds no such counts."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler.api.names import DEFAULT_QUEUE
from scheduler.cli.output import Column
from scheduler.cli.text import pairs
from scheduler.cli.view import View

if TYPE_CHECKING:
    from scheduler.api.scheduling import PodGroup, Queue


@dataclass(frozen=True)
class QueueRow:
    queue: "Queue"
    groups: Counter[str]
    """PodGroups by phase."""


def _count(phase: str) -> "Column[QueueRow]":
    return Column(phase, lambda row: row.groups[phase], 8)


_COLUMNS: tuple[Column[QueueRow], ...] = (
    Column("Name", lambda row: row.queue.metadata.name, 25),
    Column("Weight", lambda row: row.queue.spec.weight, 8),
    Column("State", lambda row: row.queue.status.state, 8, phase=True),
    Column("Parent", lambda row: row.queue.spec.parent, 8),
    *(_count(phase) for phase in ("Inqueue", "Pending", "Running", "Unknown", "Completed")),
    Column("Deserved", lambda row: pairs((row.queue.spec.deserved or {}).items()), wide=True),
    Column("Capability", lambda row: pairs((row.queue.spec.capability or {}).items()), wide=True),
    Column("Allocated", lambda row: pairs((row.queue.status.allocated or {}).items()), wide=True),
)


def queue_view(wanted: "Callable[[Queue], bool]", labels: str = "") -> View[QueueRow]:
    """The queues that are wanted."""
    from scheduler.api.kinds import POD_GROUP, QUEUE
    from scheduler.cluster.kube.transport.sources import Source

    return View(
        (Source(QUEUE, labels=labels), Source(POD_GROUP)),
        lambda objects: _rows([q for q in objects[QUEUE.name] if wanted(q)], objects[POD_GROUP.name]),
        _COLUMNS,
        lambda row: row.queue,
    )


def _rows(queues: "list[Queue]", groups: "list[PodGroup]") -> list[QueueRow]:
    counts: dict[str, Counter[str]] = {queue.metadata.name: Counter() for queue in queues}
    for group in groups:
        counter = counts.get(group.spec.queue or DEFAULT_QUEUE)
        if counter is not None:
            counter[group.status.phase or "Pending"] += 1
    return [QueueRow(queue, counts[queue.metadata.name]) for queue in queues]
