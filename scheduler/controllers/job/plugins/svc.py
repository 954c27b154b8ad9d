"""Job plugin svc: the Pods of a job find each other by name.

Each gets a hostname in the subdomain of a headless Service, lists of all hosts as files under /etc/volcano and as
variables ``VC_<TASK>_HOSTS`` and ``VC_<TASK>_NUM``; a NetworkPolicy lets only the job's own Pods in.
"""

from collections.abc import Sequence

from scheduler.api import batch
from scheduler.api.job_plugins import SvcOptions, parse
from scheduler.api.kinds import CONFIG_MAP, NETWORK_POLICY, SERVICE, VCJOB
from scheduler.api.names import JOB_NAME, JOB_NAMESPACE
from scheduler.controllers.effects import Json
from scheduler.controllers.job.plugins.contract import JobPlugin, WantedObject
from scheduler.controllers.job.plugins.podspec import (
    add_env,
    add_volume,
    all_containers,
    mount,
    pod_name,
    spec_of,
    task_hosts,
)
from scheduler.controllers.owners import owned

MOUNT_PATH = "/etc/volcano"


class Svc(JobPlugin):
    def __init__(self, job: batch.Job, arguments: Sequence[str]) -> None:
        self._options = parse(SvcOptions, arguments)
        self._map = f"{job.metadata.name}-svc"
        self._volume = {"name": self._map, "configMap": {"name": self._map, "defaultMode": 0o644}}
        self._mount = {"name": self._map, "mountPath": MOUNT_PATH}
        self._env = [
            {"name": key, "valueFrom": {"configMapKeyRef": {"name": self._map, "key": key}}}
            for key in dict.fromkeys(key for task in job.spec.tasks for key in _variables(task))
        ]

    def mutate_pod(self, pod: Json, task: batch.TaskSpec, index: int, job: batch.Job) -> None:
        spec = spec_of(pod)
        spec["hostname"] = spec.get("hostname") or pod_name(job, task, index)
        spec["subdomain"] = spec.get("subdomain") or job.metadata.name
        add_volume(pod, self._volume)
        for container in all_containers(pod):
            mount(container, self._mount)
            if self._options.inject_hosts_env:
                add_env(container, self._env)

    def wanted(self, job: batch.Job) -> list[WantedObject]:
        data = host_files(job)
        name = job.metadata.name
        objects = [
            WantedObject(
                CONFIG_MAP, self._map, lambda: owned(CONFIG_MAP, self._map, VCJOB, job, data=data), refresh=True
            ),
            WantedObject(SERVICE, name, lambda: owned(SERVICE, name, VCJOB, job, spec=self._service(job))),
        ]
        if not self._options.disable_network_policy:
            policy = _only_each_other(job)
            objects.append(
                WantedObject(NETWORK_POLICY, name, lambda: owned(NETWORK_POLICY, name, VCJOB, job, spec=policy))
            )
        return objects

    def _service(self, job: batch.Job) -> Json:
        spec: Json = {"clusterIP": "None", "selector": _pods_of(job)}
        if self._options.publish_not_ready_addresses:
            spec["publishNotReadyAddresses"] = True
        return spec


def host_files(job: batch.Job) -> dict[str, str]:
    """The data of the ConfigMap: a file of hosts for each task, and values of the variables. Raises JobPluginError."""
    data = {}
    for task in job.spec.tasks:
        domains = [host.domain for host in task_hosts(job, task)]
        hosts, number = _variables(task)
        data[f"{_key(task)}.host"] = "\n".join(domains)
        data[hosts] = ",".join(domains)
        data[number] = str(len(domains))
    return data


def _variables(task: batch.TaskSpec) -> tuple[str, str]:
    """The variables of a task: its hosts, and how many."""
    key = _key(task).upper()
    return f"VC_{key}_HOSTS", f"VC_{key}_NUM"


def _key(task: batch.TaskSpec) -> str:
    return task.name.replace("-", "_")


def _pods_of(job: batch.Job) -> dict[str, str]:
    return {JOB_NAME: job.metadata.name, JOB_NAMESPACE: job.metadata.namespace}


def _only_each_other(job: batch.Job) -> Json:
    """The spec of a NetworkPolicy."""
    pods = {"matchLabels": _pods_of(job)}
    return {"podSelector": pods, "ingress": [{"from": [{"podSelector": pods}]}], "policyTypes": ["Ingress"]}
