"""The arguments and results of admission functions.

A mutator returns the object to store. A validator returns the refusal ("" allows the write), or a ValidationResult
where Pod templates are left to the API server. Both are functions of the request, the view of the cluster and the
settings, and modify none of them. A function is called for the operations of its route only.

Validators do not contain Kubernetes' validation of Pods. Code that has a client lets the API server validate the
templates and passes the problems to ``ValidationResult.text``; elsewhere templates are not validated.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from scheduler.api import objects, scheduling
from scheduler.api.kinds import Kind
from scheduler.api.names import DEFAULT_SCHEDULER_NAME
from scheduler.webhooks.fields import MAX_MESSAGE_LENGTH, truncated


class TemplateCheck(msgspec.Struct, frozen=True, array_like=True):
    """The place in a refusal for the problems of a Pod template."""

    template: int
    """Index in ``ValidationResult.templates``."""
    task: int
    """Index of the task or role with the template."""
    problems: str = ""
    """Problems that the validator found itself; they come first."""
    field: str = ""
    """The field of the object that has the template, if that is no task."""


class ValidationResult(msgspec.Struct, frozen=True):
    """The parts of a refusal in order. A result whose parts are all empty allows the write."""

    parts: list[str | TemplateCheck] = []
    templates: list[bytes] = []
    """The distinct Pod templates, as JSON."""
    job_templates: list[tuple[int, str]] = []
    """The new steps of a JobFlow, each with its index and its JobTemplate. Code that has a client warns of JobTemplates
    that do not exist."""
    card_quota: dict[str, float] = {}
    """The cards of which a Queue gets more quota than before, and how many it gets, in thousandths. Code that has a
    client compares them with the cards of the nodes."""

    def text(self, problems: Sequence[str] = ()) -> str:
        """The refusal, or "". ``problems``: for each template the text of the API server; empty if it was not asked."""
        text, length = [], 0
        for part in self.parts:
            text.append(part if isinstance(part, str) else _problems(part, problems))
            length += len(text[-1])
            if length > MAX_MESSAGE_LENGTH:
                break
        return truncated("".join(text).strip())

    def field_of(self, template: int) -> str:
        """The field of the first task or role with a template."""
        checks = (part for part in self.parts if isinstance(part, TemplateCheck))
        return next(_field(check) for check in checks if check.template == template)


def _field(check: TemplateCheck) -> str:
    """The name of the field; for tasks, the name in Volcano's refusals."""
    return check.field or f"spec.task[{check.task}]"


def _problems(check: TemplateCheck, problems: Sequence[str]) -> str:
    text = check.problems + (problems[check.template] if problems else "")
    return f"{_field(check)}.{text}" if text else ""


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
    dry_run: bool = False
    """Whether the write is not stored."""


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


class CardOverGrant(StrEnum):
    """What happens to a card quota with which all quotas add up to more cards than the nodes have."""

    OFF = "off"
    """It is stored."""
    WARN = "warn"
    """It is stored, with a warning."""
    REFUSE = "refuse"
    """It is refused."""


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
    card_over_grant: CardOverGrant = CardOverGrant.OFF
    dry_run_quota: bool = True
    """Answer a dry run of a vcjob with warnings about the quota of its queue."""
    queue_gates: bool = False
    """Add the scheduling gate of queue admission to Pods that have its annotation."""


Mutator = Callable[[AdmissionRequest, ClusterView, WebhookSettings], Json]
Validator = Callable[[AdmissionRequest, ClusterView, WebhookSettings], str | ValidationResult]
