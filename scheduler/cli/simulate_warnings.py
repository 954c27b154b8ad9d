"""The section ``Warnings`` of ``simulate``: Events about fields that were set aside while it ran, such as those about
nodes that do not say which cards they have."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final, NamedTuple

from scheduler.api.names import EVENT_DEVICES_DISAGREE, EVENT_MALFORMED
from scheduler.cli.output import Column, RowTable
from scheduler.cli.text import styled

_SHOWN: Final = 20
_REASONS: Final = (EVENT_MALFORMED, EVENT_DEVICES_DISAGREE)
_TITLE: Final = re.compile(r"(?:^|: )([A-Za-z]+ \S+)(?=: )")
"""Kind and name of the object that a warning about a manifest is about."""
Raw = dict[str, Any]


class FieldWarning(NamedTuple):
    """A Warning about a field of an object."""

    about: str
    """``Kind name`` or ``Kind namespace/name``."""
    message: str


def field_warnings(events: Iterable[Raw]) -> Iterator[FieldWarning]:
    """The Warnings among the Events."""
    for event in events:
        if event["reason"] in _REASONS:
            about = event["involvedObject"]
            namespace = about.get("namespace")
            yield FieldWarning(
                f"{about['kind']} {f'{namespace}/' if namespace else ''}{about['name']}", event["message"]
            )


def warning_lines(warnings: Iterable[FieldWarning], printed: Iterable[str]) -> Iterator[str]:
    """The lines to print; no line without warnings. One row has all objects with the same warning.

    ``printed``: the warnings about manifests, which already name some of the mistakes.
    """
    known: dict[str, list[str]] = defaultdict(list)
    for text in printed:
        for title in _TITLE.findall(text):
            known[title].append(text)
    objects: dict[str, list[str]] = defaultdict(list)
    for warning in warnings:
        if not _names(known.get(warning.about, ()), warning.message):
            objects[warning.message].append(warning.about)
    if not objects:
        return
    rows = list(objects.items())
    yield styled(f"Warnings ({len(rows)})", bold=True)
    yield from RowTable(_COLUMNS).lines(rows[:_SHOWN])
    if len(rows) > _SHOWN:
        yield f"... and {len(rows) - _SHOWN} more"


def _names(printed: Collection[str], message: str) -> bool:
    """Whether one of the warnings about the same object has the problem of a message: what follows the field."""
    problem = message.partition(": ")[2].partition("; ")[0]
    return any(problem in text for text in printed)


_Row = tuple[str, list[str]]
_COLUMNS: tuple[Column[_Row], ...] = (
    Column("OBJECT", lambda row: row[1][0] + (f" and {len(row[1]) - 1} more" if len(row[1]) > 1 else "")),
    Column("WARNING", lambda row: row[0], elastic=True, colour=lambda _: "yellow"),
)
