"""``job top``: the progress of each gang and why it waits; live on a terminal."""

import time
from typing import TYPE_CHECKING

import click

from scheduler.cli.completion import names_of
from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.listing import show_once
from scheduler.cli.output import TABLE, Column
from scheduler.cli.target import connection_options
from scheduler.cli.text import age, cell, colour_of, console, on_terminal
from scheduler.cli.view import View

if TYPE_CHECKING:
    from rich.table import Table

    from scheduler.cli.job.gang import Gang

_CELLS = 20
_FRAME_SECONDS = 0.25
"""Time between two frames, which show all changes until then."""
_REFRESH_SECONDS = 1.0
"""Time after which ages are updated although nothing else has changed."""


@click.command("top")
@click.option("-q", "--queue", default="", help="Only jobs of this queue.", shell_complete=names_of("QUEUE"))
@click.option("-l", "--label-selector", "labels", default="", help="Label selector, in kubectl's notation.")
@click.option(
    "-w/-W", "--watch/--no-watch", default=None, show_default="on a terminal", help="Show changes as they occur."
)
@connection_options(namespaced=True, all_namespaces=True)
def top_command(connection: Connection, queue: str, labels: str, watch: bool | None) -> None:
    """Show the progress of gangs and why they wait.

    The full part of a bar is the Pods that run or have succeeded; its mark is the number that must run at once.
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


def bar(ready: int, needed: int, total: int, cells: int = _CELLS) -> str:
    """A bar: full cells for ready Pods, and a mark at the number needed, unless all Pods are needed."""
    total = max(total, 1)
    full = min(cells, ready * cells // total)
    mark = min(cells, -(-needed * cells // total))
    drawn = "█" * full + "░" * (cells - full)
    return drawn if not full < mark < cells else f"{drawn[: mark - 1]}▏{drawn[mark:]}"


def top_view(namespace: str, queue: str = "", labels: str = "") -> "View[Gang]":
    """The table of the gangs of a namespace, or of all namespaces ("")."""
    from scheduler.api.kinds import POD_GROUP, VCJOB
    from scheduler.cli.job.gang import gangs
    from scheduler.cluster.kube.transport.sources import Source

    now = time.time
    columns: list[Column[Gang]] = [
        Column("Name", lambda gang: gang.job.metadata.name),
        Column("Gang", lambda gang: bar(gang.ready, gang.needed, gang.total)),
        Column("Ready/Min/All", lambda gang: f"{gang.ready}/{gang.needed}/{gang.total}"),
        Column("Phase", lambda gang: gang.phase, phase=True),
        Column("Queue", lambda gang: gang.job.spec.queue),
        Column("Age", lambda gang: age(gang.job.metadata.creation_timestamp, now())),
        Column("Reason", lambda gang: gang.reason, elastic=True),
    ]
    if not namespace:
        columns.insert(0, Column("Namespace", lambda gang: gang.job.metadata.namespace))
    return View(
        (Source(VCJOB, namespace, labels=labels), Source(POD_GROUP, namespace)),
        lambda objects: [
            gang for gang in gangs(objects[VCJOB.name], objects[POD_GROUP.name]) if queue in ("", gang.job.spec.queue)
        ],
        columns,
        lambda gang: gang.job,
    )


async def _live(cluster: Cluster, view: "View[Gang]") -> None:
    import asyncio
    import contextlib

    from rich.live import Live

    from scheduler.cli.watching import watch_objects

    async with watch_objects(cluster, view.sources) as watched:
        with Live(console=console(), auto_refresh=False, transient=False) as live:
            while True:
                watched.changed.clear()
                live.update(live_table(view, view.rows(watched.objects(view.sources))), refresh=True)
                await asyncio.sleep(_FRAME_SECONDS)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_REFRESH_SECONDS):
                        await watched.changed.wait()


def live_table(view: "View[Gang]", rows: "list[Gang]") -> "Table":
    """The table that the live view draws."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in view.columns:
        table.add_column(column.title, no_wrap=not column.elastic, overflow="fold")
    for gang in rows:
        style = colour_of(gang.phase) or ""
        table.add_row(
            *(
                cell(column.cell(gang), style if column.phase or column.title == "Gang" else "")
                for column in view.columns
            )
        )
    return table
