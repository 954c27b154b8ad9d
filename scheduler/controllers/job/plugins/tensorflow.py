"""Job plugin tensorflow: who is who in the cluster, as TF_CONFIG.

It relies on plugin svc, which admission adds to a job that names tensorflow.
"""

import json
from collections.abc import Sequence
from functools import cached_property

from scheduler.api import batch
from scheduler.api.job_plugins import TensorflowOptions, parse
from scheduler.controllers.effects import Json
from scheduler.controllers.job.plugins.contract import JobPlugin
from scheduler.controllers.job.plugins.podspec import add_env, containers, task_hosts


class Tensorflow(JobPlugin):
    def __init__(self, job: batch.Job, arguments: Sequence[str]) -> None:
        self._job = job
        self._options = options = parse(TensorflowOptions, arguments)
        self._roles = {
            options.evaluator: "evaluator",
            options.chief: "chief",
            options.worker: "worker",
            options.ps: "ps",
        }
        """Task -> its role. If several roles name one task, it has the last of them."""

    @cached_property
    def _cluster(self) -> str:
        """Who is where, as JSON: the roles in TF_CONFIG's order, those without hosts left out."""
        members: dict[str, list[str]] = {"ps": [], "worker": [], "chief": [], "evaluator": []}
        for task in self._job.spec.tasks:
            if task.name in self._roles:
                hosts = task_hosts(self._job, task)
                members[self._roles[task.name]] = [f"{host.domain}:{self._options.port}" for host in hosts]
        return _compact({role: hosts for role, hosts in members.items() if hosts})

    def mutate_pod(self, pod: Json, task: batch.TaskSpec, index: int, job: batch.Job) -> None:
        if len(job.spec.tasks) == 1 and job.spec.tasks[0].replicas == 1:
            return  # a single Pod is no cluster
        me = _compact({"type": self._roles.get(task.name, task.name), "index": index})
        # Joined as text: the cluster is the same for thousands of Pods, and long.
        env = [{"name": "TF_CONFIG", "value": f'{{"cluster":{self._cluster},"task":{me}}}'}]
        for container in containers(pod):
            add_env(container, env)


def _compact(value: Json) -> str:
    return json.dumps(value, separators=(",", ":"))
