"""What an admission function is given and gives back.

A mutator returns the object as it should be stored; a validator returns why it is refused, or "", and a Verdict where
Pod templates are left to the API server. Both are functions of the request, the settings, and what is known of the
cluster, and neither changes what it is given. Each is asked about the operations of its route alone.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from scheduler.api import objects, scheduling
from scheduler.api.kinds import Kind
from scheduler.api.names import DEFAULT_SCHEDULER_NAME
from scheduler.webhooks.verdict import Verdict

Json = dict[str, Any]


class Operation(StrEnum):
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class Request:
    """One write that is asked about."""

    operation: Operation
    kind: Kind
    namespace: str
    name: str
    """"" when the API server is to generate one, and when a whole collection is deleted."""
    object: Json
    """The object as it would be stored; empty for DELETE."""
    old: Json = field(default_factory=dict)
    """The object as it is stored; empty for CREATE."""


class ClusterView(Protocol):
    """What admission knows of the cluster."""

    def queue(self, name: str) -> scheduling.Queue | None: ...

    def queues(self) -> Iterable[scheduling.Queue]: ...

    def namespace(self, name: str) -> objects.Namespace | None: ...

    def bound_pods(self, queue: str) -> int:
        """Pods of a queue's PodGroups that have a node and have not ended."""


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """One entry of the configuration of ``/pods/mutate``: which Pods, and what they get."""

    name: str
    object_key: str = ""
    """``namespace`` or ``annotation``; "" for the default annotation."""
    object_values: tuple[str, ...] = ()
    scheduler_name: str = ""
    tolerations: tuple[Json, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    """Become the Pod's node selector."""
    affinity: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator of the webhooks configured."""

    scheduler_names: tuple[str, ...] = (DEFAULT_SCHEDULER_NAME,)
    """The first is filled into objects that name none; Pods of others are let through."""
    job_plugins: frozenset[str] = frozenset()
    """Names that ``spec.plugins`` of a vcjob may hold."""
    resource_groups: tuple[ResourceGroup, ...] = ()
    queue_allocated_pods_check: bool = False
    """Refuse to delete a queue that has allocated Pods."""
    root_queue_protection: bool = True
    max_queue_depth: int = 5
    queue_gates: bool = False
    """Pods that ask for it get the scheduling gate of queue admission."""


Mutator = Callable[[Request, ClusterView, Settings], Json]
Validator = Callable[[Request, ClusterView, Settings], str | Verdict]
