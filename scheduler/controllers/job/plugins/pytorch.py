"""Job plugin pytorch: the variables of torch.distributed, and workers that wait for their master if asked.

It relies on plugin svc, which admission adds to a job that names pytorch.
"""

from collections.abc import Sequence

from scheduler.api import batch
from scheduler.api.job_plugins import WAIT_CONTAINER, PytorchOptions, parse
from scheduler.controllers.effects import Json
from scheduler.controllers.job.plugins.contract import JobPlugin
from scheduler.controllers.job.plugins.podspec import (
    add_env,
    add_init_container,
    containers,
    find_task,
    first_host,
    open_port,
    rank,
    replicas,
)

WAIT_SCRIPT = """\
end=$(($(date +%s) + WAIT_SECONDS))
until nc -z -w 2 "$MASTER_ADDR" "$MASTER_PORT"; do
  if [ "$(date +%s)" -ge "$end" ]; then
    echo "master $MASTER_ADDR:$MASTER_PORT was not there within $WAIT_SECONDS s" >&2
    exit 1
  fi
  sleep 2
done
"""
"""Ends when the master listens; fails when the time is up."""


class Pytorch(JobPlugin):
    def __init__(self, job: batch.Job, arguments: Sequence[str]) -> None:
        self._options = options = parse(PytorchOptions, arguments)
        master = find_task(job, options.master)
        self._env: list[Json] | None = None
        """The variables of every Pod; None without a master: nothing is distributed, as in Volcano."""
        if master is not None:
            world = replicas(job, options.master) + replicas(job, options.worker)
            self._env = [
                {"name": "MASTER_ADDR", "value": first_host(job, master).domain},
                {"name": "MASTER_PORT", "value": str(options.port)},
                {"name": "WORLD_SIZE", "value": str(world)},
            ]

    def mutate_pod(self, pod: Json, task: batch.TaskSpec, index: int, job: batch.Job) -> None:
        if self._env is None:
            return
        options = self._options
        own = rank(job, options.master, options.worker, task, index)
        env = self._env if own is None else [*self._env, {"name": "RANK", "value": str(own)}]
        for container in containers(pod):
            open_port(container, "pytorchjob-port", options.port)
            add_env(container, env)
        if options.wait_master_enabled and task.name == options.worker:
            add_init_container(pod, self._wait(self._env))

    def _wait(self, env: list[Json]) -> Json:
        return {
            "name": WAIT_CONTAINER,
            "image": self._options.wait_master_image,
            "command": ["sh", "-c", WAIT_SCRIPT],
            "env": [*env[:2], {"name": "WAIT_SECONDS", "value": str(self._options.wait_master_timeout)}],
        }
