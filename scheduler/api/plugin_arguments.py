"""The arguments of a job plugin, in the syntax of Go's flags, as a dataclass of options.

``-name=value``, ``--name=value`` and ``--name`` ``value`` as two items are the same. A switch is ``--name`` or
``--name=false``. Volcano logs what it cannot read and goes on with defaults; here that is a ArgumentError.
"""

import re
import reprlib
from collections.abc import Sequence
from dataclasses import Field, field, fields
from typing import Any, TypeVar

PORTS = range(1, 65536)
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_SWITCHES = dict.fromkeys(("1", "t", "T", "true", "True", "TRUE"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "False", "FALSE"), False
)
OptionsT = TypeVar("OptionsT")


class ArgumentError(ValueError):
    """The arguments of a plugin cannot be used; the message says which and why."""


def option(default: Any, *flags: str, among: range = PORTS) -> Any:
    """A field of options: its flags if they are not the field's name with dashes, and the numbers allowed."""
    return field(default=default, metadata={"flags": flags, "among": among})


def parse(options: type[OptionsT], arguments: Sequence[str]) -> OptionsT:
    """Parses the options; a field's default determines its type: text, number or switch. Raises ArgumentError."""
    known: dict[str, Field[Any]] = {}
    for each in fields(options):  # type: ignore[arg-type]  # a dataclass
        for flag in each.metadata.get("flags") or (each.name.replace("_", "-"),):
            known[flag] = each
    given: dict[str, Any] = {}
    words = iter(arguments)
    for word in words:
        if word == "--":
            break
        dashes = 2 if word.startswith("--") else 1 if word.startswith("-") else 0
        flag, equals, value = word[dashes:].partition("=")
        if not dashes or flag not in known:
            # Without its value, which may be a misnamed key.
            raise ArgumentError(f"argument {reprlib.repr(word.partition('=')[0])} is unknown; {_allowed(known)}")
        wanted = known[flag]
        if not equals:
            if isinstance(wanted.default, bool):
                value = "true"
            else:
                following = next(words, None)
                if following is None:
                    raise ArgumentError(f"argument --{flag} needs a value")
                value = following
        given[wanted.name] = _value(flag, wanted, value)
    return options(**given)


def _value(flag: str, wanted: "Field[Any]", text: str) -> str | int | bool:
    if isinstance(wanted.default, bool):
        if text not in _SWITCHES:
            raise ArgumentError(f"argument --{flag}={reprlib.repr(text)} must be true or false")
        return _SWITCHES[text]
    if isinstance(wanted.default, int):
        among: range = wanted.metadata.get("among", PORTS)
        if not _NUMBER.fullmatch(text) or int(text) not in among:
            raise ArgumentError(
                f"argument --{flag}={reprlib.repr(text)} must be a whole number from {among[0]} to {among[-1]}"
            )
        return int(text)
    return text


def _allowed(known: dict[str, "Field[Any]"]) -> str:
    if not known:
        return "it takes none"
    return "allowed are " + ", ".join(f"--{flag}" for flag in known)
