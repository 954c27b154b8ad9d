"""Quantities and semantic versions in CEL expressions, and the error that expressions raise.

Functions of the CEL runtime can only return values of its own types. So quantities and versions are encoded as bytes: a
prefix for the type, and the value in a canonical form, so that ``==`` compares values.
"""

import re
from functools import lru_cache
from typing import Any, Final

from scheduler.api.objects import Quantity
from scheduler.api.quantity import parse_amount

_QUANTITY: Final = b"quantity "
_VERSION: Final = b"semver "
UNIT: Final = 10**9
"""Quantities are in billionths (nano)."""
_MAX_INTEGER: Final = 2**63 - 1
_NUMBER: Final = "0|[1-9][0-9]*"
_SEMVER: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})"
    rf"(?:-((?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*))?"
    r"(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)

Domains = dict[str, dict[str, Any]]
"""Domain -> name -> value."""


class ExpressionError(ValueError):
    """An expression does not compile or fails for a device; the message says why."""


# --- quantities ---
def quantity(text: Quantity) -> bytes:
    """Encodes a quantity. Raises QuantityError, a ValueError."""
    return of_nano(parse_amount(text).nano)


def of_nano(nano: int) -> bytes:
    """Encodes a quantity given in billionths."""
    return _QUANTITY + str(nano).encode()


def nano_of(value: bytes) -> int:
    """Decodes a quantity, in billionths. Raises ValueError for other values."""
    if not value.startswith(_QUANTITY):
        raise ValueError("not a quantity")
    return int(value[len(_QUANTITY) :])


def is_integer(value: bytes) -> bool:
    nano = nano_of(value)
    return nano % UNIT == 0 and -_MAX_INTEGER <= nano // UNIT <= _MAX_INTEGER


def as_integer(value: bytes) -> int:
    if not is_integer(value):
        raise ValueError("cannot convert value to integer")
    return nano_of(value) // UNIT


def sign(value: bytes) -> int:
    nano = nano_of(value)
    return (nano > 0) - (nano < 0)


# --- versions ---
def version(text: str, normal: bool = False) -> bytes:
    """Encodes a semantic version without its build metadata. ``normal``: normalizes the text first, that is, removes a
    leading ``v`` and leading zeros, and adds missing minor and patch numbers. Raises ValueError."""
    if normal:
        text = _normalized(text)
    _parts(text)
    return _VERSION + text.partition("+")[0].encode()


def _normalized(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    parts = [re.sub(r"^0+(?=[0-9])", "", part) for part in parts]
    if len(parts) < 3 and re.search(r"[+-]", parts[-1]):
        raise ValueError(f"a short version has no pre-release or build: {text[:64]!r}")
    return ".".join([*parts, "0", "0"][: max(3, len(parts))])


@lru_cache(maxsize=4096)
def _parts(text: str) -> tuple[Any, ...]:
    """The parts by which versions are compared. Raises ValueError."""
    match = _SEMVER.fullmatch(text)
    if match is None:
        raise ValueError(f"not a semantic version: {text[:64]!r}")
    major, minor, patch, pre_release, _ = match.groups()
    # Numeric identifiers precede alphanumeric ones, and pre-releases precede their version.
    rank = [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in pre_release.split(".")] if pre_release else []
    return int(major), int(minor), int(patch), not pre_release, rank


def version_parts(value: bytes) -> tuple[Any, ...]:
    """Decodes a version: major, minor, patch, and the order of the pre-release. Raises ValueError for other values."""
    if not value.startswith(_VERSION):
        raise ValueError("not a semantic version")
    return _parts(value[len(_VERSION) :].decode())


# --- comparison ---
def compare(left: bytes, right: bytes) -> int:
    """Returns -1, 0 or 1. Raises ValueError if the values have different types."""
    a: Any
    b: Any
    if left.startswith(_QUANTITY):
        a, b = nano_of(left), nano_of(right)
    else:
        a, b = version_parts(left), version_parts(right)
    return int(a > b) - int(a < b)
