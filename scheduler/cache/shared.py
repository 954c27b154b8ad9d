"""Dictionaries that the cache goes on changing while snapshots that were handed them stay as they are."""

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

V = TypeVar("V")


class Shared(Generic[V]):
    """A dictionary that snapshots may keep: copied when next read after a change, never changed under a reader."""

    def __init__(self) -> None:
        self._live: dict[str, V] = {}
        self._copy: dict[str, V] | None = None

    def __setitem__(self, key: str, value: V) -> None:
        self._live[key] = value
        self._copy = None

    def pop(self, key: str) -> V | None:
        self._copy = None
        return self._live.pop(key, None)

    def get(self, key: str) -> V | None:
        return self._live.get(key)

    def __contains__(self, key: str) -> bool:
        return key in self._live

    def __iter__(self) -> Iterator[str]:
        return iter(self._live)

    def __len__(self) -> int:
        return len(self._live)

    def values(self) -> Iterable[V]:
        return self._live.values()

    def read(self) -> dict[str, V]:
        if self._copy is None:
            self._copy = dict(self._live)
        return self._copy
