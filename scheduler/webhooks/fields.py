"""Problems of fields in the words of Kubernetes: ``spec.containers[0].name: Required value``.

A path is the text that names the field. Every check of a Pod template yields problems made here, in the order in which
the API server would list them.
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


def _problem(path: str, kind: str, detail: str) -> str:
    return f"{path}: {kind}: {detail}" if detail else f"{path}: {kind}"


def required(path: str, detail: str = "") -> str:
    return _problem(path, "Required value", detail)


def forbidden(path: str, detail: str) -> str:
    return _problem(path, "Forbidden", detail)


def invalid(path: str, value: Any, detail: str) -> str:
    return _problem(path, f"Invalid value: {_show(value)}", detail)


def duplicate(path: str, value: Any) -> str:
    return f"{path}: Duplicate value: {_show(value)}"


def not_found(path: str, value: str, detail: str = "") -> str:
    return _problem(path, f"Not found: {_show(value)}", detail)


def too_long(path: str, limit: int) -> str:
    return f"{path}: Too long: may not be more than {limit} bytes"


def unsupported(path: str, value: Any, supported: Iterable[str]) -> str:
    listed = ", ".join(quote(each) for each in supported)
    return f"{path}: Unsupported value: {_show(value)}: supported values: {listed}"


def invalid_each(path: str, value: str, details: Iterable[str]) -> Problems:
    """One problem of the same value for every detail."""
    for detail in details:
        yield invalid(path, value, detail)


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


def one_of(path: str, value: str, supported: Iterable[str]) -> Problems:
    """A value that must be given, and must be one of a few."""
    if not value:
        yield required(path)
    else:
        yield from among(path, value, supported)


def among(path: str, value: str | None, supported: Iterable[str]) -> Problems:
    """A value that, when it is given, must be one of a few."""
    if value is not None and value not in supported:
        yield unsupported(path, value, supported)
