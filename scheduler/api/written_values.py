"""Values of YAML and JSON documents in messages, as their authors know them: not as Python shows them."""

from collections.abc import Collection, Mapping
from typing import Final

_MAX_LENGTH: Final = 64
_NOTHING: Final = "nothing"


def type_of(value: object) -> str:
    """The kind of the value."""
    match value:
        case None:
            return _NOTHING
        case bool():
            return "true or false"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case Mapping():
            return "a mapping"
        case Collection():
            return "a list"
        case _:
            return f"a {type(value).__name__}"  # YAML has dates and times


def value_of(value: object) -> str:
    """The value, a string in quotes; or what kind of value it is, if it has parts. "nothing" if it is missing or
    empty."""
    match value:
        case None | "":
            return _NOTHING
        case bool():
            return str(value).lower()
        case str():
            return repr(value[:_MAX_LENGTH])
        case float() if value.is_integer():
            return str(int(value))[:_MAX_LENGTH]
        case int() | float():
            return str(value)[:_MAX_LENGTH]
        case Collection() if not value:
            return _NOTHING
        case _:
            return type_of(value)
