"""Tables in the format of ``vcctl``: every cell is padded to the width of its column, also the last one."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from scheduler.api.printable import printable
from scheduler.cli.connection import Cluster
from scheduler.cli.layout import padded, width_of
from scheduler.cli.listing import fetch_objects
from scheduler.cli.output import Column
from scheduler.cli.text import echo
from scheduler.cli.view import View

T = TypeVar("T")


async def print_view(cluster: Cluster, view: View[T], *, title_gap: int | None = None) -> None:
    """Fetches and prints a view, or that there are no objects. Raises CommandError."""
    _, objects = await fetch_objects(cluster, view.sources)
    rows = view.rows(objects)
    if not rows:
        echo("No resources found")
        return
    for line in table_lines(view.columns, rows, title_gap=title_gap):
        echo(line)


def table_lines(columns: Sequence[Column[T]], rows: Sequence[T], *, title_gap: int | None = None) -> Iterator[str]:
    """The lines of a table, the titles first.

    A column has its fixed width, else the width of its longest text and the gap of the column. The gap after a title is
    ``title_gap``, if it is given. A text that is longer than a fixed width is followed by one blank.
    """
    shown = [column for column in columns if not column.wide]
    cells = [[_text(column.cell(row)) for column in shown] for row in rows]
    widths = [
        column.width
        or max(
            width_of(column.title) + (column.gap if title_gap is None else title_gap),
            *(width_of(texts[i]) + column.gap for texts in cells),
        )
        for i, column in enumerate(shown)
    ]
    for texts in ([column.title for column in shown], *cells):
        *before, last = zip(texts, widths, strict=True)
        yield "".join(padded(text, max(width, width_of(text) + 1)) for text, width in before) + padded(*last)


def _text(cell: object) -> str:
    return "" if cell is None else printable(cell)
