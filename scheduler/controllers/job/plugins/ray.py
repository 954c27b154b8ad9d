"""Job plugin ray: one Pod heads a Ray cluster that the workers join, and a Service leads to the head.

It relies on plugin svc, which admission adds to a job that names ray.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.api import batch
from scheduler.api.kinds import SERVICE, VCJOB
from scheduler.api.names import JOB_NAME, JOB_NAMESPACE, TASK_SPEC
from scheduler.controllers.effects import Json
from scheduler.controllers.job.plugins.arguments import option, parse
from scheduler.controllers.job.plugins.contract import JobPlugin, PluginError, Wanted
from scheduler.controllers.job.plugins.hosts import find_task, first_host
from scheduler.controllers.job.plugins.podspec import find_container, open_port, port_name
from scheduler.controllers.owners import owned


@dataclass(frozen=True)
class Options:
    head: str = "head"
    head_container: str = option("head", "headContainer")
    worker: str = "worker"
    worker_container: str = option("worker", "workerContainer")
    port: int = option(6379)
    dashboard_port: int = option(8265, "dashboardPort")
    client_port: int = option(10001, "clientPort", "clientServerPort")
    """Volcano's program knows the first flag, its guide the second."""


class Ray(JobPlugin):
    def __init__(self, job: batch.Job, arguments: Sequence[str]) -> None:
        self._options = options = parse(Options, arguments)
        head = find_task(job, options.head)
        if head is None:
            raise PluginError(f"job {job.metadata.name} has no task {options.head!r}; name it by --head")
        container = _container(head.template, head, options.head_container, "headContainer")
        worker = find_task(job, options.worker)
        if worker is not None:
            _container(worker.template, worker, options.worker_container, "workerContainer")
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
            container = _container(pod, task, self._options.head_container, "headContainer")
            container["command"] = self._head_command
            for name, number in self._ports.items():
                open_port(container, name, number)
        elif task.name == self._options.worker:
            container = _container(pod, task, self._options.worker_container, "workerContainer")
            container["command"] = self._worker_command

    def wanted(self, job: batch.Job) -> list[Wanted]:
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
        return [Wanted(SERVICE, name, lambda: owned(SERVICE, name, VCJOB, job, spec=spec))]


def _container(pod: Json, task: batch.TaskSpec, name: str, flag: str) -> Json:
    container = find_container(pod, name)
    if container is None:
        raise PluginError(f"task {task.name} has no container {name!r}; name it by --{flag}")
    return container


def _shell(script: str) -> list[str]:
    return ["sh", "-c", script]
