"""Sharing of data with snapshots: the version of the model, and copy-on-read dictionaries."""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

V = TypeVar("V")


class Version:
    """The version of the model, a number that only grows. All tables of a cache share one.

    It also counts the changes for which a session should not wait for the end of the schedule period. Assumed decisions
    and the watch events that confirm them are not counted.
    """

    __slots__ = ("arrivals", "listener", "number", "openings", "waker")

    def __init__(self) -> None:
        self.number = 0
        self.arrivals = 0
        """Number of changes that brought something to decide on: a Pod to place, a PodGroup to admit."""
        self.openings = 0
        """Number of changes that can let waiting work be placed: a Pod that ended, a changed node or queue."""
        self.listener: Callable[[], None] | None = None
        """Called after each arrival and opening."""
        self.waker: Callable[[], None] | None = None
        """Called after each change. Set only while nothing happens: there are thousands of changes per second else."""

    def increment(self) -> None:
        """Records a change after which a session could decide differently."""
        self.number += 1
        if self.waker is not None:
            self.waker()

    def arrived(self) -> None:
        """Counts an arrival. The change itself is recorded by ``increment``."""
        self.arrivals += 1
        if self.listener is not None:
            self.listener()

    def changed(self) -> None:
        """Records a change that can let waiting work be placed: ``increment`` and ``opened``."""
        self.number += 1
        self.openings += 1
        if self.waker is not None:
            self.waker()
        if self.listener is not None:
            self.listener()

    def opened(self) -> None:
        """Counts an opening. The change itself is recorded by ``increment``."""
        self.openings += 1
        if self.listener is not None:
            self.listener()


class SnapshotDict(Generic[V]):
    """A dictionary that snapshots may keep. ``read`` returns a copy, made when first read after a change."""

    def __init__(self) -> None:
        self._live: dict[str, V] = {}
        self._copy: dict[str, V] | None = None

    def __setitem__(self, key: str, value: V) -> None:
        self._live[key] = value
        self._copy = None

    def pop(self, key: str) -> V | None:
        if key not in self._live:
            return None
        self._copy = None
        return self._live.pop(key)

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
