"""The output of commands: tables for people, objects for programs.

A column is as wide as its longest cell, and at least as wide as in vcctl, for scripts that were written for vcctl. On a
terminal that is too narrow, gaps shrink first, then the cells of elastic columns. Names are never cut off.
"""

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import click

from scheduler.api.printable import is_printable, printable
from scheduler.cli.errors import CommandError
from scheduler.cli.text import coloured_by_phase, echo, echo_document, on_terminal

if TYPE_CHECKING:
    from scheduler.api.kinds import Kind

T = TypeVar("T")
Raw = dict[str, Any]
TABLE: Final = "table"
WIDE: Final = "wide"
JSON: Final = "json"
YAML: Final = "yaml"
NAME: Final = "name"
_GAP: Final = 2
_MIN_ELASTIC: Final = 12


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column over rows of type T."""

    title: str
    cell: Callable[[T], object]
    """Returns what the row shows; None is shown as ``<none>``."""
    width: int = 0
    """Minimum width, including the gap to the next column."""
    gap: int = _GAP
    """Blanks after the longest cell."""
    wide: bool = False
    """Whether the column is shown only with ``-o wide``."""
    phase: bool = False
    """Whether cells name a phase and are shown in its colour."""
    elastic: bool = False
    """Whether cells may be cut off on a narrow terminal."""


def output_option(*formats: str, default: str = TABLE) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds ``-o`` to a command, whose function takes ``output``."""
    return click.option(
        "-o", "--output", type=click.Choice(formats or (TABLE, WIDE, JSON, YAML, NAME)), default=default,
        show_default=True, help="Output format."
    )  # fmt: skip


class Table(Generic[T]):
    """Formats rows. Rows that are formatted later, while watching, keep the widths of the first ones."""

    def __init__(self, columns: Sequence[Column[T]], output: str = TABLE, *, columns_of_terminal: int | None = None):
        """``columns_of_terminal``: the width to fit; None for the terminal's. Without a terminal nothing is cut off."""
        self._columns = [column for column in columns if output == WIDE or not column.wide]
        self._limit = columns_of_terminal or terminal_width()
        self._widths: list[int] = []

    def lines(self, rows: Sequence[T]) -> list[str]:
        """The rows as text; the first call begins with a line of titles."""
        cells = [[_shown(column.cell(row)) for column in self._columns] for row in rows]
        lines = []
        if not self._widths:
            self._widths = self._measure(cells)
            lines.append(self._line([column.title for column in self._columns], titles=True))
        return lines + [self._line(row) for row in cells]

    def _measure(self, cells: list[list[str]]) -> list[int]:
        longest = [
            max(len(text) for text in (column.title, *(row[i] for row in cells)))
            for i, column in enumerate(self._columns)
        ]
        widths = [max(c.width, length + c.gap) for c, length in zip(self._columns, longest, strict=True)]
        over = sum(widths) - _GAP - self._limit if self._limit else 0  # nothing follows the last column
        for spare in (
            [width - length - _GAP for width, length in zip(widths, longest, strict=True)],
            [length - _MIN_ELASTIC if c.elastic else 0 for c, length in zip(self._columns, longest, strict=True)],
        ):
            for i, amount in enumerate(spare):
                cut = max(0, min(over, amount))
                widths[i] -= cut
                over -= cut
        return widths

    def _line(self, cells: Sequence[str], *, titles: bool = False) -> str:
        shown = []
        for column, text, width in zip(self._columns, cells, self._widths, strict=True):
            room = width - _GAP
            cut = f"{text[: room - 1]}…" if column.elastic and self._limit and len(text) > room else text
            padding = " " * max(1, width - len(cut))
            shown.append((coloured_by_phase(text, cut) if column.phase and not titles else cut) + padding)
        return "".join(shown).rstrip()


def _shown(cell: object) -> str:
    return "<none>" if cell is None else printable(cell)


def terminal_width() -> int | None:
    """The width of the terminal; None if standard output is no terminal."""
    return shutil.get_terminal_size().columns if on_terminal() else None


def nothing_found() -> None:
    """Prints that there are no objects on stderr, as kubectl does, so that a pipe gets nothing."""
    echo("No resources found", err=True)


def print_list(items: Sequence[Raw], output: str, kind: "Kind") -> None:
    """Prints objects as one List, or their names."""
    if output == NAME:
        for item in items:
            echo(name_of(item, kind))
        if not items:
            nothing_found()
        return
    shown = [_without_managed_fields(item) for item in items]
    print_object({"apiVersion": "v1", "items": shown, "kind": "List", "metadata": {"resourceVersion": ""}}, output)


def print_object(item: Raw, output: str, kind: "Kind | None" = None) -> None:
    """Prints one object; ``kind`` is needed for the format ``name``."""
    if output == NAME and kind is not None:
        echo(name_of(item, kind))
        return
    item = _without_managed_fields(item)
    try:
        document = _json(item) if output == JSON else _yaml(item)
    except RecursionError:
        raise CommandError("an object is nested too deeply to be shown") from None
    echo_document(document, json=output == JSON)


def name_of(item: Raw, kind: "Kind") -> str:
    """The name of an object in kubectl's form, ``job.batch.volcano.sh/train``."""
    group = f".{kind.group}" if kind.group else ""
    return printable(f"{kind.name.lower()}{group}/{key_in(item)[1]}")


def key_in(item: Raw) -> tuple[str, str]:
    """Namespace and name of an object; "" for a missing one."""
    metadata = mapping_in(item, "metadata")
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))


def mapping_in(item: Raw, field: str) -> Raw:
    """The value of a field; an empty mapping if it is missing or no mapping."""
    value = item.get(field)
    return value if isinstance(value, dict) else {}


def _without_managed_fields(item: Raw) -> Raw:
    metadata = mapping_in(item, "metadata")
    if "managedFields" not in metadata:
        return item
    return item | {"metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def _json(item: Raw) -> str:
    import json

    return json.dumps(item, indent=4, ensure_ascii=False) + "\n"


def _yaml(item: Raw) -> str:
    import yaml

    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(base):  # type: ignore[misc]
        """Quotes strings that readers other than PyYAML take for a number, such as the commit 12e4567, and strings
        with characters that have to be escaped."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def represent(dumper: Any, text: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if _is_plain(text) else '"')

    Dumper.add_representer(str, represent)
    Dumper.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+"), list("-+0123456789")
    )
    text: str = yaml.dump(item, Dumper=Dumper, sort_keys=False, allow_unicode=True)
    return text


def _is_plain(text: str) -> bool:
    return is_printable(text) or is_printable(text.replace("\n", "").replace("\t", ""))
