"""Job plugin ray: one Pod heads a Ray cluster that the workers join, and a Service leads to the head.

It relies on plugin svc, which admission adds to a job that names ray.
"""

from collections.abc import Sequence

from scheduler.api import batch
from scheduler.api.job_plugins import RayOptions, parse, ray_head
from scheduler.api.kinds import SERVICE, VCJOB
from scheduler.api.names import JOB_NAME, JOB_NAMESPACE, TASK_SPEC
from scheduler.controllers.effects import Json
from scheduler.controllers.job.plugins.contract import JobPlugin, JobPluginError, WantedObject
from scheduler.controllers.job.plugins.podspec import find_container, first_host, open_port, port_name
from scheduler.controllers.owners import owned


class Ray(JobPlugin):
    def __init__(self, job: batch.Job, arguments: Sequence[str]) -> None:
        self._options = options = parse(RayOptions, arguments)
        head, container = ray_head(job.spec, options)
        self._ports = {
            "gcs": options.port,
            "dashboard": options.dashboard_port,
            "client-server": options.client_port,
        }
        self._targets = {name: port_name(container, name, number) for name, number in self._ports.items()}
        self._head_command = _shell(
            f"ray start --head --block --dashboard-host=0.0.0.0 --port={options.port} "
            f"--dashboard-port={options.dashboard_port} --ray-client-server-port={options.client_port}"
        )
        self._worker_command = _shell(f"ray start --block --address={first_host(job, head).domain}:{options.port}")

    def mutate_pod(self, pod: Json, task: batch.TaskSpec, index: int, job: batch.Job) -> None:
        if task.name == self._options.head:
            container = _container(pod, self._options.head_container)
            container["command"] = self._head_command
            for name, number in self._ports.items():
                open_port(container, name, number)
        elif task.name == self._options.worker:
            container = _container(pod, self._options.worker_container)
            container["command"] = self._worker_command

    def wanted(self, job: batch.Job) -> list[WantedObject]:
        name = f"{job.metadata.name}-head-svc"
        spec = {
            "selector": {
                JOB_NAME: job.metadata.name,
                JOB_NAMESPACE: job.metadata.namespace,
                TASK_SPEC: self._options.head,
            },
            "ports": [
                {"name": port, "port": number, "targetPort": self._targets[port], "protocol": "TCP"}
                for port, number in self._ports.items()
            ],
        }
        return [WantedObject(SERVICE, name, lambda: owned(SERVICE, name, VCJOB, job, spec=spec))]


def _container(pod: Json, name: str) -> Json:
    container = find_container(pod, name)
    if container is None:  # its template has one
        raise JobPluginError(f"there is no container {name!r}")
    return container


def _shell(script: str) -> list[str]:
    return ["sh", "-c", script]
