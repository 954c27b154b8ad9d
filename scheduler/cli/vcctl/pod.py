"""``vcctl pod``: the Pods of vcjobs, or of a queue."""

from typing import TYPE_CHECKING, Final

import click

from scheduler.api.names import JOB_NAME
from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.errors import CommandError
from scheduler.cli.pod import COLUMNS, queue_of
from scheduler.cli.vcctl.flags import connection_flags
from scheduler.cli.vcctl.table import print_view
from scheduler.cli.view import ListedObjects, View, key_of

if TYPE_CHECKING:
    from scheduler.cli.pod_state import ListedPod

_TITLE_GAP: Final = 2


@click.group("pod")
def pod_group() -> None:
    """Show the Pods of vcjobs."""


@pod_group.command("list")
@click.option("-q", "--queue", default="", help="All Pods of this queue.")
@click.option("-j", "--job", default="", help="Only Pods of this vcjob.")
@connection_flags("-n", all_namespaces=True)
def list_command(connection: Connection, queue: str, job: str) -> None:
    """List the Pods of vcjobs, or of a queue."""
    from scheduler.cli.pod_state import LISTED_POD
    from scheduler.cluster.kube.transport.sources import WatchSource

    def rows(objects: ListedObjects) -> "list[ListedPod]":
        pods = objects[LISTED_POD]
        if job and queue and any(queue_of(pod) not in ("", queue) for pod in pods):
            raise CommandError(f"the input vcjob {job} does not match the queue {queue}")
        return sorted((pod for pod in pods if job or queue in ("", queue_of(pod))), key=key_of)

    async def work(cluster: Cluster) -> None:
        labels = f"{JOB_NAME}={job}" if job else "" if queue else JOB_NAME
        columns = COLUMNS[1:] if cluster.scope else COLUMNS
        view = View((WatchSource(LISTED_POD, cluster.scope, labels=labels),), rows, columns)
        await print_view(cluster, view, title_gap=_TITLE_GAP)

    connection.run(work)
