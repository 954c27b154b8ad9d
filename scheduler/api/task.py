"""A task is one Pod as the scheduler sees it; a task class is what equal Pods have in common.

Pods stamped from one template ask for the same and are treated the same by every predicate and score. All that is kept
once, in the TaskClass; a Task holds only what differs. Both are immutable: a Pod that changes becomes a new Task, so a
session on another thread can go on reading the old one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from operator import attrgetter
from typing import Final

from scheduler.api.binding_record import BindingRecord
from scheduler.api.names import PREEMPTABLE, QUEUE_ALLOCATION_GATE, REVOCABLE_ZONE, TRUE
from scheduler.api.objects import Affinity, PodSpec
from scheduler.api.resource import Vector


class TaskStatus(Enum):
    """Where a task is on its way; Allocated, Pipelined and Binding exist only inside the scheduler."""

    PENDING = "Pending"
    ALLOCATED = "Allocated"
    PIPELINED = "Pipelined"
    BINDING = "Binding"
    BOUND = "Bound"
    RUNNING = "Running"
    RELEASING = "Releasing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    __hash__ = object.__hash__  # members are singletons, and these are hashed on the hot path


MOST_EARLIER: Final = 16
"""Annotations that are remembered although they were changed."""
ALLOCATED_STATUSES = frozenset({TaskStatus.BOUND, TaskStatus.BINDING, TaskStatus.RUNNING, TaskStatus.ALLOCATED})
"""Statuses whose resources count as allocated to the job and its queue."""


READY_STATUSES = ALLOCATED_STATUSES | {TaskStatus.SUCCEEDED}
"""Statuses that count towards a gang's minimum."""

FINISHED_STATUSES = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED})
"""Statuses of tasks that hold nothing of the node they were on."""


def pod_status(phase: str, deleting: bool, node_name: str) -> TaskStatus:
    """The status of a task from its Pod (Volcano's getTaskStatus)."""
    if phase == "Running":
        return TaskStatus.RELEASING if deleting else TaskStatus.RUNNING
    if phase in ("Pending", ""):
        if deleting:
            return TaskStatus.RELEASING
        return TaskStatus.BOUND if node_name else TaskStatus.PENDING
    if phase == "Succeeded":
        return TaskStatus.SUCCEEDED
    if phase == "Failed":
        return TaskStatus.FAILED
    return TaskStatus.UNKNOWN


@dataclass(frozen=True, slots=True)
class MountedClaim:
    """A PersistentVolumeClaim that Pods mount, of their own namespace."""

    name: str
    owner: str = ""
    """uid of the Pod that it has to belong to: it is the claim of an ephemeral volume."""


@dataclass(frozen=True, slots=True)
class PodClaim:
    """One entry of ``spec.resourceClaims``, as it stands for the waiting Pods of a class."""

    entry: str
    claim: str = ""
    """Name of the ResourceClaim that is meant for all of them, or that is allocated to the only one."""
    shape: bytes = b""
    """Each has its own, made from a template and not allocated: the spec that these have in common, as JSON."""
    problem: str = ""
    """Why there is none that could be used."""


@dataclass(slots=True, eq=False)
class TaskClass:
    """What equal tasks share. Identity is equality: the cache interns classes, one object per distinct shape."""

    id: int
    """Small and unique in the life of a cache."""
    namespace: str
    labels: dict[str, str]
    """The Pod labels that some selector in the cluster, or a plugin, looks at; others may differ within the class."""
    annotations: dict[str, str]
    """The Pod annotations that plugins look at when they place a task."""
    spec: PodSpec
    """The Pod's spec, less what differs from Pod to Pod (node name), volumes that do not matter here, and all
    scheduling gates but that of queue admission where it is the only one."""
    request: Vector
    """What one task takes from a node (init containers, sidecars, overhead counted; ``pods`` is 1)."""
    best_effort: bool
    """Nothing but ``pods`` is asked for."""
    nonzero: tuple[float, float]
    """cpu (milli) and memory (bytes) asked for, with kube-scheduler's defaults for containers that ask for none."""
    claims: tuple[MountedClaim, ...] = ()
    shape_id: int = -1
    """Equal for classes that differ only in ``claims``; -1 for classes without claims."""
    device_claims: tuple[PodClaim, ...] = ()
    """What is known of their ResourceClaims; of Pods on nodes nothing."""
    workload: str = ""
    """``Kind/name`` of the ReplicationController, ReplicaSet or StatefulSet that manages the Pods, or ""."""

    @property
    def at_queue_gate(self) -> bool:
        """Its tasks have one scheduling gate, that of queue admission."""
        return self.spec.scheduling_gates is not None

    @property
    def asks_admission(self) -> bool:
        """Its tasks have asked to be held back until their queue has room for them."""
        return self.annotations.get(QUEUE_ALLOCATION_GATE) == "true"

    @property
    def affinity(self) -> Affinity | None:
        return self.spec.affinity


