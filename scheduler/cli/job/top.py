"""``job top``: how far each gang is and why it waits; live on a terminal."""

import time
from typing import TYPE_CHECKING

import click

from scheduler.cli.completion import names_of
from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.listing import show_once
from scheduler.cli.output import TABLE, Column
from scheduler.cli.target import connected
from scheduler.cli.text import age, cell, colour_of, console, on_terminal
from scheduler.cli.view import View

if TYPE_CHECKING:
    from rich.table import Table

    from scheduler.cli.job.gang import Gang

_CELLS = 20
_BETWEEN_FRAMES = 0.25
"""Seconds: changes that come faster are drawn together."""
_UNCHANGED = 1.0
"""Seconds after which ages are drawn anew."""


@click.command("top")
@click.option("-q", "--queue", default="", help="Only jobs of this queue.", shell_complete=names_of("QUEUE"))
@click.option("-l", "--label-selector", "labels", default="", help="Label selector, in kubectl's notation.")
@click.option(
    "-w/-W", "--watch/--no-watch", default=None, show_default="on a terminal", help="Draw changes as they come."
)
@connected(namespaced=True, across=True)
def top_command(connection: Connection, queue: str, labels: str, watch: bool | None) -> None:
    """Show how far gangs are and why they wait.

    A bar is full of the Pods that run or have succeeded; its mark is the number that must run at once.
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
    """Full cells for Pods that are ready; a mark where the gang is complete, unless it is complete only with all."""
    total = max(total, 1)
    full = min(cells, ready * cells // total)
    mark = min(cells, -(-needed * cells // total))
    drawn = "█" * full + "░" * (cells - full)
    return drawn if not full < mark < cells else f"{drawn[: mark - 1]}▏{drawn[mark:]}"


def top_view(namespace: str, queue: str = "", labels: str = "") -> "View[Gang]":
    """The gangs of a namespace, or of all ("")."""
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

    from scheduler.cli.watching import mirrored

    async with mirrored(cluster, view.sources) as mirror:
        with Live(console=console(), auto_refresh=False, transient=False) as live:
            while True:
                mirror.changed.clear()
                live.update(drawn(view, view.rows(mirror.objects(view.sources))), refresh=True)
                await asyncio.sleep(_BETWEEN_FRAMES)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_UNCHANGED):
                        await mirror.changed.wait()


def drawn(view: "View[Gang]", rows: "list[Gang]") -> "Table":
    """A frame of the live view."""
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
