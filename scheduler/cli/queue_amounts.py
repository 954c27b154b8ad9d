"""The table of what queues have of each resource and card: for ``queue get``, and for answers of the scheduler."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from scheduler.cli.output import Column, RowTable

Amounts = Mapping[str, Any]
"""``resource``, and quantities in Kubernetes' notation: those of ``_AMOUNTS`` that are known. Perhaps ``queue``, and
``spec``: the deserved amount of the spec, if it is another."""
_AMOUNTS: Final = ("used", "counted", "deserved", "capability", "guarantee", "inqueue", "requested", "borrowed", "lent")
_ALWAYS: Final = ("used", "capability")
"""The amounts that have a column even if none of them is known."""


def amount_lines(rows: Sequence[Amounts]) -> Iterator[str]:
    """The lines of the table; for queues without resources, none."""
    if not rows:
        return
    columns: list[Column[Amounts]] = [Column("Resource", lambda row: row.get("resource"))]
    if any("queue" in row for row in rows):
        columns.insert(0, Column("Queue", lambda row: row.get("queue")))
    shown = (key for key in _AMOUNTS if key in _ALWAYS or any(key in row for row in rows))
    columns += [Column(key.capitalize(), partial(_readable, key)) for key in shown]
    yield from RowTable(columns).lines(rows)


def _readable(key: str, row: Amounts) -> str:
    from scheduler.api.written_amounts import readable_text  # it loads numpy

    def text(amount: object) -> str:
        return readable_text(str(row.get("resource")), amount)

    if key not in row:
        return ""
    return text(row[key]) + (f" (spec {text(row['spec'])})" if key == "deserved" and "spec" in row else "")
