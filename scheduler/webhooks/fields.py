"""Field errors in the format of Kubernetes, such as ``spec.containers[0].name: Required value``.

A path is the text that names the field.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

Problems = Iterator[str]

MAX_MESSAGE_LENGTH: Final = 65536
"""Characters of a refusal. Without a limit, one long invalid value quoted many times makes an answer of any size."""

_ESCAPES = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
_ESCAPES |= {'"': r"\"", "\\": r"\\"}


def quote(text: str) -> str:
    """Quotes a text as Go's ``strconv.Quote`` does."""
    return '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else _escape(ord(c))) for c in text) + '"'


def _escape(number: int) -> str:
    if number < 0x80:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _format_value(value: Any) -> str:
    return quote(value) if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def required(path: str, detail: str) -> str:
    return f"{path}: Required value: {detail}"


def invalid(path: str, value: Any, detail: str) -> str:
    return f"{path}: Invalid value: {_format_value(value)}: {detail}"


def join(problems: Iterable[str], end: str) -> str:
    """The problems, each followed by ``end``; stops at ``MAX_MESSAGE_LENGTH`` without computing the rest."""
    text = ""
    for problem in problems:
        text += f"{problem}{end}"
        if len(text) > MAX_MESSAGE_LENGTH:
            break
    return text


def truncated(text: str) -> str:
    """A refusal of at most ``MAX_MESSAGE_LENGTH`` characters."""
    return text if len(text) <= MAX_MESSAGE_LENGTH else f"{text[:MAX_MESSAGE_LENGTH]}... (and more)"


def aggregate(problems: Iterable[str]) -> str:
    """The distinct problems in the format of Kubernetes' ``errors.Aggregate``; "" if there are none."""
    distinct = list(dict.fromkeys(problems))
    return f"[{', '.join(distinct)}]" if len(distinct) > 1 else "".join(distinct)
