"""Escapes untrusted text for terminals and documents.

Names are safe, but annotations, messages, conditions, logs and errors may contain any character: terminal escape
sequences, C1 controls, characters that change the direction of a line, invisible characters. These are shown as codes:
``\\x1b``, ``\\u202e``.
"""

import re
from typing import Final

_BLANKS: Final = frozenset("\t\n\v\f\r")
_INVISIBLE: Final = frozenset(
    chr(code)
    for first, last in (
        (0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x3164, 0x3164), (0xFE00, 0xFE0F),
        (0xFFA0, 0xFFA0), (0xE0100, 0xE01EF),
    )
    for code in range(first, last + 1)
)  # fmt: skip
"""Characters that Unicode counts among letters and marks, but that have no width."""
_USUAL: Final = bytes([ord("\t"), ord("\n"), *range(ord(" "), ord("~") + 1)])
_UNUSUAL: Final = re.compile(r"[^\t\n -~]+")


def printable(text: object) -> str:
    """Returns the text on one line, with codes in place of invisible and control characters."""
    shown = str(text)
    if shown.isprintable() and (shown.isascii() or _INVISIBLE.isdisjoint(shown)):
        return shown
    return "".join(c if _is_visible(c) else " " if c in _BLANKS else _code(c) for c in shown)


def printable_lines(text: str) -> str:
    """Returns the text with each line escaped by ``printable``."""
    return "\n".join(map(printable, text.split("\n")))


def is_printable(text: str) -> bool:
    """Whether ``printable`` leaves the text unchanged."""
    return text.isprintable() and _INVISIBLE.isdisjoint(text)


def escaped(document: str, *, json: bool) -> str:
    """Escapes such characters in a JSON document, or in a YAML document that has them only in double quotes."""
    if document.isascii() and not document.encode().translate(None, _USUAL):  # most are, and some are large
        return document
    code = _json_code if json else _code

    def replaced(run: re.Match[str]) -> str:
        return "".join(c if _is_visible(c) else code(c) for c in run[0])

    return _UNUSUAL.sub(replaced, document)


def _is_visible(character: str) -> bool:
    return character.isprintable() and character not in _INVISIBLE


def _code(character: str) -> str:
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _json_code(character: str) -> str:
    """The escapes of JSON, which have 16 bits each."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
