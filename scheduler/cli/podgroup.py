"""``podgroup list``: the PodGroups, with their phase and the number of Pods that run."""

import time
from typing import Any

import click

from scheduler.cli.completion import names_of
from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.listing import ListFlags, list_flags, show_list
from scheduler.cli.output import Column
from scheduler.cli.text import age
from scheduler.cli.view import View

_NAMESPACE: Column[Any] = Column("Namespace", lambda row: row.metadata.namespace)
_COLUMNS: tuple[Column[Any], ...] = (
    Column("Name", lambda row: row.metadata.name, 25),
    Column("Phase", lambda row: row.status.phase or None, 12, phase=True),
    Column("minMember", lambda row: row.spec.min_member),
    Column("Running", lambda row: row.status.running),
    Column("Queue", lambda row: row.spec.queue or None),
    Column("Age", lambda row: age(row.metadata.creation_timestamp, time.time())),
    Column("PriorityClass", lambda row: row.spec.priority_class_name or None, wide=True),
)


@click.group("podgroup")
def podgroup_group() -> None:
    """Show PodGroups."""


@podgroup_group.command("list")
@click.option("-q", "--queue", default="", help="Only PodGroups of this queue.", shell_complete=names_of("QUEUE"))
@list_flags()
def list_command(connection: Connection, flags: ListFlags, queue: str) -> None:
    """List PodGroups."""
    from scheduler.api.kinds import POD_GROUP
    from scheduler.cluster.kube.transport.sources import WatchSource

    def view(cluster: Cluster) -> View[Any]:
        return View(
            (WatchSource(POD_GROUP, cluster.scope, labels=flags.labels),),
            lambda objects: [row for row in objects[POD_GROUP] if queue in ("", row.spec.queue)],
            _COLUMNS if cluster.scope else (_NAMESPACE, *_COLUMNS),
        )

    show_list(connection, flags, view)
