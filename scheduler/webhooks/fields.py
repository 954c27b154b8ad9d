"""Field errors in the format of Kubernetes, such as ``spec.containers[0].name: Required value``, and the rules for
names and label keys, with the messages of Kubernetes' apimachinery.

A path is the text that names the field. ``dns_subdomain`` and ``qualified_name`` return the problems of a value; the
list is empty for a valid one.
"""

import json
import re
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


_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_KEY_LENGTH: Final = 63
_SUBDOMAIN_LENGTH: Final = 253


# --- names ------------------------------------------------------------------------------------------------------------
def _matches(pattern: str, value: str) -> bool:
    return re.fullmatch(pattern, value) is not None


def _regex_problem(text: str, pattern: str, *examples: str) -> str:
    listed = " or ".join(f"'{each}', " for each in examples)
    return f"{text} (e.g. {listed}regex used for validation is '{pattern}')"


def _length_problems(value: str, limit: int, unit: str) -> list[str]:
    length = len(value.encode("utf-8", "surrogatepass"))
    return [f"must be no more than {limit} {unit}"] if length > limit else []


def dns_subdomain(value: str, unit: str = "characters") -> list[str]:
    problems = _length_problems(value, _SUBDOMAIN_LENGTH, unit)
    if not _matches(_SUBDOMAIN, value):
        text = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character"
        )
        problems.append(_regex_problem(text, _SUBDOMAIN, "example.com"))
    return problems


def qualified_name(value: str) -> list[str]:
    """A label key: ``name`` or ``domain/name``."""
    pattern = _regex_problem(
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
        "character",
        _KEY,
        "MyName",
        "my.name",
        "123-abc",
    )
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        remedy = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {pattern} {remedy}"]
    problems: list[str] = []
    if slash:
        prefix_problems = dns_subdomain(prefix, "bytes") if prefix else ["must be non-empty"]
        problems += [f"prefix part {problem}" for problem in prefix_problems]
    name_problems = _length_problems(name, _KEY_LENGTH, "bytes") if name else ["must be non-empty"]
    if not _matches(_KEY, name):
        name_problems.append(pattern)
    return problems + [f"name part {problem}" for problem in name_problems]
