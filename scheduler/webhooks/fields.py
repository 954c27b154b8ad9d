"""Problems of fields in the words of Kubernetes: ``spec.containers[0].name: Required value``.

A path is the text that names the field.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

Problems = Iterator[str]

LONGEST_ANSWER: Final = 65536
"""Characters: one wrong value can be quoted many times, and nobody reads more."""

_ESCAPES = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
_ESCAPES |= {'"': r"\"", "\\": r"\\"}


def quote(text: str) -> str:
    """A text in double quotes as Go writes it."""
    return '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else _code(ord(c))) for c in text) + '"'


def _code(number: int) -> str:
    if number < 0x80:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _show(value: Any) -> str:
    return quote(value) if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def required(path: str, detail: str) -> str:
    return f"{path}: Required value: {detail}"


def invalid(path: str, value: Any, detail: str) -> str:
    return f"{path}: Invalid value: {_show(value)}: {detail}"


def join(problems: Iterable[str], end: str) -> str:
    """The problems, each with an end, as far as an answer goes: the rest is not even looked for."""
    text = ""
    for problem in problems:
        text += f"{problem}{end}"
        if len(text) > LONGEST_ANSWER:
            break
    return text


def shortened(text: str) -> str:
    """A refusal as far as an answer goes."""
    return text if len(text) <= LONGEST_ANSWER else f"{text[:LONGEST_ANSWER]}... (and more)"


def aggregate(problems: Iterable[str]) -> str:
    """Several problems in one sentence, as Kubernetes' aggregates put them; "" for none."""
    distinct = list(dict.fromkeys(problems))
    return f"[{', '.join(distinct)}]" if len(distinct) > 1 else "".join(distinct)
