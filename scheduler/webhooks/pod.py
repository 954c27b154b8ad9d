"""Admission of Pods: what their resource group gives them, and the annotations that the scheduler will read.

Of Pods that ask for another scheduler nothing is refused.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

import msgspec

from scheduler.api.names import JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE, QUEUE_ALLOCATION_GATE, RESOURCE_GROUP
from scheduler.api.objects import KubeObject, Wire
from scheduler.webhooks.cards import name_problems
from scheduler.webhooks.contract import ClusterView, Json, Request, ResourceGroup, Settings
from scheduler.webhooks.fields import quote
from scheduler.webhooks.reading import validator
from scheduler.webhooks.resource_groups import BY_ANNOTATION, BY_NAMESPACE, annotation_of

_BUDGETS: Final = (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE)
_INTEGER: Final = re.compile("[+-]?[0-9]+")
_LARGEST: Final = 2**63 - 1
_MOST_DIGITS: Final = 19


class _Spec(Wire):
    scheduler_name: str = ""


class _Pod(KubeObject):
    spec: _Spec = msgspec.field(default_factory=_Spec)


# --- mutate ---
def mutate(request: Request, cluster: ClusterView, settings: Settings) -> Json:
    """A new Pod with what the first resource group that it belongs to gives, and with the scheduling gate that it asks
    for (Volcano's /pods/mutate)."""
    pod = request.object
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return pod
    annotations = _mapping(_mapping(pod.get("metadata")).get("annotations"))
    first = next((g for g in settings.resource_groups if _belongs(g, request.namespace, annotations)), None)
    given = spec if first is None else _as_of(first, spec)
    if settings.queue_gates and annotations.get(QUEUE_ALLOCATION_GATE) == "true":
        given = _gated(given)
    return pod if given is spec else {**pod, "spec": given}


def _belongs(group: ResourceGroup, namespace: str, annotations: Mapping[str, Any]) -> bool:
    if group.object_key == BY_NAMESPACE:
        return namespace in group.object_values
    if any(annotations.get(key) == value for key, value in map(annotation_of, group.object_values)):
        return True
    return group.object_key != BY_ANNOTATION and annotations.get(RESOURCE_GROUP) == group.name


def _as_of(group: ResourceGroup, spec: Json) -> Json:
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


def _gated(spec: Json) -> Json:
    gates = spec.get("schedulingGates") or []
    if spec.get("nodeName") or not isinstance(gates, list):  # a Pod with a node may have no gate
        return spec
    gate = {"name": QUEUE_ALLOCATION_GATE}
    return spec if gate in gates else {**spec, "schedulingGates": [*gates, gate]}


def _mapping(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


# --- validate ---
@validator(_Pod)
def validate(pod: _Pod, request: Request, cluster: ClusterView, settings: Settings) -> str:
    """The first thing that is wrong with the annotations of a new Pod, or "" (Volcano's /pods/validate)."""
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
    """What keeps a value from being a positive number of Pods or a part of them, or ""."""
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
    """Raises ValueError in the words of Go's strconv."""
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"strconv.Atoi: parsing {quote(text)}: invalid syntax")
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) > _MOST_DIGITS or int(digits) > _LARGEST:
        raise ValueError(f"strconv.Atoi: parsing {quote(text)}: value out of range")
    return -int(digits) if text.startswith("-") else int(digits)
