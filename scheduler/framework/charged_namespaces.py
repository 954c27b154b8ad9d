"""The queues that are charged for Pods that belong to no queue.

Such Pods run under another scheduler, or without a PodGroup. The annotation ``volcano-py/charged-queue`` of their
Namespace names the queue that they count in, as if they were its own: in its used amounts and cards, and so in its
quota. So workloads move to queues without a restart. This scheduler neither binds nor evicts these Pods.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from scheduler.api.job import Job
from scheduler.api.kinds import NAMESPACE
from scheduler.api.messages import did_you_mean
from scheduler.api.names import CHARGED_QUEUE, ROOT_QUEUE
from scheduler.api.objects import Namespace
from scheduler.api.queue import Queue
from scheduler.api.reasons import Malformed
from scheduler.api.resource import Dimensions, Vector
from scheduler.api.snapshot import NamespaceAmounts, Snapshot
from scheduler.api.task import ALLOCATED_STATUSES, Task
from scheduler.framework.figures import CardsByUser, QueueUsage

_FIELD: Final = f"metadata.annotations[{CHARGED_QUEUE}]"
_CONSEQUENCE: Final = "no queue is charged for Pods of the namespace that belong to none"
_ANNOTATED: Final = "charged namespaces"


class AnySession(Protocol):
    """The part of a session that is read here; plugins and the framework have sessions of different types."""

    @property
    def snapshot(self) -> Snapshot: ...

    @property
    def queues(self) -> dict[str, Queue]: ...

    @property
    def active_jobs(self) -> dict[str, Job]: ...

    @property
    def dimensions(self) -> Dimensions: ...

    def malformed_field(self, malformed: Malformed, /) -> None: ...

    def once(self, make: Callable[[Any], "ChargedPods"], /) -> "ChargedPods": ...

    def memo(
        self, key: Hashable, version: tuple[object, ...], compute: Callable[[Any], Any], constants: Hashable = ..., /
    ) -> Any: ...


class ChargedPods(NamedTuple):
    """What Pods without a queue hold."""

    queues: Mapping[str, str]
    """Namespace -> the queue that is charged for its Pods, perhaps one that another scheduler serves."""
    amounts: Mapping[str, Vector]
    """Queue -> what it is charged for; queues that are charged for nothing are left out."""
    online: Mapping[str, Vector]
    """Queue -> the part of it that online Pods hold."""
    others: Vector
    """What the Pods hold that no queue is charged for."""


def charged_pods(session: AnySession) -> ChargedPods:
    """Returns the sums over the Pods without a queue. Sessions call it by ``once``, because it reports namespaces whose
    annotation names no queue that can be charged."""
    annotated: dict[str, str] = session.memo(_ANNOTATED, (session.snapshot.objects[NAMESPACE],), _annotated_of(session))
    queues: dict[str, str] = {}
    for namespace, name in annotated.items():
        if name != ROOT_QUEUE and (name in session.queues or name in session.snapshot.other_queues):
            queues[namespace] = name
        else:
            problem = _problem(name, session.queues)
            session.malformed_field(Malformed("Namespace", "", namespace, _FIELD, problem, _CONSEQUENCE))
    held, dimensions = session.snapshot.without_queue.amounts, session.dimensions
    constants = tuple(queues.items()), dimensions.width
    sums: ChargedPods = session.memo(ChargedPods, (held,), lambda _: _sums(held, queues, dimensions), constants)
    return sums


def _sums(held: Mapping[str, NamespaceAmounts], queues: Mapping[str, str], dimensions: Dimensions) -> ChargedPods:
    """``queues``: namespace -> the queue that is charged for its Pods."""
    fit = dimensions.fit
    amounts: dict[str, Vector] = {}
    online: dict[str, Vector] = {}
    others = dimensions.zeros()
    for namespace, its in held.items():
        queue = queues.get(namespace)
        if queue is not None:
            amounts[queue] = amounts[queue] + fit(its.allocated) if queue in amounts else fit(its.allocated)
            online[queue] = online[queue] + fit(its.online) if queue in online else fit(its.online)
        else:
            others += fit(its.allocated)
    return ChargedPods(dict(queues), amounts, online, others)


def amounts_without_queue(session: AnySession) -> Vector:
    """Returns what Pods hold that count in no queue: those without a queue that none is charged for, and those of jobs
    whose queue does not exist."""
    total: Vector = session.once(charged_pods).others.copy()
    queues = session.queues
    for job in session.active_jobs.values():
        if job.queue not in queues:
            total += job.allocated
    return total


def cards_without_queue(used: CardsByUser) -> dict[str, QueueUsage]:
    """Returns the cards in use that count in no queue. ``used``: all cards in use (``Session.cards_in_use``)."""
    found: dict[str, QueueUsage] = {}
    for user, cards in used.items():
        for card, amount in cards.items() if not user.queue else ():
            before = found.get(card, QueueUsage(0.0, 0.0, online=0.0))
            online = (before.online or 0.0) + amount * user.online
            found[card] = QueueUsage(before.used + amount, 0.0, online=online)
    return dict(sorted(found.items()))


def tasks_with_claims(session: AnySession) -> Iterator[tuple[str, Task]]:
    """Yields the tasks without a queue that hold ResourceClaims, with the queues that are charged for them."""
    queues = session.once(charged_pods).queues
    for group in session.snapshot.without_queue.groups.values() if queues else ():
        if group.namespace in queues and group.cls.spec.resource_claims:
            for task in group.tasks:
                if task.status in ALLOCATED_STATUSES:
                    yield queues[group.namespace], task


def _annotated_of(session: AnySession) -> Callable[[object], dict[str, str]]:
    namespaces: Mapping[str, Namespace] = session.snapshot.objects[NAMESPACE]

    def compute(last: object) -> dict[str, str]:
        """Returns namespace -> the value of its annotation."""
        del last
        found = ((name, (each.metadata.annotations or {}).get(CHARGED_QUEUE)) for name, each in namespaces.items())
        return {name: value for name, value in sorted(found) if value is not None}

    return compute


def _problem(name: str, queues: Collection[str]) -> str:
    if name == ROOT_QUEUE:
        return f"queue {ROOT_QUEUE} has no Pods of its own"
    return f"queue {name[:64]!r} does not exist{did_you_mean(name, queues)}" if name else "the name of a queue is empty"
