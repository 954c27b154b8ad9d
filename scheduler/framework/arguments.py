"""Plugin and action arguments from the configuration file, typed as Volcano types them.

A value of a wrong type is not an error: it is reported and the default is used (Volcano's framework/arguments.go).
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
LARGEST_INTEGER = 2**63 - 1


class Arguments(Mapping[str, Any]):
    """The ``arguments`` of one plugin, with typed readers; complaints about them collect in ``problems``."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values = dict(values or {})
        self._prefix = ""
        self.problems: list[str] = []

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def integer(self, key: str, default: int) -> int:
        value = self._values.get(key)
        if value is None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST_INTEGER:
            return value
        return self._wrong(key, value, "an integer", default)

    def number(self, key: str, default: float) -> float:
        value = self._values.get(key)
        if value is None:
            return default
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST_INTEGER:
            return float(value)
        return self._wrong(key, value, "a number", default)

    def boolean(self, key: str, default: bool) -> bool:
        value = self._values.get(key)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in ("true", "t", "1", "false", "f", "0"):
            return value.lower() in ("true", "t", "1")
        return self._wrong(key, value, "true or false", default)

    def text(self, key: str, default: str) -> str:
        value = self._values.get(key)
        if value is None:
            return default
        if isinstance(value, str):
            return value
        return self._wrong(key, value, "a string", default)

    def nested(self, key: str) -> "Arguments":
        """A mapping among the arguments, as arguments of their own; empty if it is not there."""
        value = self._values.get(key)
        if value is not None and not isinstance(value, Mapping):
            value = self._wrong(key, value, "a mapping", {})
        result = Arguments({str(name): entry for name, entry in (value or {}).items()})
        result._prefix = f"{self._prefix}{key}."
        result.problems = self.problems
        return result

    def aside(self, key: str, value: object, problem: str, default: T) -> T:
        """A value cannot be used: tell of it. Returns the default."""
        self.problems.append(f"argument {self._prefix}{key}: {str(value)[:64]!r} is {problem}; using {default!r}")
        return default

    def _wrong(self, key: str, value: object, wanted: str, default: T) -> T:
        return self.aside(key, value, f"not {wanted}", default)
