"""The defaults of queues (Volcano's /queues/mutate), and their validation: creation, update and deletion (Volcano's
/queues/validate).

The amounts of a queue are guarantee <= deserved <= capability. A queue without ``deserved`` may have a guarantee, as in
the card quota design; its capability is then compared with the guarantee.
"""

import math
from collections.abc import Iterator
from typing import Final

from scheduler.api.names import DEFAULT_QUEUE, HIERARCHY, HIERARCHY_WEIGHTS, ROOT_QUEUE
from scheduler.api.objects import ResourceList
from scheduler.api.quantity import ExactAmount, QuantityError, parse_amount
from scheduler.api.queue import CLOSED, CLOSING, OPEN, UNKNOWN
from scheduler.api.resource import is_native
from scheduler.api.scheduling import Queue, QueueSpec
from scheduler.webhooks.cards import QUOTA_ANNOTATIONS, quota_problems, raised_quota
from scheduler.webhooks.contract import (
    AdmissionRequest,
    CardOverGrant,
    ClusterView,
    Json,
    Operation,
    ValidationResult,
    WebhookSettings,
)
from scheduler.webhooks.decoding import DecodingError, decode, validator
from scheduler.webhooks.fields import aggregate, invalid, qualified_name, quote
from scheduler.webhooks.queue.hierarchy import (
    amounts_problem,
    children_of,
    guarantee_of,
    names_of,
    parent_problem,
    queue_not_found,
)


def mutate(request: AdmissionRequest, cluster: ClusterView, settings: WebhookSettings) -> Json:
    """Sets the defaults of a new queue. A field of a wrong type stays as it is, and ``validate`` refuses it."""
    queue = dict(request.object)
    spec = queue.get("spec") or {}
    if isinstance(spec, dict):
        reclaimable = spec.get("reclaimable")
        queue["spec"] = {
            **spec,
            "reclaimable": True if reclaimable is None else reclaimable,
            "weight": spec.get("weight") or 1,
        }
    metadata = queue.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if isinstance(metadata, dict) and isinstance(annotations, dict):
        queue["metadata"] = {**metadata, "annotations": _with_root(annotations)}
    return queue


def _with_root(annotations: Json) -> Json:
    """Prepends the root, of weight 1, to the hierarchy that drf reads."""
    path, weights = annotations.get(HIERARCHY), annotations.get(HIERARCHY_WEIGHTS)
    if not (isinstance(path, str) and isinstance(weights, str) and path and weights) or path.startswith(ROOT_QUEUE):
        return annotations
    return {**annotations, HIERARCHY: f"{ROOT_QUEUE}/{path}", HIERARCHY_WEIGHTS: f"1/{weights}"}


_BODY: Final = "requestBody"
_STATES: Final = ("", OPEN, CLOSED, CLOSING, UNKNOWN)
"""The states that a user requests, and those that the controllers write."""


def validate(request: AdmissionRequest, cluster: ClusterView, settings: WebhookSettings) -> str | ValidationResult:
    """The first problem, or "". The quota of a valid write may remain to be compared with the cards of the nodes."""
    if request.operation is Operation.DELETE:
        return _deletion_problem(request.name or _name_of_deleted(request.old), cluster, settings)
    return _write(request, cluster, settings)


@validator(Queue)
def _write(
    queue: Queue, request: AdmissionRequest, cluster: ClusterView, settings: WebhookSettings
) -> str | ValidationResult:
    problem = _write_problem(queue, request, cluster, settings)
    if problem or settings.card_over_grant is CardOverGrant.OFF:
        return problem
    return ValidationResult(card_quota=raised_quota(queue.metadata.annotations, _annotations(_old_queue(request))))


def _annotations(queue: Queue | None) -> dict[str, str] | None:
    return None if queue is None else queue.metadata.annotations


