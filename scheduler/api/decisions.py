"""The decisions of a session, as data.

``cluster`` carries them out in this order of importance: bindings, evictions, gates and the writes of plugins; then
PodGroup, Pod and Queue status; then Events.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from scheduler.api.job import Job
from scheduler.api.kinds import Kind
from scheduler.api.names import EVENT_FAILED_SCHEDULING, EVENT_WARNING, SCHEDULING_API_VERSION
from scheduler.api.preparation import Preparation
from scheduler.api.scheduling import PodGroupCondition
from scheduler.api.signed_records import AdmissionRecord, BindingRecord
from scheduler.api.task import Task


class Bind(msgspec.Struct, frozen=True, gc=False):
    """Bind a Pod to a node, and write the annotations in the same call.

    A struct, because sessions create tens of thousands of them: it is faster to create than a dataclass, and the cyclic
    garbage collector skips it.
    """

    task: Task
    node: str
    annotations: dict[str, str]
    preparations: tuple[Preparation, ...] = ()
    """States of other objects that are required before the binding."""
    together: int = 0
    """Bindings of one ``Decisions`` with the same number other than 0 wait for the preparations of all of them. If one
    preparation fails, none of them is made."""
    record: BindingRecord | None = None
    """The record of the binding, which ``cluster`` writes onto the Pod, signed, in the same call. None for Pods that
    take nothing that is recorded."""


class Evict(msgspec.Struct, frozen=True):
    """Delete a Pod for a reason."""

    task: Task
    reason: str
    grace_period: int | None = None
    """Seconds that the Pod has to stop; None: as long as its spec says. With 0 the API server removes the Pod at once,
    without a kubelet that confirms that it has stopped."""


class ObjectWrite(msgspec.Struct, frozen=True):
    """Write an object in which a plugin keeps state, or which it shares with other components."""

    kind: Kind
    namespace: str
    name: str
    body: Mapping[str, Any]
    """A merge patch (RFC 7386) without uid and resource version; for a new object, its fields."""
    uid: str = ""
    """The uid of the object to change; "": any object with the name is changed."""
    resource_version: str = ""
    """The version of the object to change; "": any version. If there is another one, the write is dropped, and
    the next session decides again from that version."""
    new: bool = False
    """The object does not exist, and is created. If it exists by then, the write is dropped."""
    create: bool = False
    """Whether the object is created if it does not exist."""
    about: "tuple[ObjectRef, ...]" = ()
    """The objects whose owners are warned by an Event if the API server refuses the write."""
    consequence: str = ""
    """What the refusal means for them, for the Event."""
    optional: bool = False
    """The right to make the write need not be given: a refusal is no error."""


class Ungate(msgspec.Struct, frozen=True):
    """Remove the scheduling gate of queue admission from a Pod, because its queue has room for it."""

    task: Task


class PodGroupStatusUpdate(msgspec.Struct, frozen=True):
    """The new status of a PodGroup. Each field replaces the old value."""

    namespace: str
    name: str
    uid: str
    phase: str
    conditions: tuple[PodGroupCondition, ...]
    running: int
    succeeded: int
    failed: int
    admits: bool = False
    """Whether it admits the job (enqueue). The Pods of the job are created only then, so the write is as urgent as a
    binding."""
    admission: AdmissionRecord | None = None
    """What an Inqueue job was admitted with, which ``cluster`` writes onto the PodGroup, signed, in the same call. None
    for other phases, and for jobs that declare neither minResources nor cards."""
    removes_record: bool = False
    """Whether to remove an admission record that no longer counts."""
    alternative: str = ""
    """The alternative that the scheduler has chosen for a vcjob (``api.card_alternatives``); "": the job lists none."""


class PodUnschedulable(NamedTuple):
    """Set the PodScheduled condition of a Pod to False, and its nominated node if there is one."""

    task: Task
    reason: str
    message: str
    nominated: str = ""


class PodsUnschedulable(NamedTuple):
    """Set the PodScheduled condition of Pods, at least one, to False for the same reason.

    One decision for many Pods: thousands may wait, and the numbers in their message change with every session.
    """

    tasks: Sequence[Task]
    reason: str
    message: str
    nominated: str = ""
    new: bool = True
    """Whether the Pods do not have the message yet. Each then gets an Event FailedScheduling, too."""

    def pods(self) -> Iterator[PodUnschedulable]:
        return (PodUnschedulable(task, self.reason, self.message, self.nominated) for task in self.tasks)

    def events(self) -> "Iterator[EventRecord]":
        if self.new:
            for task in self.tasks:
                yield EventRecord(pod_ref(task), EVENT_WARNING, EVENT_FAILED_SCHEDULING, self.message)


class QueueAllocated(msgspec.Struct, frozen=True):
    """The new amounts in the status of a Queue."""

    name: str
    allocated: dict[str, str]
    cards: dict[str, dict[str, str]] | None = None
    """Card, or other name that a plugin limits -> quota, used, inqueue and requested amount. None: the status has
    none, and gets none."""
    groups: dict[str, int] = msgspec.field(default_factory=dict)
    """Phase in lower case -> number of PodGroups; without phases of which there were none before either."""
    deserved: dict[str, str] | None = None
    """The amounts that it deserves, without zeros. None: as before."""
    only_deserved: bool = False
    """Whether nothing but ``deserved`` differs from before."""
    without_queue: dict[str, Any] | None = None
    """Of the root: ``allocated`` and ``cards`` of the Pods that count in no queue. None: the status has none, and gets
    none."""


class ObjectRef(msgspec.Struct, frozen=True, gc=False):
    """The object of an Event."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""


