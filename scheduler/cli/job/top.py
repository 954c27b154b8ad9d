"""``job top``: the progress of each gang and why it waits; live on a terminal."""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

import click

from scheduler.api.names import JOB_NAME
from scheduler.cli.completion import names_of
from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.layout import bar
from scheduler.cli.listing import show_once
from scheduler.cli.output import TABLE, Column, RowTable
from scheduler.cli.target import connection_options
from scheduler.cli.text import age, colour_of, on_terminal
from scheduler.cli.view import ListedObjects, View

if TYPE_CHECKING:
    from scheduler.cli.job.gang import GangRow, WorkloadRow

Row: TypeAlias = "GangRow | WorkloadRow"


@click.command("top")
@click.option("-q", "--queue", default="", help="Only those of this queue.", shell_complete=names_of("QUEUE"))
@click.option("-l", "--label-selector", "labels", default="", help="Label selector, in kubectl's notation.")
@click.option(
    "-w/-W", "--watch/--no-watch", default=None, show_default="on a terminal", help="Show changes as they occur."
)
@connection_options(namespaced=True, all_namespaces=True)
def top_command(connection: Connection, queue: str, labels: str, watch: bool | None) -> None:
    """Show the progress of gangs and why they wait: vcjobs, and workloads without one, such as Deployments.

    The full part of a bar is the Pods that run or have succeeded; its mark is the number that must run at once. A live
    view ends with q or Ctrl-C.
    """
    terminal = on_terminal()

    async def work(cluster: Cluster) -> None:
        view = top_view(cluster.scope, queue, labels)
        if not (terminal if watch is None else watch):
            await show_once(cluster, view, TABLE)
        elif terminal:
            await _live(cluster, view)
        else:
            from scheduler.cli.watching import watch as print_changes

            await print_changes(cluster, view, TABLE)

    connection.run(work)


def top_view(namespace: str, queue: str = "", labels: str = "") -> "View[Row]":
    """The table of the gangs of a namespace, or of all namespaces ("")."""
    from scheduler.api.kinds import POD, POD_GROUP, VCJOB
    from scheduler.cli.job.gang import gangs, workloads
    from scheduler.cluster.kube.transport.sources import WatchSource

    def rows(objects: ListedObjects) -> "list[Row]":
        groups = objects[POD_GROUP]
        found: list[Row] = [*gangs(objects[VCJOB], groups), *workloads(groups, objects[POD])]
        return [row for row in found if queue in ("", row.queue)]

    columns: list[Column[Row]] = [
        Column("Name", lambda row: row.metadata.name),
        Column("Gang", lambda row: bar(row.ready, row.needed, row.total), colour=lambda row: colour_of(row.phase)),
        Column("Ready/Min/All", lambda row: f"{row.ready}/{row.needed}/{row.total}"),
        Column("Phase", lambda row: row.phase, phase=True),
        Column("Queue", lambda row: row.queue),
        Column("Age", lambda row: age(row.metadata.creation_timestamp, time.time())),
        Column("Reason", lambda row: row.reason, elastic=True),
    ]
    if not namespace:
        columns.insert(0, Column("Namespace", lambda row: row.metadata.namespace))
    without_vcjob = ",".join(part for part in (labels, f"!{JOB_NAME}") if part)
    return View(
        (
            WatchSource(VCJOB, namespace, labels=labels),
            WatchSource(POD_GROUP, namespace),
            WatchSource(POD, namespace, labels=without_vcjob),
        ),
        rows,
        columns,
    )


async def _live(cluster: Cluster, view: "View[Row]") -> None:
    from scheduler.cli.live import live_screen
    from scheduler.cli.watching import watch_objects

    async with watch_objects(cluster, view.sources) as watched, live_screen(watched.changed) as screen:
        while not screen.left:
            watched.changed.clear()
            screen.draw(RowTable(view.columns).blocks(in_order(view.rows(watched.objects(view.sources)))))
            await screen.pause()


def in_order(rows: "Iterable[Row]") -> "list[Row]":
    """First those that wait or have failed, because the screen may be too small for all."""
    return sorted(rows, key=lambda row: (not row.reason, row.metadata.namespace, row.metadata.name))