def _write_problem(queue: Queue, request: AdmissionRequest, cluster: ClusterView, settings: WebhookSettings) -> str:
    old = _old_queue(request)
    # What is invalid in the stored queue must not block other changes, such as those of the controllers.
    stored = frozenset[str]() if old is None else frozenset(_own_problems(old, cluster))
    problem = aggregate(each for each in _own_problems(queue, cluster) if each not in stored)
    moved = old is None or (old.spec.parent or ROOT_QUEUE) != (queue.spec.parent or ROOT_QUEUE)
    if not problem and moved:
        problem = parent_problem(queue, cluster, settings)
    resized = old is None or _amounts_changed(queue, old)
    if not problem and resized and old is not None and queue.metadata.name == ROOT_QUEUE:
        if settings.root_queue_protection:
            problem = "root queue's resource attributes (capability, deserved, guarantee) cannot be modified"
    elif not problem and (moved or resized) and queue.metadata.name != ROOT_QUEUE:
        problem = amounts_problem(queue, cluster)
    if not problem and (old is None or _quota(old) != _quota(queue)):
        problem = aggregate(quota_problems(queue.metadata.annotations))
    return problem


def _own_problems(queue: Queue, cluster: ClusterView) -> Iterator[str]:
    """The problems that do not depend on the amounts of other queues."""
    yield from _amount_problems(queue.spec, f"{_BODY}.spec")
    yield from _state_problems(queue.status.state)
    yield from _hierarchy_problems(queue, cluster)


def _name_of_deleted(old: Json) -> str:
    """The name in the stored object: when a collection is deleted, the review of each queue has no other name."""
    metadata = old.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def _old_queue(request: AdmissionRequest) -> Queue | None:
    """The queue before the update. None for a new queue, and if the old one cannot be decoded; then everything counts
    as changed."""
    if request.operation is Operation.CREATE:
        return None
    try:
        return decode(request.old, Queue)
    except DecodingError:
        return None


def _quota(queue: Queue) -> tuple[str | None, ...]:
    """The annotations about cards."""
    annotations = queue.metadata.annotations or {}
    return tuple(map(annotations.get, QUOTA_ANNOTATIONS))


def _amounts_changed(queue: Queue, old: Queue) -> bool:
    return not (
        _equal_amounts(queue.spec.capability, old.spec.capability)
        and _equal_amounts(queue.spec.deserved, old.spec.deserved)
        and _equal_amounts(guarantee_of(queue.spec), guarantee_of(old.spec))
    )


def _state_problems(state: str) -> Iterator[str]:
    if state not in _STATES:
        yield invalid(f"{_BODY}.spec.state", state, f"queue state must be in [{OPEN} {CLOSED}]")


def _hierarchy_problems(queue: Queue, cluster: ClusterView) -> Iterator[str]:
    """The problems of the hierarchy annotations, which drf reads."""
    annotations = queue.metadata.annotations or {}
    path, weights = annotations.get(HIERARCHY, ""), annotations.get(HIERARCHY_WEIGHTS, "")
    if not path and not weights:
        return
    where = f"{_BODY}.metadata.annotations"
    if path.count("/") != weights.count("/"):
        yield invalid(where, path, f"{HIERARCHY} must have the same length with {HIERARCHY_WEIGHTS}")
        return
    for weight in weights.split("/"):
        number = _number(weight)
        if number is None:
            text = f"strconv.ParseFloat: parsing {quote(weight)}: invalid syntax"
            yield invalid(where, weights, f"{weight} in the {weights} is invalid number: {text}")
            return
        if not number > 0:
            yield invalid(where, weights, f"{weight} in the {weights} must be larger than 0")
            return
    for other in cluster.queues():
        other_path = (other.metadata.annotations or {}).get(HIERARCHY, "")
        if other.metadata.name != queue.metadata.name and other_path.startswith(f"{path}/"):
            text = f"{path} is not allowed to be in the sub path of {other_path} of queue {other.metadata.name}"
            yield invalid(where, path, text)
            return


