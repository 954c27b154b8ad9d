"""Job plugin mpi: the master knows the hosts of its workers as MPI_HOST; the port of sshd is open.

It relies on plugins svc and ssh, which admission adds to a job that names mpi.
"""

from collections.abc import Sequence
from functools import cached_property

from scheduler.api import batch
from scheduler.api.job_plugins import MpiOptions, parse
from scheduler.controllers.effects import Json
from scheduler.controllers.job.plugins.contract import JobPlugin
from scheduler.controllers.job.plugins.podspec import add_env, all_containers, find_task, open_port, task_hosts


class Mpi(JobPlugin):
    def __init__(self, job: batch.Job, arguments: Sequence[str]) -> None:
        self._job = job
        self._options = parse(MpiOptions, arguments)

    @cached_property
    def _env(self) -> list[Json]:
        """The variables of the master, built when the first Pod needs them."""
        workers = find_task(self._job, self._options.worker)
        if workers is None:  # a master alone is a job, too
            return []
        return [{"name": "MPI_HOST", "value": ",".join(host.domain for host in task_hosts(self._job, workers))}]

    def mutate_pod(self, pod: Json, task: batch.TaskSpec, index: int, job: batch.Job) -> None:
        for container in all_containers(pod):
            open_port(container, "mpijob-port", self._options.port)
            if task.name == self._options.master:
                add_env(container, self._env)
