"""A cache of values that are computed from objects: a value is computed again only if one of its objects changed."""

from collections.abc import Callable, Hashable, Iterable
from operator import is_
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Readings(Generic[K, V]):
    """The values of the last session, for the next one."""

    def __init__(self) -> None:
        self._kept: dict[K, tuple[tuple[object, ...], V]] = {}

    def last(self) -> dict[K, V]:
        """Returns the values of the last call of ``of``."""
        return {key: value for key, (_, value) in self._kept.items()}

    def of(self, wanted: Iterable[tuple[K, tuple[object, ...]]], make: Callable[[K], V]) -> dict[K, V]:
        """Returns the value of each key, computed again if one of its objects changed. Values of other keys are
        dropped."""
        before, now = self._kept, {}
        for key, objects in wanted:
            kept = before.get(key)
            if kept is None or not all(map(is_, kept[0], objects)):
                kept = (objects, make(key))
            now[key] = kept
        self._kept = now
        return {key: value for key, (_, value) in now.items()}
