"""Warnings about what commands read: mistakes in manifests and configurations, printed on standard error, and fields
that were set aside while a cluster ran in memory, in the section ``Warnings`` of tables. Documents have both."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final, NamedTuple

from scheduler.api.names import EVENT_DEVICES_DISAGREE, EVENT_MALFORMED
from scheduler.cli.output import Column, RowTable
from scheduler.cli.text import echo, styled

_SHOWN: Final = 20
_REASONS: Final = (EVENT_MALFORMED, EVENT_DEVICES_DISAGREE)
_TITLE: Final = re.compile(r"(?:^|: )([A-Za-z]+ \S+)(?=: )")
"""Kind and name of the object that a warning about a manifest is about."""
Raw = dict[str, Any]


class FieldWarning(NamedTuple):
    """A Warning about a field of an object."""

    kind: str
    key: str
    """``name`` or ``namespace/name`` of the object."""
    message: str
    reason: str = EVENT_MALFORMED

    @property
    def about(self) -> str:
        return f"{self.kind} {self.key}"


class WarningLog:
    """Prints warnings on standard error, and keeps them for the document of a command."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def warn(self, text: str) -> None:
        """Prints a warning."""
        echo(f"warning: {text}", err=True)
        self.texts.append(text)

    def unnamed(self, warnings: Iterable[FieldWarning]) -> dict[str, list[str]]:
        """The objects of each message, without those that a printed warning about the object names already."""
        known: dict[str, list[str]] = defaultdict(list)
        for text in self.texts:
            for title in _TITLE.findall(text):
                known[title].append(text)
        objects: dict[str, list[str]] = defaultdict(list)
        for warning in warnings:
            if not _names(known.get(warning.about, ()), warning.message):
                objects[warning.message].append(warning.about)
        return objects

    def document(self, warnings: Iterable[FieldWarning]) -> Raw:
        """The field ``warnings`` of a document: what was printed, and the other warnings; {} if there are none."""
        texts = [*self.texts, *(f"{_shortened(about)}: {message}" for message, about in self.unnamed(warnings).items())]
        return {"warnings": texts} if texts else {}


def field_warnings(events: Iterable[Raw], reasons: Collection[str] = ()) -> Iterator[FieldWarning]:
    """The Warnings among the Events. ``reasons``: further reasons of Events to include."""
    for event in events:
        if event["reason"] in _REASONS or event["reason"] in reasons:
            about = event["involvedObject"]
            namespace = about.get("namespace")
            key = f"{namespace}/{about['name']}" if namespace else about["name"]
            yield FieldWarning(about["kind"], key, event["message"], event["reason"])


def warning_lines(objects: dict[str, list[str]]) -> Iterator[str]:
    """The lines to print; no line without warnings. One row has all objects with the same warning."""
    if not objects:
        return
    rows = list(objects.items())
    yield styled(f"Warnings ({len(rows)})", bold=True)
    yield from RowTable(_COLUMNS).lines(rows[:_SHOWN])
    if len(rows) > _SHOWN:
        yield f"... and {len(rows) - _SHOWN} more"


def print_section(objects: dict[str, list[str]]) -> None:
    """Prints the section ``Warnings`` after other output, if there are any."""
    for line in ("", *warning_lines(objects)) if objects else ():
        echo(line)


def _names(printed: Collection[str], message: str) -> bool:
    """Whether one of the warnings about the same object has the problem of a message: what follows the field."""
    problem = message.partition(": ")[2].partition("; ")[0]
    return any(problem in text for text in printed)


def _shortened(objects: list[str]) -> str:
    return objects[0] + (f" and {len(objects) - 1} more" if len(objects) > 1 else "")


_Row = tuple[str, list[str]]
_COLUMNS: tuple[Column[_Row], ...] = (
    Column("OBJECT", lambda row: _shortened(row[1])),
    Column("WARNING", lambda row: row[0], elastic=True, colour=lambda _: "yellow"),
)
