"""A view: the objects that a table needs, its rows and columns; and warnings about objects that cannot be read.

The objects of a view are fetched once (``listing``) or kept up to date by watches (``watching``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from scheduler.cli.connection import Raw
from scheduler.cli.errors import CommandError
from scheduler.cli.output import TABLE, Column, RowTable, key_in, nothing_found
from scheduler.cli.text import echo

if TYPE_CHECKING:
    from scheduler.api.kinds import Kind
    from scheduler.api.objects import KubeObject
    from scheduler.cluster.kube.transport.sources import WatchSource

T = TypeVar("T")
Obj = TypeVar("Obj", bound="KubeObject")
Key = tuple[str, str]


class ListedObjects(Protocol):
    """Kind -> the objects of it that could be read."""

    def __getitem__(self, kind: "Kind[Obj]", /) -> "list[Obj]": ...


@dataclass(frozen=True)
class View(Generic[T]):
    """A table over objects of the cluster."""

    sources: "tuple[WatchSource, ...]"
    """The first source has the listed objects; rows use those of the others."""
    rows: Callable[[ListedObjects], list[T]]
    """Returns the rows to show."""
    columns: Sequence[Column[T]]
    subject: "Callable[[T], KubeObject] | None" = None
    """Returns the listed object of a row; None: the row is the object."""

    @property
    def kind(self) -> "Kind":
        return self.sources[0].kind

    def key(self, row: T) -> Key:
        return key_of(self.subject(row) if self.subject is not None else row)  # type: ignore[arg-type]


def print_rows(view: View[T], rows: Sequence[T], output: str = TABLE) -> None:
    """Prints a table, or that no resources were found."""
    if not rows:
        nothing_found()
        return
    for line in RowTable(view.columns, output).lines(rows):
        echo(line)


def read_objects(kind: "Kind[Obj]", raws: Sequence[Raw]) -> "list[Obj]":
    """Returns the objects that can be read, and prints a warning on stderr for each of the others."""
    return [obj for raw in raws if (obj := read_object(kind, raw)) is not None]


def read_object(kind: "Kind[Obj]", raw: Raw) -> "Obj | None":
    """Returns the typed object; if a field is malformed, prints a warning on stderr and returns None."""
    import msgspec

    try:
        obj: Obj = msgspec.convert(raw, kind.struct)
    except msgspec.ValidationError as error:
        from scheduler.api.reasons import field_and_problem  # it loads numpy

        field, problem = field_and_problem(error)
        warn(kind.name, *key_in(raw), field or "object", problem)
        return None
    return obj


def read_one(kind: "Kind[Obj]", raw: Raw) -> "Obj":
    """Returns the typed object. Raises CommandError."""
    obj = read_object(kind, raw)
    if obj is None:
        raise CommandError(f"{kind.name} {key_in(raw)[1]} cannot be shown; -o yaml shows it as it is")
    return obj


def warn(kind: str, namespace: str, name: str, field: str, problem: str) -> None:
    """Prints a warning on stderr: an object is not shown, and why."""
    where = f"{namespace}/{name}" if namespace else name
    echo(f"warning: {kind} {where} is not shown: {field}: {problem}", err=True)


def key_of(obj: "KubeObject") -> Key:
    """Namespace and name."""
    return obj.metadata.namespace, obj.metadata.name
