"""Job plugin env: a Pod knows its index in its task."""

from collections.abc import Sequence

from scheduler.api import batch
from scheduler.api.job_plugins import EnvOptions, parse
from scheduler.controllers.effects import Json
from scheduler.controllers.job.plugins.contract import JobPlugin
from scheduler.controllers.job.plugins.podspec import add_env, all_containers

NAMES = ("VK_TASK_INDEX", "VC_TASK_INDEX")
"""The older name, and today's."""


class Env(JobPlugin):
    def __init__(self, job: batch.Job, arguments: Sequence[str]) -> None:
        parse(EnvOptions, arguments)

    def mutate_pod(self, pod: Json, task: batch.TaskSpec, index: int, job: batch.Job) -> None:
        entries = [{"name": name, "value": str(index)} for name in NAMES]
        for container in all_containers(pod):
            add_env(container, entries)
