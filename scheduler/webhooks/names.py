"""What Kubernetes lets names, labels, keys and numbers be: each function says what is wrong with a value, or nothing.

The sentences are apimachinery's; they are what people search for.
"""

import re
from typing import Final

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_KEY})?"
_ENV: Final = "[-._a-zA-Z][-._a-zA-Z0-9]*"
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"
_HEADER: Final = "[-A-Za-z0-9]+"
_LABEL_LENGTH: Final = 63
_SUBDOMAIN_LENGTH: Final = 253
_PORT_NAME_LENGTH: Final = 15
LARGEST_PORT: Final = 65535
LARGEST_INT32: Final = 2**31 - 1

Wrong = list[str]


def _matches(pattern: str, value: str) -> bool:
    return re.fullmatch(pattern, value) is not None


def _length(value: str) -> int:
    return len(value.encode("utf-8", "surrogatepass"))


def _pattern(text: str, pattern: str, *examples: str) -> str:
    listed = " or ".join(f"'{each}', " for each in examples)
    return f"{text} (e.g. {listed}regex used for validation is '{pattern}')"


def _too_long(value: str, limit: int, unit: str = "characters") -> Wrong:
    return [f"must be no more than {limit} {unit}"] if _length(value) > limit else []


def between(value: int, low: int, high: int) -> Wrong:
    return [] if low <= value <= high else [f"must be between {low} and {high}, inclusive"]


def port_number(value: int) -> Wrong:
    return between(value, 1, LARGEST_PORT)


def dns_label(value: str) -> Wrong:
    wrong = _too_long(value, _LABEL_LENGTH)
    if not _matches(_LABEL, value):
        if _matches(_SUBDOMAIN, value):
            return [*wrong, "must not contain dots"]
        text = (
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
            "end with an alphanumeric character"
        )
        wrong.append(_pattern(text, _LABEL, "my-name", "123-abc"))
    return wrong


def dns_subdomain(value: str, unit: str = "characters") -> Wrong:
    wrong = _too_long(value, _SUBDOMAIN_LENGTH, unit)
    if not _matches(_SUBDOMAIN, value):
        text = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character"
        )
        wrong.append(_pattern(text, _SUBDOMAIN, "example.com"))
    return wrong


def name_prefix(value: str) -> Wrong:
    """A subdomain that something may be appended to: it may end in a dash."""
    return dns_subdomain(value[:-2] + "a" if len(value) > 1 and value.endswith("-") else value)


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
    faults = _too_long(name, _LABEL_LENGTH, "bytes") if name else ["must be non-empty"]
    if not _matches(_KEY, name):
        faults.append(pattern)
    return wrong + [f"name part {fault}" for fault in faults]


def label_value(value: str) -> Wrong:
    wrong = _too_long(value, _LABEL_LENGTH, "bytes")
    if not _matches(_VALUE, value):
        text = (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
            "start and end with an alphanumeric character"
        )
        wrong.append(_pattern(text, _VALUE, "MyValue", "my_value", "12345"))
    return wrong


def port_name(value: str) -> Wrong:
    wrong = _too_long(value, _PORT_NAME_LENGTH)
    if not _matches("[-a-z0-9]+", value):
        wrong.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        wrong.append("must contain at least one letter (a-z)")
    if "--" in value:
        wrong.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        wrong.append("must not begin or end with a hyphen")
    return wrong


def env_name(value: str) -> Wrong:
    wrong: Wrong = []
    if not _matches(_ENV, value):
        text = (
            "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and "
            "must not start with a digit"
        )
        wrong.append(_pattern(text, _ENV, "my.env-name", "MY_ENV.NAME", "MyEnvName1"))
    return wrong + _leads_up(value)


def config_key(value: str) -> Wrong:
    """A key of a ConfigMap or a Secret."""
    wrong = _too_long(value, _SUBDOMAIN_LENGTH)
    if not _matches(_CONFIG_KEY, value):
        text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        wrong.append(_pattern(text, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    return wrong + _leads_up(value)


def header_name(value: str) -> Wrong:
    if _matches(_HEADER, value):
        return []
    return [_pattern("a valid HTTP header must consist of alphanumeric characters or '-'", _HEADER, "X-Header-Name")]


def _leads_up(value: str) -> Wrong:
    if value in (".", ".."):
        return [f"must not be '{value}'"]
    return ["must not start with '..'"] if value.startswith("..") else []


# --- paths ---
def no_backsteps(value: str) -> Wrong:
    return ["must not contain '..'"] if ".." in value.split("/") else []


def descending_path(value: str) -> Wrong:
    """A path that stays below where it starts."""
    return ["must be a relative path"] * value.startswith("/") + no_backsteps(value)


def plain_path(value: str) -> Wrong:
    """A descending path of a file that does not collide with what the kubelet keeps beside it."""
    wrong = descending_path(value)
    if value.startswith("..") and not value.startswith("../"):
        wrong.append("must not start with '..'")
    return wrong
