"""The fields of manifests that no API server has seen: unknown ones, and quantities that cannot be parsed.

The fields of every kind come from ``known_fields.json``, which ``make crds`` makes (``controlplane/crds/fields.py``).
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.api.kinds import Kind
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.suggestions import did_you_mean
from scheduler.api.written_values import value_of

ANY: Final = 0
"""The type of fields whose values are not looked into."""
QUANTITY: Final = 1
EVERY_KEY: Final = "*"
"""The key of a type whose fields all have one type."""


class FieldProblem(NamedTuple):
    """A field that an API server would refuse or ignore."""

    field: str
    problem: str
    refused: bool
    """Whether every API server refuses it. An unknown field is only ignored, unless the client asks for more."""


class _KnownFields(msgspec.Struct, frozen=True):
    kinds: dict[str, int]
    types: list[dict[str, int]]


@cache
def _known_fields() -> _KnownFields:
    data = Path(__file__).with_suffix(".json").read_bytes()
    return msgspec.json.decode(data, type=_KnownFields)


def field_problems(kind: Kind, raw: dict[str, Any]) -> Iterator[FieldProblem]:
    """The problems of the fields of an object. Values of a wrong type are left to its decoder."""
    known = _known_fields()
    type_ = known.kinds.get(f"{kind.api_version} {kind.name}", ANY)
    if type_ != ANY:
        yield from _problems(raw, type_, "", known.types)


def _problems(value: object, type_: int, path: str, types: list[dict[str, int]]) -> Iterator[FieldProblem]:
    if type_ == QUANTITY:
        try:
            parse_quantity(value if isinstance(value, str | int | float) else value_of(value))
        except QuantityError as error:
            yield FieldProblem(path, str(error), True)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _problems(item, type_, f"{path}[{i}]", types)
    elif isinstance(value, dict):
        fields = types[type_]
        every = fields.get(EVERY_KEY)
        for name, part in value.items():
            inner = fields.get(name) if every is None else every
            if inner is None:
                hint = did_you_mean(name, fields)
                yield FieldProblem(_inner(path, name), f"unknown field is ignored{hint}", False)
            elif inner != ANY:
                at = _inner(path, name) if every is None else f"{path}[{name}]"
                yield from _problems(part, inner, at, types)


def _inner(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
