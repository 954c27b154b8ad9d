"""What a session keeps for the next sessions of its cluster.

Each cache has one memory and passes it on in its snapshots. So two schedulers in one process share nothing, and a
replay begins with an empty memory. Trials on copies of a cluster share the memory of the original.

Decisions may depend on its content, as long as this follows from the sessions since it was empty: it is cleared when a
file of a recording begins.
"""

from collections.abc import Callable, Hashable
from operator import is_
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class _Kept(NamedTuple):
    version: tuple[object, ...]
    constants: Hashable
    value: Any


class Memory:
    """Values of former sessions, by key."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Kept] = {}

    def memo(
        self,
        key: Hashable,
        version: tuple[object, ...],
        compute: Callable[[T | None], T],
        constants: Hashable = (),
    ) -> T:
        """Returns the value under a key. It is computed if there is none, or if the version or the constants differ
        from those that it was computed for.

        ``version``: the objects that the value depends on. They are compared by identity, since objects of a snapshot
        are replaced when they change. ``constants``: all else that the value depends on, compared by equality.
        ``compute`` receives the value of the former version, or None if there is none with equal constants. It returns
        a new value, or changes the former one and returns that. If it raises an exception, the former value is kept.
        """
        kept = self._kept.get(key)
        if kept is not None and kept.constants != constants:
            kept = None
        if kept is not None and len(kept.version) == len(version) and all(map(is_, kept.version, version)):
            value: T = kept.value
            return value
        value = compute(None if kept is None else kept.value)
        self._kept[key] = _Kept(version, constants, value)
        return value

    def clear(self) -> None:
        """Drops all values."""
        self._kept.clear()
