"""Validates objects against the resource definitions in `deploy/crds`, as far as an API server does without CEL."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import yaml

from controlplane.run import CRD_DIRECTORY
from scheduler.api.kinds import Kind

Schema = dict[str, Any]
_INT32 = range(-(2**31), 2**31)
_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)
}  # fmt: skip


@cache
def schema_of(kind: Kind) -> Schema:
    """The schema of a kind's objects."""
    file = CRD_DIRECTORY / f"{kind.group}_{kind.plural}.yaml"
    definition = yaml.load(file.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    (version,) = definition["spec"]["versions"]
    schema: Schema = version["schema"]["openAPIV3Schema"]
    return schema


def problems(kind: Kind, obj: Any) -> list[str]:
    """Returns the errors with which the API server would refuse an object."""
    return list(_problems(schema_of(kind), obj, kind.name))


def _problems(schema: Schema, value: Any, path: str) -> Iterator[str]:
    if value is None:  # the API server prunes what is null and not nullable
        return
    if schema.get("x-kubernetes-int-or-string"):
        if not isinstance(value, int | str):
            yield f"{path}: {value!r} is neither a number nor a text"
        elif isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
            yield f"{path}: {value!r} does not match"
        return
    expected = _TYPES.get(schema.get("type", ""))
    if expected is not None and (not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool)):
        yield f"{path}: {value!r} is no {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {schema['enum']}"
    match value:
        case bool():
            return
        case int() | float():
            if value < schema.get("minimum", value) or value > schema.get("maximum", value):
                yield f"{path}: {value} is out of bounds"
            if schema.get("format") == "int32" and value not in _INT32:
                yield f"{path}: {value} has more than 32 bits"
        case str():
            yield from _size_problems(schema, len(value), "Length", path)
            if not re.search(schema.get("pattern", ""), value):
                yield f"{path}: {value!r} does not match {schema['pattern']}"
        case list():
            yield from _size_problems(schema, len(value), "Items", path)
            for index, item in enumerate(value):
                yield from _problems(schema.get("items", {}), item, f"{path}[{index}]")
        case dict():
            yield from _size_problems(schema, len(value), "Properties", path)
            yield from (f"{path}.{name}: missing" for name in schema.get("required", ()) if name not in value)
            of_all = schema.get("additionalProperties") or {}
            for name, member in value.items():
                yield from _problems(schema.get("properties", {}).get(name, of_all), member, f"{path}.{name}")


def _size_problems(schema: Schema, size: int, of: str, path: str) -> Iterator[str]:
    if size < schema.get(f"min{of}", 0):
        yield f"{path}: {size} is less than min{of}"
    if size > schema.get(f"max{of}", size):
        yield f"{path}: {size} is more than max{of} ({schema[f'max{of}']})"
