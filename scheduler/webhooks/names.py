"""Validation of names and label keys with the rules and messages of Kubernetes' apimachinery.

Each function returns the problems of a value; the list is empty for a valid one.
"""

import re
from typing import Final

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_KEY_LENGTH: Final = 63
_SUBDOMAIN_LENGTH: Final = 253


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
