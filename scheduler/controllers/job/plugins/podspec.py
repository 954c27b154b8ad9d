"""What job plugins know and add: host names and ranks of the Pods of a vcjob; variables, ports and volumes of a Pod's
manifest, where nothing is added twice.

The domain of a Pod is ``<hostname>.<subdomain>``, which plugin svc sets to ``<pod>.<job>`` unless the template has its
own. A hostname in the template is the hostname of all Pods of the task, and is listed once, as in Volcano. Templates
may have any shape: a field of a wrong type raises a JobPluginError that names the field.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from scheduler.api import batch
from scheduler.controllers.effects import Json
from scheduler.controllers.job.plugins.contract import JobPluginError

MAX_BYTES = 1 << 20
"""The size of a ConfigMap or Secret, in bytes. No object can hold a longer list of hosts."""


class Host(NamedTuple):
    """A name of a Pod, and the domain in which the name is known."""

    name: str
    subdomain: str

    @property
    def domain(self) -> str:
        return f"{self.name}.{self.subdomain}"


def pod_name(job: batch.Job, task: batch.TaskSpec, index: int) -> str:
    """The host name of Pod ``index`` of a task."""
    return f"{job.metadata.name}-{task.name}-{index}"


def first_host(job: batch.Job, task: batch.TaskSpec) -> Host:
    """The host of Pod 0."""
    fixed, subdomain = _from_template(task)
    return Host(fixed or pod_name(job, task, 0), subdomain or job.metadata.name)


def task_hosts(job: batch.Job, task: batch.TaskSpec) -> list[Host]:
    """The hosts of a task, by index. Raises JobPluginError if no object can list all of them."""
    first = first_host(job, task)
    if _from_template(task)[0]:
        return [first] if task.replicas > 0 else []
    if task.replicas * len(first.domain) > MAX_BYTES:
        raise JobPluginError(
            f"the names of the {task.replicas} replicas of task {task.name} take more than {MAX_BYTES} bytes: "
            "no object can list them"
        )
    return [Host(pod_name(job, task, index), first.subdomain) for index in range(task.replicas)]


def find_task(job: batch.Job, name: str) -> batch.TaskSpec | None:
    """The task of that name."""
    return next((task for task in job.spec.tasks if task.name == name), None)


def _from_template(task: batch.TaskSpec) -> tuple[str, str]:
    """Hostname and subdomain of the template, "" where it has none."""
    spec = task.template.get("spec")
    if not isinstance(spec, dict):
        return "", ""
    hostname, subdomain = spec.get("hostname"), spec.get("subdomain")
    return hostname if isinstance(hostname, str) else "", subdomain if isinstance(subdomain, str) else ""


def rank(job: batch.Job, master: str, worker: str, task: batch.TaskSpec, index: int) -> int | None:
    """The rank of Pod ``index`` of a task, from 0; None if the task is neither."""
    if task.name == master:
        return index
    if task.name == worker:
        return replicas(job, master) + index
    return None


def replicas(job: batch.Job, name: str) -> int:
    """The number of Pods of a task; 0 if the job has no such task."""
    task = find_task(job, name)
    return max(task.replicas, 0) if task is not None else 0


def spec_of(pod: Json) -> Json:
    """The Pod's spec. Raises JobPluginError."""
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        raise JobPluginError("the spec of the Pod template is not an object")
    return spec


def containers(pod: Json) -> list[Json]:
    """The main containers. Raises JobPluginError."""
    return _dicts(spec_of(pod), "containers")


def all_containers(pod: Json) -> list[Json]:
    """The init containers and the main ones. Raises JobPluginError."""
    spec = spec_of(pod)
    return _dicts(spec, "initContainers") + _dicts(spec, "containers")


def find_container(pod: Json, name: str) -> Json | None:
    """A main container by name; the Pod may be a template, too. Raises JobPluginError."""
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
    """Declares a port, unless the container has one of that name or number."""
    ports = _dicts(container, "ports")
    if not any(port.get("name") == name or port.get("containerPort") == number for port in ports):
        container["ports"] = [*ports, {"name": name, "containerPort": number, "protocol": "TCP"}]


def add_volume(pod: Json, volume: Json) -> None:
    """Adds a volume, unless there is one of that name."""
    _append(spec_of(pod), "volumes", volume, "name")


def mount(container: Json, volume_mount: Json) -> None:
    """Mounts a volume, unless something is mounted there."""
    _append(container, "volumeMounts", volume_mount, "mountPath")


def add_init_container(pod: Json, container: Json) -> None:
    """Adds the last init container, unless there is one of that name."""
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
    """A list of objects in a field; empty if the field is absent. Raises JobPluginError."""
    items: Any = where.get(field)
    if items is None:
        return []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise JobPluginError(f"{field} of the Pod template is not a list of objects")
    return items
