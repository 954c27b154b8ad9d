"""Which queue is charged for a Pod that holds a node, and the Event when that is not the queue of its PodGroup.

The queue that admitted a Pod is charged until the Pod holds nothing any more, as the record of its binding says: moving
the Pod to another PodGroup, or the PodGroup to another queue, and deleting the PodGroup change nothing. A Pod without a
record, bound by Volcano or by an earlier version, is charged to the queue of its PodGroup.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from scheduler.api.job import Job
from scheduler.api.names import BINDING_RECORD, EVENT_CHARGED_QUEUE, GROUP_NAME
from scheduler.api.reasons import Malformed
from scheduler.api.task import Task, TaskStatus

Amounts = dict[str, float]
"""``cpu`` (thousandths), ``memory`` (bytes) or the name of a card (thousandths) -> amount."""
HELD_STATUSES: Final = (
    TaskStatus.ALLOCATED,
    TaskStatus.BINDING,
    TaskStatus.BOUND,
    TaskStatus.RUNNING,
    TaskStatus.UNKNOWN,
)
"""Statuses of tasks that hold a node and do not terminate."""


@dataclass(slots=True)
class Holding:
    """What tasks on nodes hold."""

    allocated: Amounts
    releasing: Amounts
    """Of tasks that terminate: held until they are gone."""

    def add(self, other: "Holding") -> None:
        add(self.allocated, other.allocated.items())
        add(self.releasing, other.releasing.items())

    def __str__(self) -> str:
        """``<NVIDIA-H200> 1000, <cpu> 2000``, in the units of amounts."""
        sums = Holding({}, {})
        sums.add(self)
        add(sums.allocated, sums.releasing.items())
        return ", ".join(f"<{name}> {amount:.0f}" for name, amount in sorted(sums.allocated.items()) if amount)


def add(sums: Amounts, amounts: Iterable[tuple[str, float]], sign: float = 1.0) -> None:
    """Add amounts (or, with ``sign`` -1, take them away) by name."""
    for name, amount in amounts:
        sums[name] = sums.get(name, 0.0) + sign * amount


def charged_queue(task: Task, present: str) -> str:
    """The queue that is charged for a task on a node. ``present``: the queue of its job."""
    return present if task.record is None else task.record.queue


def moved(job: Job, queue: str, holding: Holding) -> Malformed:
    """A queue is charged for tasks of a job of another queue."""
    return Malformed(
        "PodGroup",
        job.namespace,
        job.name,
        "spec.queue",
        f"queue <{job.queue}> did not admit all running Pods of the PodGroup",
        f"queue <{queue}>, which admitted some, is charged for these until they end",
        EVENT_CHARGED_QUEUE,
        str(holding),
    )


def without_group(task: Task, queue: str, holding: Holding) -> Malformed:
    """A queue is charged for a task of no job."""
    return Malformed(
        "Pod",
        task.namespace,
        task.name,
        f"metadata.annotations[{GROUP_NAME}]",
        f"PodGroup {task.job} does not exist" if task.job else "no PodGroup is named",
        f"queue <{queue}>, which admitted the Pod, is charged for it until it ends",
        EVENT_CHARGED_QUEUE,
        str(holding),
    )


def without_record(task: Task, queues: Iterable[str], holding: Holding) -> Malformed:
    """Every queue that may have admitted a task is charged for it."""
    charged = ", ".join(f"<{queue}>" for queue in queues) or "none"
    return Malformed(
        "Pod",
        task.namespace,
        task.name,
        f"metadata.annotations[{BINDING_RECORD}]",
        "no record that the scheduler signed, so the queue that admitted the Pod is not known",
        f"every queue that PodGroups of the namespace name is charged for it until it ends ({charged})",
        EVENT_CHARGED_QUEUE,
        str(holding),
    )
