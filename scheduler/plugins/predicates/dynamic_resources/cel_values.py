"""Quantities and semantic versions in CEL expressions, and what an expression raises.

The CEL runtime lets functions pass on values of its own types only, so both travel as bytes: a word for what it is and
the value in one canonical form, which makes ``==`` right as well.
"""

import re
from functools import lru_cache
from typing import Any, Final

from scheduler.api.amount import parse_amount
from scheduler.api.objects import Quantity

_QUANTITY: Final = b"quantity "
_VERSION: Final = b"semver "
UNIT: Final = 10**9
"""Thousand-millionths."""
_LARGEST: Final = 2**63 - 1
_NUMBER: Final = "0|[1-9][0-9]*"
_SEMVER: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})"
    rf"(?:-((?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*))?"
    r"(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)

Domains = dict[str, dict[str, Any]]
"""Domain -> name -> value."""


class ExpressionError(ValueError):
    """An expression cannot be asked."""


# --- quantities ---
def quantity(text: Quantity) -> bytes:
    """A quantity as a CEL value. Raises QuantityError, a ValueError."""
    return of_nano(parse_amount(text).nano)


def of_nano(nano: int) -> bytes:
    """A quantity of so many thousand-millionths."""
    return _QUANTITY + str(nano).encode()


def nano_of(value: bytes) -> int:
    """A quantity in thousand-millionths. Raises ValueError where the value is none."""
    if not value.startswith(_QUANTITY):
        raise ValueError("not a quantity")
    return int(value[len(_QUANTITY) :])


def is_integer(value: bytes) -> bool:
    nano = nano_of(value)
    return nano % UNIT == 0 and -_LARGEST <= nano // UNIT <= _LARGEST


def as_integer(value: bytes) -> int:
    if not is_integer(value):
        raise ValueError("cannot convert value to integer")
    return nano_of(value) // UNIT


def sign(value: bytes) -> int:
    nano = nano_of(value)
    return (nano > 0) - (nano < 0)


# --- versions ---
def version(text: str, normal: bool = False) -> bytes:
    """A semantic version as a CEL value; build metadata does not count. ``normal``: a leading v, zeros in front and
    missing minor and patch numbers are made good. Raises ValueError."""
    if normal:
        text = _normal(text)
    _parts(text)
    return _VERSION + text.partition("+")[0].encode()


def _normal(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    parts = [re.sub(r"^0+(?=[0-9])", "", part) for part in parts]
    if len(parts) < 3 and re.search(r"[+-]", parts[-1]):
        raise ValueError(f"a short version has no pre-release or build: {text[:64]!r}")
    return ".".join([*parts, "0", "0"][: max(3, len(parts))])


@lru_cache(maxsize=4096)
def _parts(text: str) -> tuple[Any, ...]:
    """What versions are compared by. Raises ValueError."""
    match = _SEMVER.fullmatch(text)
    if match is None:
        raise ValueError(f"not a semantic version: {text[:64]!r}")
    major, minor, patch, before, _ = match.groups()
    # Numbers come before words, and a version comes after its pre-releases.
    rank = [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in before.split(".")] if before else []
    return int(major), int(minor), int(patch), not before, rank


def version_parts(value: bytes) -> tuple[Any, ...]:
    """Major, minor, patch, and what versions are compared by besides. Raises ValueError where the value is none."""
    if not value.startswith(_VERSION):
        raise ValueError("not a semantic version")
    return _parts(value[len(_VERSION) :].decode())


# --- both ---
def compare(left: bytes, right: bytes) -> int:
    """-1, 0 or 1. Raises ValueError where the values are not of one kind."""
    a: Any
    b: Any
    if left.startswith(_QUANTITY):
        a, b = nano_of(left), nano_of(right)
    else:
        a, b = version_parts(left), version_parts(right)
    return int(a > b) - int(a < b)
