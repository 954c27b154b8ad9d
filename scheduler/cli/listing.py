"""The verb ``list``, for every kind of object: fetch, select, print.

A ``View`` says what is fetched and what a row is made of; whether the objects were fetched once or are kept up to date
by watches (see ``watching``) makes no difference to it.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click

from scheduler.cli.connection import Cluster, Connection, Raw, connected
from scheduler.cli.failure import Failed
from scheduler.cli.output import TABLE, WIDE, Column, Table, key_in, nothing_found, output_option, print_list
from scheduler.cli.text import echo

if TYPE_CHECKING:
    from scheduler.api.kinds import Kind
    from scheduler.api.objects import KubeObject
    from scheduler.cluster.kube.transport.sources import Source

T = TypeVar("T")
Objects = dict[str, "list[Any]"]
"""The objects that could be read, by the name of their kind."""
Key = tuple[str, str]


@dataclass(frozen=True)
class View(Generic[T]):
    """What a table is about."""

    sources: "tuple[Source, ...]"
    """Of the first one are the objects that are listed; the others are only looked into."""
    rows: Callable[[Objects], list[T]]
    """The rows that are wanted."""
    columns: Sequence[Column[T]]
    subject: "Callable[[T], KubeObject] | None" = None
    """The listed object that a row is about; None: the row is that object."""

    @property
    def kind(self) -> "Kind":
        return self.sources[0].kind

    def key(self, row: T) -> Key:
        return key_of(self.subject(row) if self.subject is not None else row)  # type: ignore[arg-type]


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
        def called(output: str, watch: bool, labels: str, **given: Any) -> None:
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
    objects = {source.kind.name: _read(source.kind, raws) for source, raws in zip(view.sources, found, strict=True)}
    rows = view.rows(objects)
    if output in (TABLE, WIDE):
        print_rows(view, rows, output)
        return
    unwanted = {key_of(obj) for obj in objects[view.kind.name]} - {view.key(row) for row in rows}
    print_list([raw for raw in found[0] if key_in(raw) not in unwanted], output, view.kind)


def print_rows(view: View[T], rows: Sequence[T], output: str = TABLE) -> None:
    """A table, or that there is nothing."""
    if not rows:
        nothing_found()
        return
    for line in Table(view.columns, output).lines(rows):
        echo(line)


def _read(kind: "Kind", raws: Sequence[Raw]) -> list[Any]:
    """Those that can be read; of the others, stderr tells."""
    return [obj for raw in raws if (obj := read_object(kind, raw)) is not None]


def read_object(kind: "Kind", raw: Raw) -> Any:
    """The typed object, or None, which stderr explains, if a field is malformed."""
    import msgspec

    from scheduler.cluster.faults import fault_of

    try:
        return msgspec.convert(raw, kind.struct)
    except msgspec.ValidationError as error:
        field, problem = fault_of(error)
        warn(kind.name, *key_in(raw), field or "object", problem)
        return None


def read_one(kind: "Kind", raw: Raw) -> Any:
    """The typed object. Raises Failed."""
    obj = read_object(kind, raw)
    if obj is None:
        raise Failed(f"{kind.name} {key_in(raw)[1]} cannot be shown; -o yaml shows it as it is")
    return obj


def warn(kind: str, namespace: str, name: str, field: str, problem: str) -> None:
    """On stderr, that an object is left out, and why."""
    where = f"{namespace}/{name}" if namespace else name
    echo(f"warning: {kind} {where} is not shown: {field}: {problem}", err=True)


def key_of(obj: "KubeObject") -> Key:
    """Namespace and name."""
    return obj.metadata.namespace, obj.metadata.name
