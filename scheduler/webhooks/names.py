"""What Kubernetes lets names and keys be: each function says what is wrong with a value, or nothing.

The sentences are apimachinery's; they are what people search for.
"""

import re
from typing import Final

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_KEY_LENGTH: Final = 63
_SUBDOMAIN_LENGTH: Final = 253

Wrong = list[str]


def _matches(pattern: str, value: str) -> bool:
    return re.fullmatch(pattern, value) is not None


def _pattern(text: str, pattern: str, *examples: str) -> str:
    listed = " or ".join(f"'{each}', " for each in examples)
    return f"{text} (e.g. {listed}regex used for validation is '{pattern}')"


def _too_long(value: str, limit: int, unit: str) -> Wrong:
    length = len(value.encode("utf-8", "surrogatepass"))
    return [f"must be no more than {limit} {unit}"] if length > limit else []


def dns_subdomain(value: str, unit: str = "characters") -> Wrong:
    wrong = _too_long(value, _SUBDOMAIN_LENGTH, unit)
    if not _matches(_SUBDOMAIN, value):
        text = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character"
        )
        wrong.append(_pattern(text, _SUBDOMAIN, "example.com"))
    return wrong


def qualified_name(value: str) -> Wrong:
    """A key of a label: ``name`` or ``domain/name``."""
    pattern = _pattern(
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
    wrong: Wrong = []
    if slash:
        faults = dns_subdomain(prefix, "bytes") if prefix else ["must be non-empty"]
        wrong += [f"prefix part {fault}" for fault in faults]
    faults = _too_long(name, _KEY_LENGTH, "bytes") if name else ["must be non-empty"]
    if not _matches(_KEY, name):
        faults.append(pattern)
    return wrong + [f"name part {fault}" for fault in faults]
