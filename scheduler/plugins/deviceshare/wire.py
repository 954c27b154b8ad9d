"""Parses and formats the card lists in annotations of Pods.

A list has ``uuid,type,memory,cores:`` for each card of a container. Semicolons separate containers.
"""

from collections.abc import Sequence
from typing import Final

from scheduler.plugins.deviceshare.cards import CardUse

MAX_LENGTH: Final = 65536
"""Longest annotation that is parsed, in characters."""
_FIELDS: Final = 4


class WireError(ValueError):
    """The text is not a valid card list. The message gives the reason."""


def format_uses(uses: Sequence[CardUse], names: Sequence[str], kind: str) -> str:
    """Formats the cards of one container."""
    return "".join(f"{_name(use, names)},{kind},{use.reported_memory},{use.cores}:" for use in uses)


def _name(use: CardUse, names: Sequence[str]) -> str:
    name = names[use.card]
    return name if use.part is None else f"{name}[{use.part.name}-{use.part.position}]"


def parse_uses(text: str) -> list[list[tuple[str, int, int]]]:
    """Returns (name, memory, cores) for each card of each container. Raises WireError."""
    if len(text) > MAX_LENGTH:
        raise WireError(f"{len(text)} characters, at most {MAX_LENGTH} are looked at")
    return [[_use(entry) for entry in container.split(":") if entry] for container in text.split(";") if container]


def _use(entry: str) -> tuple[str, int, int]:
    fields = entry.split(",")
    if len(fields) < _FIELDS:
        raise WireError(f"{entry[:64]!r} is not name,type,memory,cores")
    return fields[0], number(fields[2]), number(fields[3])


def number(text: str) -> int:
    """Parses a non-negative integer that fits into 31 bits. Raises WireError."""
    if not (text.isascii() and text.isdecimal() and len(text) < 11 and int(text) < 2**31):
        raise WireError(f"{text[:64]!r} is not a whole number")
    return int(text)