def _number(text: str) -> float | None:
    """Parses a decimal number; None for anything else that Python accepts (spaces, underscores, non-ASCII digits,
    infinity, NaN)."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and text.isascii() and text == text.strip() and "_" not in text else None


def _deletion_problem(name: str, cluster: ClusterView, settings: WebhookSettings) -> str:
    if name in (DEFAULT_QUEUE, ROOT_QUEUE):
        return f"`{name}` queue can not be deleted"
    if cluster.queue(name) is None:
        return queue_not_found(name)
    pods = cluster.bound_pods(name) if settings.queue_allocated_pods_check else 0
    if pods:
        return f"queue {name} cannot be deleted because it has allocated Pods: {pods}"
    children = children_of(name, cluster)
    if children:
        return f"queue {name} can not be deleted because it has {len(children)} child queues: {names_of(children)}"
    return ""


Amounts = dict[str, ExactAmount]
_QUANTITY_SYNTAX: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_OBJECT_COUNTS: Final = frozenset(
    (
        "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
        "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
    )
)  # fmt: skip
"""The resources of ResourceQuotas that count objects."""


# --- amounts ----------------------------------------------------------------------------------------------------------
def _equal_amounts(left: ResourceList | None, right: ResourceList | None) -> bool:
    """Whether the amounts are equal in value (``1000m`` equals ``1``)."""
    return _parsed(left) == _parsed(right)


def _amount_problems(spec: QueueSpec, path: str) -> Iterator[str]:
    """The problems of the amounts; ``path`` is the path of the spec."""
    capability: Amounts = {}
    deserved: Amounts = {}
    yield from _parse_quantities(spec.capability, f"{path}.capability", capability)
    yield from _parse_quantities(spec.deserved, f"{path}.deserved", deserved)
    guarantee: Amounts = {}
    yield from _parse_quantities(guarantee_of(spec), f"{path}.guarantee.resource", guarantee)
    for name, minimum in guarantee.items():
        bound = f"must be >= guarantee[{name}]={minimum}"
        if spec.deserved and name not in spec.deserved:
            yield invalid(f"{path}.deserved.{name}", "<nil>", f"deserved[{name}] {bound}")
        elif name in deserved and deserved[name].nano < minimum.nano:
            yield invalid(f"{path}.deserved.{name}", str(deserved[name]), f"deserved[{name}]={deserved[name]} {bound}")
        elif name in capability and capability[name].nano < minimum.nano:
            amount = capability[name]
            yield invalid(f"{path}.capability.{name}", str(amount), f"capability[{name}]={amount} {bound}")
    for name, amount in deserved.items():
        limit = capability.get(name)
        if limit is not None and amount.nano > limit.nano:
            text = f"deserved[{name}]={amount} must be <= capability[{name}]={limit}"
            yield invalid(f"{path}.deserved.{name}", str(amount), text)


def _parse_quantities(resources: ResourceList | None, path: str, parsed: Amounts) -> Iterator[str]:
    """The problems of each quantity. Adds the valid ones to ``parsed``."""
    for name, quantity in (resources or {}).items():
        try:
            amount = parsed[name] = parse_amount(quantity)
        except QuantityError:
            yield invalid(f"{path}.{name}", str(quantity)[:64], _QUANTITY_SYNTAX)
            continue
        yield from _value_problems(name, amount, f"{path}.{name}")


def _value_problems(name: str, amount: ExactAmount, path: str) -> Iterator[str]:
    """Amounts are not negative; those of object counts and of extended resources are integers."""
    if amount.nano < 0:
        yield invalid(path, str(amount), "must be greater than or equal to 0")
    if (name in _OBJECT_COUNTS or _is_extended(name)) and not amount.is_integer():
        yield invalid(path, str(amount), "must be an integer")


def _is_extended(name: str) -> bool:
    """Whether the resource is not one of Kubernetes itself, such as a device."""
    return not is_native(name) and not name.startswith("requests.") and not qualified_name(f"requests.{name}")


def _parsed(resources: ResourceList | None) -> dict[str, int | str]:
    result: dict[str, int | str] = {}
    for name, quantity in (resources or {}).items():
        try:
            result[name] = parse_amount(quantity).nano
        except QuantityError:
            result[name] = str(quantity)
    return result
