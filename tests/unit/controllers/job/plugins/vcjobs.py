"""Short builders of vcjobs, and of their Pods as plugins receive them."""

import copy
from typing import Any

from scheduler.api import batch
from scheduler.controllers.job.plugins import make_plugins
from scheduler.controllers.job.plugins.contract import mutate_pod_by_plugins, wanted_objects

Raw = dict[str, Any]


def task(name: str, replicas: int = 1, *containers: Raw, **spec: Any) -> batch.TaskSpec:
    """A task; one container called ``main`` unless said otherwise."""
    listed = list(containers) or [{"name": "main", "image": "busybox"}]
    return batch.TaskSpec(name=name, replicas=replicas, template={"spec": {"containers": listed, **spec}})


def vcjob(name: str, *tasks: batch.TaskSpec, **plugins: list[str]) -> batch.Job:
    """A job in namespace default."""
    job = batch.Job(spec=batch.JobSpec(tasks=list(tasks), plugins=dict(plugins)))
    job.metadata.name, job.metadata.namespace, job.metadata.uid = name, "default", f"uid-of-{name}"
    return job


def pod(job: batch.Job, role: str, index: int = 0) -> Raw:
    """The manifest of a Pod of the job, mutated by its plugins."""
    spec = next(each for each in job.spec.tasks if each.name == role)
    made = {"metadata": {"name": f"{job.metadata.name}-{role}-{index}"}, **copy.deepcopy(spec.template)}
    mutate_pod_by_plugins(make_plugins(job), made, spec, index, job)
    return made


def env(container: Raw) -> Raw:
    """Maps a name to its value, or to the source of the value."""
    listed = container.get("env", [])
    assert len({entry["name"] for entry in listed}) == len(listed), "a variable is there twice"
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in listed}


def main_env(job: batch.Job, role: str, index: int = 0) -> Raw:
    """The variables of a Pod's first container."""
    return env(pod(job, role, index)["spec"]["containers"][0])


def objects(job: batch.Job) -> dict[tuple[str, str], Raw]:
    """The objects that the plugins create, built, by kind and name."""
    return {(each.kind.name, each.name): each.build() for each in wanted_objects(make_plugins(job), job)}
