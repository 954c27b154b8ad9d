"""Tasks (the scheduler's model of Pods) and task classes (the common part of equal Pods).

Pods of one template have the same requests and the same results of all filters and scores. The TaskClass holds these
common parts once; a Task holds what differs from Pod to Pod. A changed Pod becomes a new Task, so a session on another
thread can keep reading the old one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

import msgspec
from msgspec.structs import replace

from scheduler.api.names import (
    GPU_PREDICATE_TIME,
    PREDICATE_TIME,
    PREEMPTABLE,
    QUEUE_ALLOCATION_GATE,
    REVOCABLE_ZONE,
    TRUE,
)
from scheduler.api.objects import Affinity, Container, PodSpec
from scheduler.api.resource import Vector
from scheduler.api.signed_records import BindingRecord


class TaskStatus(Enum):
    """The status of a task. Allocated, Pipelined and Binding exist only inside the scheduler."""

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


MAX_EARLIER: Final = 16
"""Limit of former annotation values in ``Task.earlier``."""
ALLOCATED_STATUSES = frozenset({TaskStatus.BOUND, TaskStatus.BINDING, TaskStatus.RUNNING, TaskStatus.ALLOCATED})
"""Statuses whose resources count as allocated to the job and its queue."""


READY_STATUSES = ALLOCATED_STATUSES | {TaskStatus.SUCCEEDED}
"""Statuses that count towards a gang's minimum."""

FINISHED_STATUSES = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED})
"""Statuses of tasks that no longer hold resources of their node."""


def pod_status(phase: str, deleting: bool, node_name: str) -> TaskStatus:
    """Returns the status of the task of a Pod (Volcano's getTaskStatus)."""
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


class MountedClaim(msgspec.Struct, frozen=True):
    """A PersistentVolumeClaim that Pods of its namespace mount."""

    name: str
    owner: str = ""
    """uid of the Pod that must own it, for the claim of an ephemeral volume."""


class PodClaim(msgspec.Struct, frozen=True):
    """An entry of ``spec.resourceClaims``, for the pending Pods of a class."""

    entry: str
    claim: str = ""
    """Name of the ResourceClaim that all Pods share, or that is allocated to the only Pod."""
    shape: bytes = b""
    """Each Pod has its own claim, made from a template and not allocated: the common spec of these claims, as JSON."""
    problem: str = ""
    """Why there is no usable claim."""


@dataclass(slots=True, eq=False)
class TaskClass:
    """The common part of equal tasks. Compared by identity: the cache interns classes, one per distinct shape."""

    id: int
    """A small number, unique within a cache."""
    namespace: str
    labels: dict[str, str]
    """The Pod labels that a selector in the cluster or a plugin reads. Other labels may differ within the class."""
    annotations: dict[str, str]
    """The Pod annotations that plugins read when they place a task."""
    spec: PodSpec
    """The Pod's spec without the fields that differ from Pod to Pod (node name), irrelevant volumes, and scheduling
    gates (the gate of queue admission stays if it is the only one). During a resize, with the amounts that the Pod
    holds."""
    request: Vector
    """What one task takes from a node, with init containers, sidecars and overhead; ``pods`` is 1."""
    best_effort: bool
    """The request has only ``pods``."""
    nonzero: tuple[float, float]
    """Requested cpu (milli) and memory (bytes), with kube-scheduler's defaults for containers without a request."""
    claims: tuple[MountedClaim, ...] = ()
    shape_id: int = -1
    """Equal for classes that differ only in ``claims``; -1 for classes without claims."""
    pinned_to: str = ""
    """The node of its ``pod_rules.Pin``, or ""; "" for classes with claims, too."""
    pin_id: int = -1
    """Equal for classes that differ only in ``pinned_to``; -1 for classes that are not pinned."""
    device_claims: tuple[PodClaim, ...] = ()
    """Their ResourceClaims; empty for Pods on nodes."""
    workload: str = ""
    """``Kind/name`` of the ReplicationController, ReplicaSet or StatefulSet that manages the Pods, or ""."""
    online: bool = False
    """Whether its tasks serve until they are stopped (``workloads.is_online``)."""

    @property
    def at_queue_gate(self) -> bool:
        """Whether its tasks have only one scheduling gate, that of queue admission."""
        return self.spec.scheduling_gates is not None

    @property
    def requests_queue_gate(self) -> bool:
        """Whether its tasks request to be gated until their queue has room for them."""
        return self.annotations.get(QUEUE_ALLOCATION_GATE) == "true"

    @property
    def affinity(self) -> Affinity | None:
        return self.spec.affinity


