"""What plugins add to a Pod's manifest: variables, ports, volumes. Nothing is there twice afterwards.

Templates come as users wrote them: a field of a wrong type is a PluginError that names it.
"""

from collections.abc import Sequence
from typing import Any

from scheduler.controllers.effects import Json
from scheduler.controllers.job.plugins.contract import JobPluginError


def spec_of(pod: Json) -> Json:
    """The Pod's spec. Raises PluginError."""
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        raise JobPluginError("the spec of the Pod template is not an object")
    return spec


def containers(pod: Json) -> list[Json]:
    """The main containers. Raises PluginError."""
    return _dicts(spec_of(pod), "containers")


def all_containers(pod: Json) -> list[Json]:
    """The init containers and the main ones. Raises PluginError."""
    spec = spec_of(pod)
    return _dicts(spec, "initContainers") + _dicts(spec, "containers")


def find_container(pod: Json, name: str) -> Json | None:
    """A main container by name; the Pod may be a template, too. Raises PluginError."""
    return next((container for container in containers(pod) if container.get("name") == name), None)


def add_env(container: Json, entries: Sequence[Json]) -> None:
    """Appends variables and removes earlier ones of these names, because the last one wins in Kubernetes."""
    names = [entry["name"] for entry in entries]
    container["env"] = [old for old in _dicts(container, "env") if old.get("name") not in names] + list(entries)


def find_env(pod: Json, name: str) -> str | None:
    """The literal value that a main container has for a variable."""
    for container in containers(pod):
        for entry in _dicts(container, "env"):
            if entry.get("name") == name and isinstance(entry.get("value"), str):
                value: str = entry["value"]
                return value
    return None


def open_port(container: Json, name: str, number: int) -> None:
    """Declare a port, unless the container has one of that name or number."""
    ports = _dicts(container, "ports")
    if not any(port.get("name") == name or port.get("containerPort") == number for port in ports):
        container["ports"] = [*ports, {"name": name, "containerPort": number, "protocol": "TCP"}]


def add_volume(pod: Json, volume: Json) -> None:
    """Add a volume, unless there is one of that name."""
    _append(spec_of(pod), "volumes", volume, "name")


def mount(container: Json, volume_mount: Json) -> None:
    """Mount a volume, unless something is mounted there."""
    _append(container, "volumeMounts", volume_mount, "mountPath")


def add_init_container(pod: Json, container: Json) -> None:
    """Add the last init container, unless there is one of that name."""
    _append(spec_of(pod), "initContainers", container, "name")


def port_name(container: Json, name: str, number: int) -> str | int:
    """The reference by which a Service finds the port that ``open_port`` declares or that exists already."""
    for port in _dicts(container, "ports"):
        if port.get("containerPort") == number:
            return port.get("name") or number
    return name


def _append(where: Json, field: str, item: Json, key: str) -> None:
    items = _dicts(where, field)
    if not any(old.get(key) == item[key] for old in items):
        where[field] = [*items, item]


def _dicts(where: Json, field: str) -> list[Json]:
    """A list of objects, empty where there is none. Raises PluginError."""
    items: Any = where.get(field)
    if items is None:
        return []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise JobPluginError(f"{field} of the Pod template is not a list of objects")
    return items
