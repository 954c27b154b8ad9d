"""Plugin and action arguments from the configuration file, with Volcano's types.

A value of a wrong type or out of bounds is no error: it is reported and the default is used (Volcano's
framework/arguments.go, and its plugins for negative numbers).
"""

import re
from collections.abc import Iterator, Mapping
from math import inf
from typing import Any, Final, TypeVar

from scheduler.api.messages import value_of
from scheduler.api.times import DurationError, format_duration, parse_duration

T = TypeVar("T")
N = TypeVar("N", int, float)
MAX_INTEGER = 2**63 - 1
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?", re.ASCII)


class Arguments(Mapping[str, Any]):
    """The ``arguments`` of one plugin, with typed readers. ``problems`` collects invalid arguments."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values = dict(values or {})
        self._prefix = ""
        self._asked: set[str] = set()
        self._listed = False
        self._nested: list[Arguments] = []
        self.problems: list[str] = []

    def __getitem__(self, key: str) -> Any:
        self._asked.add(key)
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        self._listed = True
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def may_be_read(self, key: str) -> bool:
        """Returns whether an argument would be read if it were given: it was asked for, or all names were listed."""
        return self._listed or key in self._asked

    @property
    def unknown(self) -> list[str]:
        """The names of the arguments that were not read."""
        mine = [f"{self._prefix}{key}" for key in self._values if key not in self._asked]
        return mine + [key for nested in self._nested for key in nested.unknown]

    @property
    def known(self) -> list[str]:
        """The names of arguments that were asked for, whether they were given or not."""
        mine = [f"{self._prefix}{key}" for key in sorted(self._asked)]
        return mine + [key for nested in self._nested for key in nested.known]

    def integer(self, key: str, default: int, *, least: float = -inf, most: float = inf) -> int:
        """``least``, ``most``: the bounds. Raises TypeError if the default is not an integer."""
        _check_default(key, default, int)
        value = self.get(key)
        if value is None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_INTEGER:
            return self._within(key, value, default, least, most)
        return self._wrong(key, value, f"an integer{_if_quoted(value)}", default)

    def number(self, key: str, default: float, *, least: float = -inf, most: float = inf) -> float:
        """``least``, ``most``: the bounds. Raises TypeError if the default is not a number."""
        _check_default(key, default, (int, float))
        value = self.get(key)
        if value is None:
            return default
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_INTEGER:
            return self._within(key, float(value), default, least, most)
        return self._wrong(key, value, f"a number{_if_quoted(value)}", default)

    def duration(self, key: str, default: float) -> float:
        """Returns seconds. The value is a Go duration (``1h30m``)."""
        value = self.get(key)
        if value is None:
            return default
        try:
            return parse_duration(value if isinstance(value, str) else "")
        except DurationError:
            self._wrong(key, value, "a duration", format_duration(default))
            return default

    def boolean(self, key: str, default: bool) -> bool:
        value = self.get(key)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in ("true", "t", "1", "false", "f", "0"):
            return value.lower() in ("true", "t", "1")
        return self._wrong(key, value, "true or false", default)

    def text(self, key: str, default: str) -> str:
        value = self.get(key)
        if value is None:
            return default
        if isinstance(value, str):
            return value
        return self._wrong(key, value, "a string", default)

    def names(self, key: str) -> list[str]:
        """Returns the names in a string ``a, b``."""
        return [name.strip() for name in self.text(key, "").split(",") if name.strip()]

    def nested(self, key: str) -> "Arguments":
        """Returns a mapping as Arguments of its own; empty if it is missing."""
        value = self.get(key)
        if value is not None and not isinstance(value, Mapping):
            value = self._wrong(key, value, "a mapping", {})
        result = Arguments({str(name): entry for name, entry in (value or {}).items()})
        result._prefix = f"{self._prefix}{key}."
        result.problems = self.problems
        self._nested.append(result)
        return result

    def set_aside(self, key: str, value: object, problem: str, default: T) -> T:
        """Records that a value is invalid. Returns the default."""
        self.problems.append(f"argument {self._prefix}{key}: {value_of(value)} is {problem}; using {value_of(default)}")
        return default

    def _within(self, key: str, value: N, default: N, least: float, most: float) -> N:
        if least <= value <= most:
            return value
        return self.set_aside(key, value, f"less than {least:g}" if value < least else f"more than {most:g}", default)

    def _wrong(self, key: str, value: object, wanted: str, default: T) -> T:
        return self.set_aside(key, value, f"not {wanted}", default)


def _if_quoted(value: object) -> str:
    """Returns the problem of a number that is written as a string, or ""."""
    is_number = isinstance(value, str) and _NUMBER.fullmatch(value) is not None
    return " but a string: write it without quotes" if is_number else ""


def _check_default(key: str, default: object, types: type | tuple[type, ...]) -> None:
    if not isinstance(default, types) or isinstance(default, bool):
        raise TypeError(f"the default of argument {key} is {default!r:.66}, not a number")
