"""Admission of Pods: sets the fields of their resource group, and validates the annotations that the scheduler reads.

Pods of other schedulers are not refused.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

import msgspec

from scheduler.api.names import JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE, QUEUE_ALLOCATION_GATE, RESOURCE_GROUP
from scheduler.api.objects import KubeObject, Wire
from scheduler.webhooks.cards import name_problems
from scheduler.webhooks.contract import AdmissionRequest, ClusterView, Json, ResourceGroup, WebhookSettings
from scheduler.webhooks.decoding import validator
from scheduler.webhooks.fields import quote
from scheduler.webhooks.resource_groups import BY_ANNOTATION, BY_NAMESPACE, annotation_of

_BUDGETS: Final = (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE)
_INTEGER: Final = re.compile("[+-]?[0-9]+")
_MAX_INT64: Final = 2**63 - 1
_MAX_DIGITS: Final = 19


class _Spec(Wire):
    scheduler_name: str = ""


class _Pod(KubeObject):
    spec: _Spec = msgspec.field(default_factory=_Spec)


# --- mutate ---
def mutate(request: AdmissionRequest, cluster: ClusterView, settings: WebhookSettings) -> Json:
    """Adds the fields of the first resource group that selects the Pod, and the scheduling gate that its annotation
    requests (Volcano's /pods/mutate)."""
    pod = request.object
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return pod
    annotations = _mapping(_mapping(pod.get("metadata")).get("annotations"))
    first = next((g for g in settings.resource_groups if _selects(g, request.namespace, annotations)), None)
    new_spec = spec if first is None else _with_group_fields(spec, first)
    if settings.queue_gates and annotations.get(QUEUE_ALLOCATION_GATE) == "true":
        new_spec = _with_gate(new_spec)
    return pod if new_spec is spec else {**pod, "spec": new_spec}


def _selects(group: ResourceGroup, namespace: str, annotations: Mapping[str, Any]) -> bool:
    if group.object_key == BY_NAMESPACE:
        return namespace in group.object_values
    if any(annotations.get(key) == value for key, value in map(annotation_of, group.object_values)):
        return True
    return group.object_key != BY_ANNOTATION and annotations.get(RESOURCE_GROUP) == group.name


def _with_group_fields(spec: Json, group: ResourceGroup) -> Json:
    result = dict(spec)
    if group.labels:
        result["nodeSelector"] = {**_mapping(spec.get("nodeSelector")), **group.labels}
    if group.affinity and not spec.get("affinity"):
        result["affinity"] = group.affinity
    own = spec.get("tolerations") or []
    if group.tolerations and isinstance(own, list):
        result["tolerations"] = [*own, *(each for each in group.tolerations if each not in own)]
    if group.scheduler_name:
        result["schedulerName"] = group.scheduler_name
    return result


def _with_gate(spec: Json) -> Json:
    gates = spec.get("schedulingGates") or []
    if spec.get("nodeName") or not isinstance(gates, list):  # the API server rejects a gate on a Pod that has a node
        return spec
    gate = {"name": QUEUE_ALLOCATION_GATE}
    return spec if gate in gates else {**spec, "schedulingGates": [*gates, gate]}


def _mapping(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


# --- validate ---
@validator(_Pod)
def validate(pod: _Pod, request: AdmissionRequest, cluster: ClusterView, settings: WebhookSettings) -> str:
    """The first problem of the annotations of a new Pod, or "" (Volcano's /pods/validate)."""
    if pod.spec.scheduler_name not in settings.scheduler_names:
        return ""
    annotations = pod.metadata.annotations or {}
    return next(chain(_budget_problems(annotations), name_problems(annotations)), "")


def _budget_problems(annotations: Mapping[str, str]) -> Iterator[str]:
    given = [key for key in _BUDGETS if key in annotations]
    for key in given:
        problem = _budget_problem(key, annotations[key])
        if problem:
            yield problem
    if len(given) > 1:
        yield f"not allow configure multiple annotations <[{' '.join(given)}]> at same time"


def _budget_problem(key: str, value: str) -> str:
    """The problem of a value that is neither a positive number of Pods nor a percentage, or ""."""
    try:
        return "" if _atoi(value) > 0 else f"invalid value <{quote(value)}> for {key}, it must be a positive integer"
    except ValueError:
        pass
    try:
        percentage = _atoi(value.replace("%", ""))
    except ValueError as error:
        return f"invalid value {error} for {key}"
    if not 0 < percentage < 100:
        return f"invalid value <{quote(value)}> for {key}, it must be a valid percentage which between 1% ~ 99%"
    return ""


def _atoi(text: str) -> int:
    """Parses an integer as Go's ``strconv.Atoi`` does. Raises ValueError with its message."""
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"strconv.Atoi: parsing {quote(text)}: invalid syntax")
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) > _MAX_DIGITS or int(digits) > _MAX_INT64:
        raise ValueError(f"strconv.Atoi: parsing {quote(text)}: value out of range")
    return -int(digits) if text.startswith("-") else int(digits)
