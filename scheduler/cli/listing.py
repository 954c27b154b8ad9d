"""The verb ``list`` for every kind: fetches, selects and prints objects, and their changes with ``--watch``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.flags import Decorator, options_as
from scheduler.cli.output import TABLE, WIDE, Raw, key_in, output_option, print_list
from scheduler.cli.target import connection_options
from scheduler.cli.view import ListedObjects, View, key_of, print_rows, read_objects

if TYPE_CHECKING:
    from scheduler.api.kinds import Kind
    from scheduler.cluster.kube.transport.sources import WatchSource

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListFlags:
    """The flags that every ``list`` has."""

    output: str
    watch: bool
    labels: str


def list_flags(*, namespaced: bool = True) -> Decorator:
    """Adds the flags of ``list`` to a command, whose function takes the parameters ``connection`` and ``flags``."""
    return options_as(
        "flags",
        ListFlags,
        click.option("-l", "--label-selector", "labels", default="", help="Label selector, in kubectl's notation."),
        click.option("-w", "--watch", is_flag=True, help="After listing, print the rows that change."),
        output_option(),
        connection_options(namespaced=namespaced, all_namespaces=namespaced),
    )


class _Phase(click.Choice[str]):
    """Phases, in any case, which help, completion and errors show as tables do."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        text = str(choice)
        return next((phase for phase in self.choices if phase.casefold() == text.casefold()), text)


def phase_option(*phases: str) -> Decorator:
    """Adds ``--phase`` to a command, whose function takes the parameter ``phases``, empty for all."""
    return click.option(
        "--phase",
        "phases",
        multiple=True,
        type=_Phase(phases, case_sensitive=False),
        help="Only objects in this phase (repeatable).",
    )


def show_list(connection: Connection, flags: ListFlags, view: Callable[[Cluster], View[T]]) -> None:
    """Prints the view, and with ``watch`` its changes until interrupted."""

    async def work(cluster: Cluster) -> None:
        if flags.watch:
            from scheduler.cli.watching import watch

            await watch(cluster, view(cluster), flags.output)
        else:
            await show_once(cluster, view(cluster), flags.output)

    connection.run(work)


async def show_once(cluster: Cluster, view: View[T], output: str) -> None:
    """Prints the view once. Raises CommandError."""
    raws, objects = await fetch_objects(cluster, view.sources)
    rows = view.rows(objects)
    if output in (TABLE, WIDE):
        print_rows(view, rows, output)
        return
    unwanted = {key_of(obj) for obj in objects[view.kind]} - {view.key(row) for row in rows}
    print_list([raw for raw in raws if key_in(raw) not in unwanted], output, view.kind)


async def fetch_objects(cluster: Cluster, sources: "Sequence[WatchSource]") -> tuple[list[Raw], ListedObjects]:
    """Fetches the objects of sources. Returns those of the first as they are, and all that can be read. Raises
    CommandError."""
    found = [await cluster.fetch(source) for source in sources]
    objects: dict[Kind, list[Any]] = {
        source.kind: read_objects(source.kind, raws) for source, raws in zip(sources, found, strict=True)
    }
    return found[0], objects
