"""What a session decides, as data. The cluster side carries it out, in this order of importance: bindings,
evictions and gates, then PodGroup, Pod and Queue status, then Events.
"""

from collections import Counter
from dataclasses import dataclass, field

import msgspec

from scheduler.api.admission_record import AdmissionRecord
from scheduler.api.binding_record import BindingRecord
from scheduler.api.job import Job
from scheduler.api.names import SCHEDULING_API_VERSION
from scheduler.api.preparation import Preparation
from scheduler.api.scheduling import PodGroupCondition
from scheduler.api.task import Task


class Bind(msgspec.Struct, frozen=True, gc=False):
    """Bind a Pod to a node, writing the annotations in the same call. A struct, since sessions make them by the ten
    thousand: it is made faster than a dataclass, and the collector of cycles, which cannot find any here, passes it
    over."""

    task: Task
    node: str
    annotations: dict[str, str]
    preparations: tuple[Preparation, ...] = ()
    """What must be so of other objects before."""
    together: int = 0
    """Bindings of one ``Decisions`` with the same number other than 0 come about together or not at all, as far as
    preparations go: none is made before those of all are done."""
    record: BindingRecord | None = None
    """What is to be known of the binding whatever becomes of the annotations; None for Pods that take nothing recorded.
    A cluster writes it, signed, onto the Pod in the same call."""


@dataclass(frozen=True, slots=True)
class Evict:
    """Delete a Pod, saying why."""

    task: Task
    reason: str


@dataclass(frozen=True, slots=True)
class Ungate:
    """Take the scheduling gate of queue admission off a Pod: its queue has room for it."""

    task: Task


@dataclass(frozen=True, slots=True)
class PodGroupStatusUpdate:
    """The new status of a PodGroup; every field is the whole new value."""

    namespace: str
    name: str
    uid: str
    phase: str
    conditions: tuple[PodGroupCondition, ...]
    running: int
    succeeded: int
    failed: int
    admits: bool = False
    """The job may have its Pods from now on (enqueued): they are waiting for this, as for a binding."""
    admission: AdmissionRecord | None = None
    """What a job that is in its queue was admitted with; None for other phases, and for jobs that announce no need. A
    cluster writes it, signed, onto the PodGroup in the same call."""
    removes_record: bool = False
    """The PodGroup carries a record of its admission that no longer counts."""


@dataclass(frozen=True, slots=True)
class PodUnschedulable:
    """Set a Pod's PodScheduled condition to False, and its nominated node where one is given."""

    task: Task
    reason: str
    message: str
    nominated: str = ""


@dataclass(frozen=True, slots=True)
class QueueAllocated:
    """The new status.allocated of a Queue."""

    name: str
    allocated: dict[str, str]


class ObjectRef(msgspec.Struct, frozen=True, gc=False):
    """The object an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""


def group_ref(job: Job) -> ObjectRef:
    """The job's PodGroup as the subject of an Event."""
    return ObjectRef(SCHEDULING_API_VERSION, "PodGroup", job.namespace, job.name, job.uid)


def pod_ref(task: Task) -> ObjectRef:
    """The task's Pod as the subject of an Event."""
    return ObjectRef("v1", "Pod", task.namespace, task.name, task.uid)


class EventPost(msgspec.Struct, frozen=True, gc=False):
    """An Event; equal ones are counted, not posted again."""

    about: ObjectRef
    type: str
    reason: str
    message: str


@dataclass(slots=True)
class Decisions:
    """All that one session wants done."""

    binds: list[Bind] = field(default_factory=list)
    evictions: list[Evict] = field(default_factory=list)
    ungates: list[Ungate] = field(default_factory=list)
    pod_groups: list[PodGroupStatusUpdate] = field(default_factory=list)
    pods: list[PodUnschedulable] = field(default_factory=list)
    queues: list[QueueAllocated] = field(default_factory=list)
    events: list[EventPost] = field(default_factory=list)
    eviction_transactions: Counter[str] = field(default_factory=Counter)
    """Action -> how many of its statements with evictions were committed. Told in metrics; nothing is to be done."""
    preemption_attempts: int = 0
    """Nodes on which evictions were tried for a Pod of the same queue. Told in metrics, too."""

    def __bool__(self) -> bool:
        placed = self.binds or self.evictions or self.ungates
        return bool(placed or self.pod_groups or self.pods or self.queues or self.events)
