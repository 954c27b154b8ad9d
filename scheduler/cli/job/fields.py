"""The parts that the sections of ``job view`` share for all kinds of jobs."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from scheduler.api.names import CONDITION_DEVICE_UNHEALTHY, CONDITION_UNSCHEDULABLE, LAST_APPLIED
from scheduler.api.printable import printable
from scheduler.cli.connection import Raw
from scheduler.cli.layout import hanging
from scheduler.cli.output import terminal_width
from scheduler.cli.text import coloured_by_phase, pairs

if TYPE_CHECKING:
    from scheduler.api.objects import ObjectMeta
    from scheduler.api.scheduling import PodGroup

NONE: Final = "<none>"
_VALUES: Final = 22
"""The column in which values begin."""
Field = tuple[int, str, object]
"""Depth, key and value. A heading has the value None."""


def formatted(fields: Iterable[Field]) -> Iterator[str]:
    """The lines of fields."""
    for depth, key, value in fields:
        if value is None:
            yield f"{'  ' * depth}{key}:"
            continue
        start = f"{'  ' * depth}{key + ':':<{_VALUES - 2 * depth}}"
        if key == "Phase":
            yield start + coloured_by_phase(str(value), str(value))
        else:
            yield from hanging(f"{start}{printable(value)}", terminal_width(), indent=_VALUES)


def about(metadata: "ObjectMeta", raw: Raw) -> Iterator[Field]:
    """The name of a job, and what else identifies it; without the copy of the object that ``kubectl apply`` keeps."""
    yield 0, "Name", metadata.name
    yield 0, "Namespace", metadata.namespace
    yield 0, "Labels", pairs((metadata.labels or {}).items())
    shown = [(key, value) for key, value in (metadata.annotations or {}).items() if key != LAST_APPLIED]
    yield 0, "Annotations", pairs(shown)
    yield 0, "API Version", raw.get("apiVersion", "")
    yield 0, "Kind", raw.get("kind", "")
    yield 0, "Metadata", None
    yield 1, "Creation Timestamp", metadata.creation_timestamp or "<unknown>"
    yield 1, "Resource Version", metadata.resource_version
    yield 1, "UID", metadata.uid


def containers(template: Any) -> Iterator[Field]:
    """The containers of a Pod template, which may have any shape."""
    pod = template.get("spec") if isinstance(template, dict) else None
    found = pod.get("containers") if isinstance(pod, dict) else None
    for container in found if isinstance(found, list) else ():
        if isinstance(container, dict):
            yield 3, "Container", f"{container.get('name', '')} ({container.get('image', '')})"
            resources = container.get("resources")
            for key in ("requests", "limits"):
                amounts = resources.get(key) if isinstance(resources, dict) else None
                if isinstance(amounts, dict):
                    yield 3, key.capitalize(), pairs(amounts.items())


def pod_group(group: "PodGroup | None", waits: str) -> Iterator[Field]:
    """The PodGroup of a job. ``waits``: why it waits, or ""."""
    if group is None:
        yield 0, "PodGroup", NONE
        return
    yield 0, "PodGroup", None
    yield 1, "Name", group.metadata.name
    yield 1, "Phase", group.status.phase
    yield 1, "Min Member", group.spec.min_member
    if waits:
        yield 1, "Waits", waits
    for fault in device_faults(group).split("; "):
        if fault:
            yield 1, "Device Fault", fault


def device_faults(group: "PodGroup | None") -> str:
    """The devices that have failed under Pods of a PodGroup, separated by semicolons, or ""."""
    return _true_condition(group, CONDITION_DEVICE_UNHEALTHY)


def why_it_waits(group: "PodGroup | None") -> str:
    """The message of the condition Unschedulable of a PodGroup, or ""."""
    return _true_condition(group, CONDITION_UNSCHEDULABLE)


def _true_condition(group: "PodGroup | None", type_: str) -> str:
    """The message of a condition that is True, or ""."""
    for condition in (group.status.conditions if group is not None else None) or ():
        if condition.type == type_ and condition.status == "True":
            return condition.message or condition.reason
    return ""


def template_labels(template: Any) -> dict[str, str]:
    """The labels of a Pod template, which may have any shape."""
    metadata = template.get("metadata") if isinstance(template, dict) else None
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return {key: value for key, value in labels.items() if isinstance(value, str)} if isinstance(labels, dict) else {}
