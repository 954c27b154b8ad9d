"""Quantities and semantic versions in CEL expressions: Kubernetes' functions on them.

The CEL runtime lets functions pass on values of its own types only, so both travel as bytes: a word for what it is and
the value in one canonical form, which makes ``==`` right as well.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from cel_expr_python import cel

from scheduler.api.amount import parse_amount
from scheduler.api.objects import Quantity
from scheduler.api.quantity import QuantityError

_QUANTITY: Final = b"quantity "
_VERSION: Final = b"semver "
_UNIT: Final = 10**9
_LARGEST: Final = 2**63 - 1
_NUMBER: Final = "0|[1-9][0-9]*"
_SEMVER: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})"
    rf"(?:-((?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*))?"
    r"(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)


# --- quantities ---
def quantity(text: Quantity) -> bytes:
    """A quantity as a CEL value. Raises QuantityError."""
    return _of_nano(parse_amount(text).nano)


def _of_nano(nano: int) -> bytes:
    return _QUANTITY + str(nano).encode()


def _nano(value: bytes) -> int:
    """Thousand-millionths. Raises ValueError where the value is no quantity."""
    if not value.startswith(_QUANTITY):
        raise ValueError("not a quantity")
    return int(value[len(_QUANTITY) :])


def _is_quantity(text: str) -> bool:
    try:
        parse_amount(text)
    except QuantityError:
        return False
    return True


def _is_integer(value: bytes) -> bool:
    nano = _nano(value)
    return nano % _UNIT == 0 and -_LARGEST <= nano // _UNIT <= _LARGEST


def _as_integer(value: bytes) -> int:
    if not _is_integer(value):
        raise ValueError("cannot convert value to integer")
    return _nano(value) // _UNIT


def _sign(value: bytes) -> int:
    nano = _nano(value)
    return (nano > 0) - (nano < 0)


# --- versions ---
def version(text: str) -> bytes:
    """A semantic version as a CEL value; build metadata does not count. Raises ValueError."""
    _parts(text)
    return _VERSION + text.partition("+")[0].encode()


def _normal_version(text: str) -> bytes:
    """As ``version`` after removing a leading v and zeros in front, and adding a minor and a patch number."""
    parts = text.removeprefix("v").split(".", 2)
    parts = [re.sub(r"^0+(?=[0-9])", "", part) for part in parts]
    if len(parts) < 3 and re.search(r"[+-]", parts[-1]):
        raise ValueError(f"a short version has no pre-release or build: {text[:64]!r}")
    return version(".".join([*parts, "0", "0"][: max(3, len(parts))]))


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


def _version_parts(value: bytes) -> tuple[Any, ...]:
    if not value.startswith(_VERSION):
        raise ValueError("not a semantic version")
    return _parts(value[len(_VERSION) :].decode())


def _is_version(text: str, normal: bool = False) -> bool:
    try:
        (_normal_version if normal else version)(text)
    except ValueError:
        return False
    return True


# --- both ---
def _compare(left: bytes, right: bytes) -> int:
    a: Any
    b: Any
    if left.startswith(_QUANTITY):
        a, b = _nano(left), _nano(right)
    else:
        a, b = _version_parts(left), _version_parts(right)
    return int(a > b) - int(a < b)


# --- sets ---
def _contains(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return all(any(_same(item, other) for other in left) for item in right)


def _intersects(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return any(_same(item, other) for item in left for other in right)


def _same(left: Any, right: Any) -> bool:
    """CEL's equality: of numbers whatever their type, else of values of one type."""
    left, right = _plain(left), _plain(right)
    return bool(left == right and isinstance(left, bool) == isinstance(right, bool))


def _plain(item: Any) -> Any:
    return item.plain_value() if isinstance(item, cel.Value) else item


# --- declarations ---
def functions() -> list[cel.FunctionDecl]:
    """The functions that Kubernetes adds to CEL for quantities, versions and sets."""
    of, text, integer, real, truth = cel.Type.BYTES, cel.Type.STRING, cel.Type.INT, cel.Type.DOUBLE, cel.Type.BOOL
    several = cel.Type.List(cel.Type.DYN)
    return [
        _function("quantity", (of, [text], quantity)),
        _function("isQuantity", (truth, [text], _is_quantity)),
        _function("sign", (integer, [of], _sign)),
        _member("isInteger", (truth, [of], _is_integer)),
        _member("asInteger", (integer, [of], _as_integer)),
        _member("asApproximateFloat", (real, [of], lambda value: _nano(value) / _UNIT)),
        _member(
            "add",
            (of, [of, of], lambda a, b: _of_nano(_nano(a) + _nano(b))),
            (of, [of, integer], lambda a, b: _of_nano(_nano(a) + b * _UNIT)),
        ),
        _member(
            "sub",
            (of, [of, of], lambda a, b: _of_nano(_nano(a) - _nano(b))),
            (of, [of, integer], lambda a, b: _of_nano(_nano(a) - b * _UNIT)),
        ),
        _function("semver", (of, [text], version), (of, [text, truth], _semver)),
        _function("isSemver", (truth, [text], _is_version), (truth, [text, truth], _is_version)),
        _member("major", (integer, [of], lambda value: _version_parts(value)[0])),
        _member("minor", (integer, [of], lambda value: _version_parts(value)[1])),
        _member("patch", (integer, [of], lambda value: _version_parts(value)[2])),
        _member("compareTo", (integer, [of, of], _compare)),
        _member("isLessThan", (truth, [of, of], lambda a, b: _compare(a, b) < 0)),
        _member("isGreaterThan", (truth, [of, of], lambda a, b: _compare(a, b) > 0)),
        _function("sets.contains", (truth, [several, several], _contains)),
        _function("sets.intersects", (truth, [several, several], _intersects)),
        _function("sets.equivalent", (truth, [several, several], lambda a, b: _contains(a, b) and _contains(b, a))),
    ]


def _semver(text: str, normal: bool) -> bytes:
    return _normal_version(text) if normal else version(text)


_Overload = tuple[cel.Type, list[cel.Type], Callable[..., Any]]
"""What it returns, what it takes, what it does."""


def _function(name: str, *overloads: _Overload, member: bool = False) -> cel.FunctionDecl:
    return cel.FunctionDecl(
        name,
        [
            cel.Overload(f"{name}_{i}", return_type=returns, parameters=takes, is_member=member, impl=does)
            for i, (returns, takes, does) in enumerate(overloads)
        ],
    )


def _member(name: str, *overloads: _Overload) -> cel.FunctionDecl:
    return _function(name, *overloads, member=True)
