"""The layout of text on a terminal: width of characters, sentences wrapped to lines, columns folded to lines, bars."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

_TWO_COLUMNS: Final = frozenset("WF")
_AFTER_COMMA: Final = re.compile("(?<=,)")
_CELLS: Final = 10
"""The length of a bar."""


def width_of(text: str) -> int:
    """The columns that the text takes on a terminal: East Asian characters take two, combining characters none."""
    if text.isascii():
        return len(text)
    return sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in _TWO_COLUMNS else 1


def padded(text: str, width: int) -> str:
    """The text with blanks up to a width."""
    return text + " " * (width - width_of(text))


def wrapped(text: str, width: int, *, first: int = 0) -> list[str]:
    """Lines of at most ``width`` columns, broken between words, in words of more than half a line also after commas,
    and in still longer ones where the line ends. ``first``: the width of the first line, if it may be longer."""
    lines = [""]
    for word in text.split(" "):
        blank = " " if lines[-1] else ""
        for part in [word] if width_of(word) <= width // 2 else _AFTER_COMMA.split(word):
            joined = lines[-1] + blank + part
            blank = ""
            if width_of(joined) <= (max(first, width) if len(lines) == 1 else width):
                lines[-1] = joined
            else:
                lines += _pieces(part, width)
    return [line for line in lines if line] or [""]


def hanging(text: str, limit: int | None, *, indent: int) -> list[str]:
    """Lines of a sentence; ``limit``: their width, None for one line; ``indent``: blanks before all but the first."""
    if limit is None or width_of(text) <= limit:
        return [text]
    blanks = len(text) - len(text.lstrip(" "))
    first, *others = wrapped(text.lstrip(" "), max(limit - indent, 1), first=limit - blanks)
    return [" " * blanks + first, *(" " * indent + line for line in others)]


def _pieces(word: str, width: int) -> list[str]:
    """A word in pieces of at most ``width`` columns, but of one character at least."""
    pieces, taken = [""], 0
    for character in word:
        each = _width(character)
        if taken + each > width and pieces[-1]:
            pieces.append("")
            taken = 0
        pieces[-1] += character
        taken += each
    return pieces


def folded(widths: Sequence[int], limit: int, *, gap: int, indent: int) -> list[list[int]]:
    """The numbers of the columns on each line of a row that is at most ``limit`` wide.

    ``widths``: of columns, with the ``gap`` to the next one; ``indent``: blanks before every line but the first. A
    column that is wider than the limit has a line of its own.
    """
    lines: list[list[int]] = [[]]
    taken = 0
    for number, width in enumerate(widths):
        if lines[-1] and taken + width - gap > limit:
            lines.append([])
            taken = indent
        lines[-1].append(number)
        taken += width
    return lines


def bar(reached: int, wanted: int, total: int, cells: int = _CELLS) -> str:
    """A bar: full cells for the part of the total that is reached; a mark at the part that is wanted, unless it is
    reached or is the total."""
    total = max(total, 1)
    full = min(cells, reached * cells // total)
    mark = min(cells, -(-wanted * cells // total))
    drawn = "█" * full + "░" * (cells - full)
    return drawn if not full < mark < cells else f"{drawn[: mark - 1]}▏{drawn[mark:]}"
