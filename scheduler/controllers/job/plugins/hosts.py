"""The names under which the Pods of a vcjob find each other, and their ranks.

The domain of a Pod is ``<hostname>.<subdomain>``, which plugin svc makes ``<pod>.<job>`` where the template does not
say. A hostname fixed in the template is one for all Pods of the task, and listed once, as Volcano lists it.
"""

from typing import NamedTuple

from scheduler.api import batch
from scheduler.controllers.job.plugins.contract import JobPluginError

MAX_BYTES = 1 << 20
"""What a ConfigMap or Secret may hold; longer lists of hosts fit nowhere."""


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
    """The hosts of a task, by index. Raises PluginError where there are more than any object can list."""
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
    """How many Pods a task is to have; 0 where there is no such task."""
    task = find_task(job, name)
    return max(task.replicas, 0) if task is not None else 0
