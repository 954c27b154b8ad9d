"""The arguments and results of admission functions.

A mutator returns the object to store. A validator returns the refusal ("" allows the write), or a ValidationResult
where Pod templates are left to the API server. Both are functions of the request, the view of the cluster and the
settings, and modify none of them. A function is called for the operations of its route only.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from scheduler.api import objects, scheduling
from scheduler.api.kinds import Kind
from scheduler.api.names import DEFAULT_SCHEDULER_NAME
from scheduler.webhooks.validation_result import ValidationResult

Json = dict[str, Any]


class Operation(StrEnum):
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


class AdmissionRequest(msgspec.Struct, frozen=True):
    """One write under admission."""

    operation: Operation
    kind: Kind
    namespace: str
    name: str
    """Empty when the API server generates the name, and when a collection is deleted."""
    object: Json
    """The object to store; empty for DELETE."""
    old: Json = msgspec.field(default_factory=dict)
    """The stored object; empty for CREATE."""


class ClusterView(Protocol):
    """The objects of the cluster that admission functions read."""

    def queue(self, name: str) -> scheduling.Queue | None: ...

    def queues(self) -> Iterable[scheduling.Queue]: ...

    def namespace(self, name: str) -> objects.Namespace | None: ...

    def bound_pods(self, queue: str) -> int:
        """The number of unfinished Pods with a node in the PodGroups of a queue."""


class ResourceGroup(msgspec.Struct, frozen=True):
    """An entry of the configuration of ``/pods/mutate``: the Pods it selects and the fields it sets on them."""

    name: str
    object_key: str = ""
    """``namespace`` or ``annotation``; empty selects by the default annotation."""
    object_values: tuple[str, ...] = ()
    scheduler_name: str = ""
    tolerations: tuple[Json, ...] = ()
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    """Added to the Pod's node selector."""
    affinity: Json = msgspec.field(default_factory=dict)


class WebhookSettings(msgspec.Struct, frozen=True):
    """The configuration of the webhooks."""

    scheduler_names: tuple[str, ...] = (DEFAULT_SCHEDULER_NAME,)
    """The first is the default of objects without a scheduler name. Pods of other schedulers are not validated."""
    job_plugins: frozenset[str] = frozenset()
    """The names allowed in ``spec.plugins`` of a vcjob."""
    resource_groups: tuple[ResourceGroup, ...] = ()
    queue_allocated_pods_check: bool = False
    """Refuse to delete a queue that has allocated Pods."""
    root_queue_protection: bool = True
    max_queue_depth: int = 5
    queue_gates: bool = False
    """Add the scheduling gate of queue admission to Pods that have its annotation."""


Mutator = Callable[[AdmissionRequest, ClusterView, WebhookSettings], Json]
Validator = Callable[[AdmissionRequest, ClusterView, WebhookSettings], str | ValidationResult]
