"""A copy of a dictionary of dictionaries that copies each inner dictionary on first access."""

from collections.abc import Callable, Hashable, Iterator
from typing import Any


class CopyOnAccess(dict[Hashable, dict[Any, Any]]):
    """Shares the inner dictionaries of the original; each is copied on first access, after which it may be changed.

    The original and its contents must not change while the copy is in use. Keeps the order of the original. Not
    thread-safe.
    """

    def __init__(self, original: dict[Any, dict[Any, Any]], copied: Callable[[dict[Any, Any]], dict[Any, Any]]) -> None:
        super().__init__(original)
        self._copied = copied
        self._shared = set(original)

    def __getitem__(self, key: Hashable) -> dict[Any, Any]:
        inner = super().__getitem__(key)
        if key in self._shared:
            inner = self._copied(inner)
            self[key] = inner
        return inner

    def __setitem__(self, key: Hashable, inner: dict[Any, Any]) -> None:
        self._shared.discard(key)
        super().__setitem__(key, inner)

    def __delitem__(self, key: Hashable) -> None:
        super().__delitem__(key)
        self._shared.discard(key)

    def get(self, key: Hashable, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def setdefault(self, key: Hashable, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: Hashable, *default: Any) -> Any:
        if key not in self and default:
            return default[0]
        inner = self[key]
        del self[key]
        return inner

    def values(self) -> Iterator[dict[Any, Any]]:  # type: ignore[override]
        return (self[key] for key in list(self))

    def items(self) -> Iterator[tuple[Hashable, dict[Any, Any]]]:  # type: ignore[override]
        return ((key, self[key]) for key in list(self))
