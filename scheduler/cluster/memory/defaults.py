"""The defaults that the API server and the CustomResourceDefinitions set, as far as they affect scheduling."""

from datetime import datetime
from typing import Any, Protocol

import msgspec

from scheduler.api.kinds import PRIORITY_CLASS, SERVICE, Kind
from scheduler.api.names import DEFAULT_QUEUE, POD_SCHEDULED
from scheduler.api.pod_amounts import amount_fields, completed_level
from scheduler.api.quantity import QuantityError
from scheduler.cluster.memory.raw_objects import Json, format_time, set_condition


class ServerObjects(Protocol):
    """The objects of the server at its simulated time."""

    clock: datetime

    def of(self, kind: Kind) -> list[Json]: ...

    def find(self, kind: Kind, namespace: str, name: str) -> Json | None: ...


def set_defaults(kind: Kind, raw: Json, objects: ServerObjects) -> bool:
    """Sets the defaults of a new object. Returns whether the object changed."""
    changed = False
    if kind.name == "Pod":
        spec, status = raw.setdefault("spec", {}), raw.setdefault("status", {})
        changed = _set_default(status, "phase", "Pending") | _set_default_requests(spec)
        if spec.get("priority") is None or "preemptionPolicy" not in spec:
            priority_class = _priority_class(objects, spec.get("priorityClassName") or "")
            if spec.get("priority") is None:
                spec["priority"] = int(priority_class.get("value", 0))
                changed = True
            if priority_class.get("preemptionPolicy"):
                changed |= _set_default(spec, "preemptionPolicy", priority_class["preemptionPolicy"])
        if spec.get("schedulingGates") and not spec.get("nodeName"):
            message = "Scheduling is blocked due to non-empty scheduling gates"
            changed |= set_condition(status, POD_SCHEDULED, "False", "SchedulingGated", message)
        if spec.get("nodeName") and not _is_scheduled(status):
            changed |= set_condition(status, POD_SCHEDULED, "True", "", "", format_time(objects.clock))
    elif kind.name == "PodGroup":
        changed = _set_default(raw.setdefault("spec", {}), "queue", DEFAULT_QUEUE)
    elif kind.name == "Queue":
        spec = raw.setdefault("spec", {})
        changed = _set_default(spec, "weight", 1)
        changed |= _set_default(spec, "reclaimable", True)
        changed |= _set_default(raw.setdefault("status", {}), "state", "Open")
    elif kind is SERVICE:
        number = len(objects.of(SERVICE)) + 1
        changed = _set_default(raw.setdefault("spec", {}), "clusterIP", f"10.96.{number // 250}.{number % 250 + 1}")
    return changed


def _set_default_requests(spec: Json) -> bool:
    """Sets the requests of a Pod that follow from limits, and its pod-level limits of huge pages. Returns whether there
    were any. Malformed amounts are left as they are."""
    changed = False
    for field in ("containers", "initContainers"):
        containers = spec.get(field)
        if isinstance(containers, list) and any(map(_lacks_requests, containers)):
            spec[field] = [_with_requests(each) if _lacks_requests(each) else each for each in containers]
            changed = True
    if spec.get("resources"):
        try:
            level = completed_level(amount_fields(spec))
        except QuantityError:
            return changed
        completed = {**spec["resources"], **msgspec.to_builtins(level)}
        if completed != spec["resources"]:
            spec["resources"] = completed
            changed = True
    return changed


def _lacks_requests(container: Any) -> bool:
    """Whether a container, which may be malformed, has a limit without a request."""
    resources = container.get("resources") if isinstance(container, dict) else None
    if not isinstance(resources, dict):
        return False
    limits, requests = resources.get("limits"), resources.get("requests") or {}
    return isinstance(limits, dict) and isinstance(requests, dict) and not limits.keys() <= requests.keys()


def _with_requests(container: Json) -> Json:
    resources = container["resources"]
    requests = {**resources["limits"], **(resources.get("requests") or {})}
    return {**container, "resources": {**resources, "requests": requests}}


def _set_default(fields: Json, name: str, value: Any) -> bool:
    """Sets a field that is absent. Returns whether it was."""
    if name in fields:
        return False
    fields[name] = value
    return True


def _priority_class(objects: ServerObjects, name: str) -> Json:
    """The PriorityClass with the name, or the global default if the name is empty; empty if there is none."""
    if name:
        return objects.find(PRIORITY_CLASS, "", name) or {}
    return next((raw for raw in objects.of(PRIORITY_CLASS) if raw.get("globalDefault")), {})


def _is_scheduled(status: Json) -> bool:
    """Whether the conditions of a Pod say that it has a node."""
    conditions = status.get("conditions") or ()
    return any(
        isinstance(each, dict) and each.get("type") == POD_SCHEDULED and each.get("status") == "True"
        for each in conditions
    )
