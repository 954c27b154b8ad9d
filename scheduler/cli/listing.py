"""The verb ``list``, for every kind of object: fetch, select, print, and with ``--watch`` go on with the changes."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import click

from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.output import TABLE, WIDE, key_in, output_option, print_list
from scheduler.cli.target import connected
from scheduler.cli.view import View, key_of, print_rows, read_objects

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListFlags:
    """What every ``list`` is given."""

    output: str
    watch: bool
    labels: str


def list_flags(*, namespaced: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add what every ``list`` takes to a command, whose function is given ``connection`` and ``flags``."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @click.option("-l", "--label-selector", "labels", default="", help="Label selector, in kubectl's notation.")
        @click.option("-w", "--watch", is_flag=True, help="Go on with the rows that change.")
        @output_option()
        @connected(namespaced=namespaced, across=namespaced)
        @functools.wraps(function)
        def called(output: str, watch: bool, labels: str, **given: object) -> None:
            function(flags=ListFlags(output, watch, labels), **given)

        return called

    return decorate


def show_list(connection: Connection, flags: ListFlags, view: Callable[[Cluster], View[T]]) -> None:
    """Print the view, and with ``watch`` the changes until interrupted."""

    async def work(cluster: Cluster) -> None:
        if flags.watch:
            from scheduler.cli.watching import watch

            await watch(cluster, view(cluster), flags.output)
        else:
            await show_once(cluster, view(cluster), flags.output)

    connection.run(work)


async def show_once(cluster: Cluster, view: View[T], output: str) -> None:
    """Print the view as it is now. Raises Failed."""
    found = [await cluster.fetch(source) for source in view.sources]
    objects = {
        source.kind.name: read_objects(source.kind, raws) for source, raws in zip(view.sources, found, strict=True)
    }
    rows = view.rows(objects)
    if output in (TABLE, WIDE):
        print_rows(view, rows, output)
        return
    unwanted = {key_of(obj) for obj in objects[view.kind.name]} - {view.key(row) for row in rows}
    print_list([raw for raw in found[0] if key_in(raw) not in unwanted], output, view.kind)