def group_ref(job: Job) -> ObjectRef:
    """The PodGroup of a job, as the object of an Event."""
    return ObjectRef(SCHEDULING_API_VERSION, "PodGroup", job.namespace, job.name, job.uid)


def pod_ref(task: Task) -> ObjectRef:
    """The Pod of a task, as the object of an Event."""
    return ObjectRef("v1", "Pod", task.namespace, task.name, task.uid)


class EventRecord(msgspec.Struct, frozen=True, gc=False):
    """An Event. Equal Events are counted."""

    about: ObjectRef
    type: str
    reason: str
    message: str


@dataclass(slots=True)
class Decisions:
    """All decisions of one session."""

    binds: list[Bind] = field(default_factory=list)
    evictions: list[Evict] = field(default_factory=list)
    writes: list[ObjectWrite] = field(default_factory=list)
    ungates: list[Ungate] = field(default_factory=list)
    pod_groups: list[PodGroupStatusUpdate] = field(default_factory=list)
    pods: list[PodsUnschedulable] = field(default_factory=list)
    queues: list[QueueAllocated] = field(default_factory=list)
    events: list[EventRecord] = field(default_factory=list)
    """The Events, without those of ``pods``."""
    eviction_transactions: Counter[str] = field(default_factory=Counter)
    """Action -> number of its committed statements with evictions, for metrics."""
    preemption_attempts: int = 0
    """Number of nodes on which the session tried to preempt, for metrics."""

    def __bool__(self) -> bool:
        placed = self.binds or self.evictions or self.ungates or self.writes
        return bool(placed or self.pod_groups or self.pods or self.queues or self.events)


def binding_message(bind: Bind) -> str:
    """The message of the Event of a binding."""
    return f"Successfully assigned {bind.task.key} to {bind.node}"


def eviction_message(reason: str) -> str:
    """The message of the condition and the Event of an evicted Pod."""
    return f"Pod is evicted, because of {reason}"


def preparation_message(bind: Bind, at_fault: Bind, problem: str) -> str:
    """The message about a failed preparation of the Pod itself, or of another Pod of its gang."""
    why = problem if bind is at_fault else f"pod {at_fault.task.key} of its gang: {problem}"
    return f"execute preBind for pod {bind.task.key} failed: {why}, resync the task"
