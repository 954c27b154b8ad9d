"""``job run``: creates a vcjob from a manifest or from vcctl's flags."""

from collections.abc import Sequence
from typing import Any, Final

import click

from scheduler.api.names import DEFAULT_SCHEDULER_NAME, RUN_LABEL
from scheduler.cli.completion import names_of
from scheduler.cli.connection import Cluster, Connection, Raw
from scheduler.cli.errors import CommandError
from scheduler.cli.flags import RESOURCE_LIST
from scheduler.cli.operations import file_option, read_files
from scheduler.cli.output import JSON, NAME, TABLE, YAML, key_in, output_option, print_object
from scheduler.cli.target import connection_options
from scheduler.cli.text import echo, pairs

DEFAULT_RESOURCES: Final = {"cpu": "1000m", "memory": "100Mi"}


@click.command("run")
@file_option
@click.option("-N", "--name", default="", help="Name of the job.")
@click.option("-i", "--image", default="busybox", show_default=True, help="Image of the container.")
@click.option(
    "-m", "--min", "min_available", type=int, default=1, show_default=True, help="Number of Pods that must run at once."
)
@click.option("-r", "--replicas", type=int, default=1, show_default=True, help="Number of Pods.")
@click.option(
    "-R",
    "--requests",
    type=RESOURCE_LIST,
    show_default=f"the limits, else {pairs(DEFAULT_RESOURCES.items())}",
    help="Requests of each Pod.",
)
@click.option("-L", "--limits", type=RESOURCE_LIST, show_default="the requests", help="Limits of each Pod.")
@click.option(
    "-S", "--scheduler", default=DEFAULT_SCHEDULER_NAME, show_default=True,
    envvar="VOLCANO_SCHEDULER_NAME", show_envvar=True, help="schedulerName of the job.",
)  # fmt: skip
@click.option("-q", "--queue", default="", help="Queue of the job.", shell_complete=names_of("QUEUE"))
@output_option(TABLE, JSON, YAML, NAME)
@connection_options(namespaced=True)
@click.argument("command", nargs=-1, metavar="[-- COMMAND [ARGUMENT]...]")
def run_command(connection: Connection, files: Sequence[str], output: str, **flags: Any) -> None:
    """Create a vcjob from a manifest or from flags."""
    from scheduler.api.kinds import VCJOB

    if not files and not flags["name"]:
        raise CommandError("job name cannot be left blank")

    requests, limits = flags.pop("requests"), flags.pop("limits")
    resources = {
        "requests": requests or limits or DEFAULT_RESOURCES,
        "limits": limits or requests or DEFAULT_RESOURCES,
    }

    async def work(cluster: Cluster) -> None:
        jobs = (
            read_files(files, VCJOB, cluster.namespace, connection.namespace)
            if files
            else [(cluster.namespace, job_of_one_task(resources=resources, **flags))]
        )
        for namespace, job in jobs:
            created = await cluster.create(VCJOB, namespace, job)
            if output == TABLE:
                echo(f"run job {key_in(created)[1]} successfully")
            else:
                print_object(created, output, VCJOB)

    connection.run(work)


def job_of_one_task(
    *, name: str, image: str, min_available: int, replicas: int, resources: Raw, scheduler: str, queue: str = "",
    command: Sequence[str] = (),
) -> Raw:  # fmt: skip
    """A vcjob of one task with one container. The kubelet never restarts it: the job controller does.

    ``resources``: those of the container; ``scheduler`` and ``queue``: "" for the ones that admission sets.
    """
    from scheduler.api.kinds import VCJOB

    container: Raw = {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "resources": resources,
    }
    if command:
        container["command"] = list(command)
    template = {
        "metadata": {"name": name, "labels": {RUN_LABEL: name}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    spec: Raw = {
        "minAvailable": min_available,
        **({"schedulerName": scheduler} if scheduler else {}),
        "tasks": [{"name": "default0", "replicas": replicas, "template": template}],
    }
    if queue:
        spec["queue"] = queue
    return {"apiVersion": VCJOB.api_version, "kind": VCJOB.name, "metadata": {"name": name}, "spec": spec}
