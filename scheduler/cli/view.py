"""What a list or a table is about: which objects are fetched, which rows are made of them, and which cannot be read.

Whether the objects are fetched once (``listing``) or kept up to date by watches (``watching``) makes no difference
here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from scheduler.cli.connection import Raw
from scheduler.cli.failure import Failed
from scheduler.cli.output import TABLE, Column, Table, key_in, nothing_found
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


def print_rows(view: View[T], rows: Sequence[T], output: str = TABLE) -> None:
    """A table, or that there is nothing."""
    if not rows:
        nothing_found()
        return
    for line in Table(view.columns, output).lines(rows):
        echo(line)


def read_objects(kind: "Kind", raws: Sequence[Raw]) -> list[Any]:
    """The objects that can be read; a warning on stderr names each of the others."""
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