class Task(msgspec.Struct, eq=False, gc=False):
    """The state of one Pod at one time. It must not refer to anything that refers back to it.

    A struct, because a cluster can have a million of them: a changed copy takes a thirtieth of the time that it takes
    with a dataclass, and the cyclic garbage collector skips it.
    """

    uid: str
    namespace: str
    name: str
    job: str
    """Key of its job (``namespace/podgroup``), or "" if it names no PodGroup."""
    cls: TaskClass
    role: str
    """Its task of the vcjob, or ""."""
    status: TaskStatus
    node: str
    """Name of its node, or ""."""
    priority: int
    creation: float
    """Seconds since the epoch."""
    index: int
    """The number at the end of a name with three or more parts (``job-worker-3``), else -1."""
    gated: bool
    """Whether it has scheduling gates."""
    preemptable: bool
    nominated: str
    """Node nominated by an earlier preemption, or ""."""
    annotations: dict[str, str]
    """The annotations that name its devices (``device_annotations``)."""
    resource_version: str
    ours: bool
    """Whether its schedulerName is one of this scheduler's names."""
    message: str = ""
    """Message of the PodScheduled condition as the API server has it. An unchanged message is not written again."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    """All labels of the Pod."""
    scheduled_at: float = 0.0
    """Unix time of the binding, in seconds; 0 before."""
    started_at: float = 0.0
    """status.startTime, in Unix seconds; 0 if it is not set."""
    device_claims: Mapping[str, str | None] = msgspec.field(default_factory=dict)
    """Entry of ``spec.resourceClaims`` -> name of the claim made for it from a template; None: it needs none."""
    record: BindingRecord | None = None
    """What the scheduler decided when it bound the Pod, from memory or from a signed record. Changes of annotations do
    not change it. None: another scheduler bound the Pod, the Pod takes nothing that is recorded, or there is no
    proof."""
    rank: str = ""
    """The annotation ``hccl/rankIndex``."""
    predicate_time: str = ""
    """The annotation ``predicate-time``, or that of shared GPUs (``predicate_time_of``)."""
    super_pod_rank: str = ""
    """The annotation ``super-pod-rank``."""
    fault_marks: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The annotations about a fault of the Pod (``FAULT_ANNOTATIONS``)."""
    container_failed: bool = False
    """Whether the last run of a container ended with an exit code other than 0."""
    variable_index: str = ""
    """Its number in its task of a vcjob by its environment (``VC_TASK_INDEX``), or "". Labels say it, too."""
    leaves_at_once: bool = False
    """Whether the API server removes the Pod as soon as it is deleted: it has no grace period and no finalizers."""
    vnpu_failure: str = ""
    """Why the virtual NPU of the Pod could not be created (``pod_failures``), or ""."""
    owner: str = ""
    """``Kind/name`` of the object that manages the Pod (``workloads.owner_of``), or "". Known for Pods of other
    schedulers and for those that name no PodGroup."""
    earlier: tuple[tuple[str, str], ...] = ()
    """Former keys and values of ``annotations`` since the Pod is on its node. Its device plugin may have used them. At
    most ``MAX_EARLIER``; that many mean that there were more."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def unproven(self, since: float) -> bool:
        """Whether its binding lacks a record that this scheduler would have written. ``since``: Unix time since which
        the scheduler records bindings with chips or cards."""
        return self.ours and self.record is None and max(self.scheduled_at, self.creation) > since


def predicate_time_of(annotations: Mapping[str, str]) -> str:
    """Returns the time by which device plugins order the Pods of a node, or ""."""
    return annotations.get(PREDICATE_TIME) or annotations.get(GPU_PREDICATE_TIME, "")


def revocable(annotations: Mapping[str, str]) -> bool:
    """Whether a Pod or PodGroup may use revocable nodes: its annotations say so, or say that it is preemptable."""
    zone = annotations.get(REVOCABLE_ZONE)
    return annotations.get(PREEMPTABLE) in TRUE if zone is None else zone == "*"


def index_in_name(name: str) -> int:
    """Returns the trailing number of a Pod name with three or more parts, else -1."""
    parts = name.rsplit("-", 2)
    return int(parts[2]) if len(parts) == 3 and parts[2].isdecimal() and len(parts[2]) < 10 else -1


def without_variables(spec: PodSpec, kept: str = "") -> PodSpec:
    """The spec without the environment of its containers, which takes memory, may differ between equal Pods, and may
    contain credentials. ``kept``: the name of a variable that stays."""
    for container in (*spec.containers, *spec.init_containers) if spec.init_containers else spec.containers:
        if container.env is not None:
            init = spec.init_containers
            return replace(
                spec,
                containers=_bare(spec.containers, kept),
                init_containers=None if init is None else _bare(init, kept),
            )
    return spec


def _bare(containers: Iterable[Container], kept: str) -> list[Container]:
    return [
        container
        if container.env is None
        else replace(container, env=[each for each in container.env if kept and each.name == kept] or None)
        for container in containers
    ]