@dataclass(slots=True, eq=False)
class Task:
    """One Pod at one moment."""

    uid: str
    namespace: str
    name: str
    job: str
    """Key of the job it belongs to (``namespace/podgroup``), or "" if it names no PodGroup."""
    cls: TaskClass
    role: str
    """The vcjob task it belongs to, or ""."""
    status: TaskStatus
    node: str
    """Name of the node it is on, or ""."""
    priority: int
    creation: float
    """Seconds since the epoch."""
    index: int
    """The number at the end of a name of three parts or more (``job-worker-3``), else -1."""
    gated: bool
    """It has scheduling gates."""
    preemptable: bool
    nominated: str
    """Node nominated by an earlier preemption, or ""."""
    annotations: dict[str, str]
    """The few annotations that differ from Pod to Pod and are read (chips held), else empty."""
    resource_version: str
    ours: bool
    """Its schedulerName is one of ours."""
    message: str = ""
    """Message of the PodScheduled condition as the API server has it; unchanged ones are not written again."""
    labels: dict[str, str] = field(default_factory=dict)
    """All labels of the Pod."""
    scheduled_at: float = 0.0
    """When the Pod got its node (seconds since the epoch); 0 before."""
    started_at: float = 0.0
    """When its node took the Pod up (seconds since the epoch); 0 before, and where it is not told."""
    device_claims: Mapping[str, str | None] = field(default_factory=dict)
    """Entry of ``spec.resourceClaims`` -> the ResourceClaim made for it from a template; None: it needs none."""
    record: BindingRecord | None = None
    """What the scheduler decided when it bound the Pod: remembered, or read from a record that it signed. Nothing that
    anybody writes onto the Pod changes it. None: not bound by it, takes nothing that is recorded, or not provable."""
    earlier: tuple[tuple[str, str], ...] = ()
    """Keys and values that ``annotations`` had since the Pod has its node, and has no more: its devices may have been
    chosen by them. At most ``MOST_EARLIER``; as many of them mean that there were more."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def copy(self) -> "Task":
        """The same, to be changed; ``dataclasses.replace`` takes three times as long."""
        return Task(*_FIELDS(self))

    def unproven(self, since: float) -> bool:
        """Whether it has a node by a binding that would carry a record if this scheduler had made it: the scheduler
        records what takes chips or cards, since a moment in Unix time."""
        return self.ours and self.record is None and max(self.scheduled_at, self.creation) > since


_FIELDS: Final = attrgetter(*(field.name for field in fields(Task)))


def revocable(annotations: Mapping[str, str]) -> bool:
    """Whether a Pod, or a PodGroup, can do with nodes that are on loan: it says so, or that it may be preempted."""
    zone = annotations.get(REVOCABLE_ZONE)
    return annotations.get(PREEMPTABLE) in TRUE if zone is None else zone == "*"


def index_in_name(name: str) -> int:
    """The trailing number of a Pod name with three or more parts, else -1."""
    parts = name.rsplit("-", 2)
    return int(parts[2]) if len(parts) == 3 and parts[2].isdecimal() and len(parts[2]) < 10 else -1
