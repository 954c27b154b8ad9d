"""The layout of text on a terminal: the width of characters, sentences wrapped to lines, columns folded into lines."""

import unicodedata
from collections.abc import Sequence
from typing import Final

_TWO_CELLS: Final = frozenset("WF")


def width_of(text: str) -> int:
    """The columns that the text takes on a terminal: East Asian characters take two, combining characters none."""
    if text.isascii():
        return len(text)
    return sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in _TWO_CELLS else 1


def padded(text: str, width: int) -> str:
    """The text with blanks up to a width."""
    return text + " " * (width - width_of(text))


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most ``width`` columns, broken between words; a longer word is broken where the line ends."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if width_of(joined) <= width:
            lines[-1] = joined
            continue
        *full, last = _pieces(word, width)
        lines += [*full, last]
    return [line for line in lines if line] or [""]


def hanging(text: str, limit: int | None, *, indent: int) -> list[str]:
    """Lines of a sentence; ``limit``: their width, None for one line; ``indent``: blanks before all but the first."""
    if limit is None or width_of(text) <= limit:
        return [text]
    blanks = " " * (len(text) - len(text.lstrip(" ")))
    first, *others = wrapped(text.lstrip(" "), max(limit - max(indent, len(blanks)), 1))
    return [blanks + first, *(" " * indent + line for line in others)]


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
