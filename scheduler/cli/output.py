"""The output of commands: tables for people, objects for programs.

A column is as wide as its longest cell, and at least as wide as in vcctl, for scripts that were written for vcctl. On a
terminal that is too narrow, gaps shrink first, then elastic columns wrap, then a row takes several lines. Nothing is
cut off.
"""

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import click

from scheduler.api.printable import is_printable, printable
from scheduler.cli.errors import CommandError
from scheduler.cli.layout import folded, width_of, wrapped
from scheduler.cli.text import colour_of, echo, echo_document, on_terminal, styled

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
_MIN_ELASTIC: Final = 40
"""The least width of a sentence in a column."""
_BESIDE: Final = 120
"""The smallest width of a terminal that shows sentences in columns."""
_NONE: Final = "<none>"
_CONTINUED: Final = 2
"""Blanks before the continuation lines of a row."""


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
    """Whether cells are sentences, which wrap on a terminal."""
    colour: Callable[[T], str | None] | None = None
    """Returns the colour of the cell, unless the column shows phases."""


def output_option(*formats: str, default: str = TABLE) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds ``-o`` to a command, whose function takes ``output``."""
    return click.option(
        "-o", "--output", type=click.Choice(formats or (TABLE, WIDE, JSON, YAML, NAME)), default=default,
        show_default=True, help="Output format."
    )  # fmt: skip


class RowTable(Generic[T]):
    """Formats rows. Rows that are formatted later, while watching, keep the widths of the first ones.

    On a terminal of less than 120 columns, or if less than 40 columns are left for them, the cells of elastic columns
    follow on lines of their own, after the title of the column. Other columns that do not fit continue on a second
    line, and so do their titles.
    """

    def __init__(self, columns: Sequence[Column[T]], output: str = TABLE, *, limit: int | None = None, indent: int = 0):
        """``limit``: the width to fit; None for the terminal's. Without a terminal a row is one line. ``indent``:
        blanks before each line."""
        self._columns = [column for column in columns if output == WIDE or not column.wide]
        self._limit = limit or terminal_width()
        self._indent = indent
        self._widths: list[int] = []
        self._folds: list[list[int]] = []
        self._below: list[int] = []
        """The columns whose cells have lines of their own."""

    def lines(self, rows: Sequence[T]) -> list[str]:
        """The rows as text; the first call begins with the titles."""
        return [line for block in self.blocks(rows) for line in block]

    def blocks(self, rows: Sequence[T]) -> list[list[str]]:
        """The lines of each row; the first call begins with those of the titles."""
        cells = [[_shown(column.cell(row)) for column in self._columns] for row in rows]
        blocks = []
        if not self._widths:
            self._measure(cells)
            blocks.append(list(self._beside([column.title for column in self._columns], None)))
        return blocks + [
            [*self._beside(texts, row), *self._beneath(texts, row)] for texts, row in zip(cells, rows, strict=True)
        ]

    def _measure(self, cells: list[list[str]]) -> None:
        longest = [
            max(width_of(text) for text in (column.title, *(row[i] for row in cells)))
            for i, column in enumerate(self._columns)
        ]
        self._widths = [max(c.width, length + c.gap) for c, length in zip(self._columns, longest, strict=True)]
        every = list(range(len(self._widths)))
        if self._limit is None:
            self._folds = [every]
            return
        limit = self._limit - self._indent
        elastic = [i for i in every if self._columns[i].elastic]
        rigid = [i for i in every if i not in elastic]
        if limit < _BESIDE or not self._shrink(longest, limit - self._reserved(longest, elastic)):
            self._below = elastic
            self._shrink(longest, limit)
            self._folds = [
                [rigid[i] for i in fold]
                for fold in folded([self._widths[i] for i in rigid], limit, gap=_GAP, indent=_CONTINUED)
            ]
            return
        self._folds = [every]
        left = limit + _GAP - sum(self._widths[i] for i in rigid)  # nothing follows the last column
        for number, i in enumerate(elastic):
            after = self._reserved(longest, elastic[number + 1 :])
            self._widths[i] = min(self._widths[i], left - after)
            left -= self._widths[i]

    @staticmethod
    def _reserved(longest: Sequence[int], elastic: Sequence[int]) -> int:
        """The least width of elastic columns."""
        return sum(min(longest[i], _MIN_ELASTIC) + _GAP for i in elastic)

    def _shrink(self, longest: Sequence[int], limit: int) -> bool:
        """Reduces the gaps of columns that are not elastic by the excess over the limit. Returns whether they fit."""
        rigid = [i for i, column in enumerate(self._columns) if not column.elastic]
        over = sum(self._widths[i] for i in rigid) - _GAP - limit
        for i in rigid:
            cut = max(0, min(over, self._widths[i] - longest[i] - _GAP))
            self._widths[i] -= cut
            over -= cut
        return over <= 0

    def _beside(self, texts: Sequence[str], row: T | None) -> Iterator[str]:
        """The lines of the cells in columns. ``row``: None for the titles."""
        for number, fold in enumerate(self._folds):
            start = " " * (self._indent + (_CONTINUED if number else 0))
            parts = [
                wrapped(texts[i], self._widths[i] - _GAP) if self._limit and self._columns[i].elastic else [texts[i]]
                for i in fold
            ]
            for each in zip_longest(*parts, fillvalue=""):
                cells = [self._coloured(i, text, texts[i], row) for i, text in zip(fold, each, strict=True)]
                line = (start + "".join(cells)).rstrip()
                if line or not number:
                    yield line

    def _coloured(self, i: int, text: str, whole: str, row: T | None) -> str:
        column = self._columns[i]
        padding = " " * max(1, self._widths[i] - width_of(text))
        if row is None or not text:
            return text + padding
        return styled(text, self._colour(column, whole, row)) + padding

    def _beneath(self, texts: Sequence[str], row: T) -> Iterator[str]:
        """The lines of cells that have lines of their own."""
        for i in self._below:
            if texts[i] in ("", _NONE):
                continue
            column = self._columns[i]
            title = f"{column.title}: " if column.title else ""
            start = " " * (self._indent + _CONTINUED)
            room = (self._limit or 0) - len(start)
            first, *others = wrapped(title + texts[i], max(room - _CONTINUED, 1), first=room)
            colour = self._colour(column, texts[i], row)
            yield (start + title + styled(first[len(title) :], colour)).rstrip()
            yield from (start + " " * _CONTINUED + styled(line, colour) for line in others)

    @staticmethod
    def _colour(column: Column[T], text: str, row: T) -> str | None:
        if column.phase:
            return colour_of(text)
        return column.colour(row) if column.colour is not None else None


def _shown(cell: object) -> str:
    return _NONE if cell is None else printable(cell)


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
    text_tag = "tag:yaml.org,2002:str"

    class Dumper(base):  # type: ignore[misc]
        """Writes strings that readers take for another type in double quotes, as kubectl does, also those that only
        readers other than PyYAML take for a number, such as the commit 12e4567; and strings with characters that have
        to be escaped."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def represent(dumper: Any, text: str) -> Any:
        plain = _is_plain(text) and dumper.resolve(yaml.ScalarNode, text, (True, False)) == text_tag
        return dumper.represent_scalar(text_tag, text, style=None if plain else '"')

    Dumper.add_representer(str, represent)
    Dumper.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
    )
    text: str = yaml.dump(item, Dumper=Dumper, sort_keys=False, allow_unicode=True)
    return text


def _is_plain(text: str) -> bool:
    return is_printable(text) or is_printable(text.replace("\n", "").replace("\t", ""))
