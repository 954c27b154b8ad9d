"""The queue that is charged for a Pod on a node, and the Event if it is not the queue of the Pod's PodGroup.

The binding record names the queue that admitted the Pod. This queue is charged until the Pod ends, even if the Pod
moves to another PodGroup, or the PodGroup moves to another queue or is deleted. A Pod without a record, bound by
Volcano or by an earlier version, is charged to the queue of its PodGroup.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from scheduler.api.job import Job
from scheduler.api.names import BINDING_RECORD, EVENT_CHARGED_QUEUE, GROUP_NAME
from scheduler.api.reasons import Malformed
from scheduler.api.task import Task, TaskStatus
from scheduler.plugins.capacity_card.demand import PossibleCards

K = TypeVar("K")
Amounts = dict[str, float]
"""``cpu`` (thousandths), ``memory`` (bytes) or the name of a card (thousandths) -> amount."""
Uncertain = dict[PossibleCards, float]
"""Cards, of which each is charged because the held one is not known -> amount in thousandths."""
HELD_STATUSES: Final = (
    TaskStatus.BINDING,
    TaskStatus.BOUND,
    TaskStatus.RUNNING,
    TaskStatus.UNKNOWN,
)
"""Statuses of tasks that are on a node and not terminating. Tasks that a session has allocated, but not bound, because
their gang waits for terminating Pods, are not."""


@dataclass(slots=True)
class CardHolding:
    """What tasks on nodes hold."""

    allocated: Amounts
    releasing: Amounts
    """Held by terminating tasks until they are deleted."""
    uncertain: Uncertain = field(default_factory=dict)
    """Held by tasks, terminating ones too, on nodes that do not say which cards they have."""

    def add(self, other: "CardHolding") -> None:
        add(self.allocated, other.allocated.items())
        add(self.releasing, other.releasing.items())
        add_uncertain(self.uncertain, other.uncertain.items())

    def add_exactly(self, other: "CardHolding", sign: int) -> None:
        """Adds whole amounts, or subtracts them (``sign`` -1). Sums of 0 are left out."""
        add_exactly(self.allocated, other.allocated, sign)
        add_exactly(self.releasing, other.releasing, sign)
        add_exactly(self.uncertain, other.uncertain, sign)

    def __bool__(self) -> bool:
        return bool(self.allocated or self.releasing or self.uncertain)

    def __str__(self) -> str:
        """Formats the amounts: ``<NVIDIA-H200> 1000, <cpu> 2000``."""
        sums = CardHolding({}, {})
        sums.add(self)
        add(sums.allocated, sums.releasing.items())
        add(sums.allocated, ((_described(cards), amount) for cards, amount in sums.uncertain.items()))
        return ", ".join(f"<{name}> {amount:.0f}" for name, amount in sorted(sums.allocated.items()) if amount)


def _described(possible: PossibleCards) -> str:
    if possible.parts:
        return f"{' or '.join(possible.parts)} of an unknown card"
    return " or ".join(possible.cards) or f"{possible.resource} of an unknown card"


def add_uncertain(sums: Uncertain, amounts: Iterable[tuple[PossibleCards, float]]) -> None:
    for cards, amount in amounts:
        sums[cards] = sums.get(cards, 0.0) + amount


def add(sums: Amounts, amounts: Iterable[tuple[str, float]], sign: float = 1.0) -> None:
    """Adds amounts by name, or subtracts them (``sign`` -1)."""
    for name, amount in amounts:
        sums[name] = sums.get(name, 0.0) + sign * amount


def add_exactly(sums: dict[K, float], amounts: Mapping[K, float], sign: int) -> None:
    """Adds whole amounts by name, or subtracts them (``sign`` -1). Sums of 0 are left out."""
    for name, amount in amounts.items():
        value = sums.get(name, 0.0) + sign * amount
        if value:
            sums[name] = value
        else:
            sums.pop(name, None)


def charged_queue(task: Task, present: str) -> str:
    """Returns the queue that is charged for a task on a node. ``present``: the queue of its job."""
    return present if task.record is None else task.record.queue


def charged_elsewhere(job: Job, queue: str, holding: CardHolding) -> Malformed:
    """Reports that a queue is charged for tasks of a job in another queue."""
    problem = f"queue <{job.queue}> did not admit all running Pods of the PodGroup"
    consequence = f"queue <{queue}>, which admitted some, is charged for these until they end"
    charge = EVENT_CHARGED_QUEUE, str(holding)
    return Malformed("PodGroup", job.namespace, job.name, "spec.queue", problem, consequence, *charge)


def missing_group(task: Task, queue: str, holding: CardHolding) -> Malformed:
    """Reports that a queue is charged for a task without a job."""
    problem = f"PodGroup {task.job} does not exist" if task.job else "no PodGroup is named"
    consequence = f"queue <{queue}>, which admitted the Pod, is charged for it until it ends"
    return _charged_pod(task, GROUP_NAME, problem, consequence, holding)


def missing_record(task: Task, queues: Iterable[str], holding: CardHolding) -> Malformed:
    """Reports that every queue that may have admitted a task is charged for it."""
    charged = ", ".join(f"<{queue}>" for queue in queues) or "none"
    problem = "no record that the scheduler signed, so the queue that admitted the Pod is not known"
    consequence = f"every queue that PodGroups of the namespace name is charged for it until it ends ({charged})"
    return _charged_pod(task, BINDING_RECORD, problem, consequence, holding)


def _charged_pod(task: Task, key: str, problem: str, consequence: str, holding: CardHolding) -> Malformed:
    field, charge = f"metadata.annotations[{key}]", (EVENT_CHARGED_QUEUE, str(holding))
    return Malformed("Pod", task.namespace, task.name, field, problem, consequence, *charge)
