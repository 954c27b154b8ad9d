"""What was made of objects, kept with those very objects: what did not change is not read again."""

from collections.abc import Callable, Hashable, Iterable
from operator import is_
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Readings(Generic[K, V]):
    """The readings of the last session, for the next one to take over."""

    def __init__(self) -> None:
        self._kept: dict[K, tuple[tuple[object, ...], V]] = {}

    def of(self, wanted: Iterable[tuple[K, tuple[object, ...]]], make: Callable[[K], V]) -> dict[K, V]:
        """The reading of each key, made again where one of its objects has changed. Readings of keys
        that are not wanted any more are forgotten."""
        before, now = self._kept, {}
        for key, objects in wanted:
            kept = before.get(key)
            if kept is None or not all(map(is_, kept[0], objects)):
                kept = (objects, make(key))
            now[key] = kept
        self._kept = now
        return {key: value for key, (_, value) in now.items()}
