"""What plugins, and the limit of searches, keep from one session of a cluster to the next."""

from typing import Any, TypeVar

T = TypeVar("T")


class PluginMemory:
    """Objects, one of each type. A cache has one memory and passes it on in every snapshot.

    Decisions may depend on its content, as long as this follows from the sessions since it was empty: it is emptied
    when a file of a recording begins, and a replay begins with an empty one.
    """

    def __init__(self) -> None:
        self._kept: dict[type, Any] = {}

    def get(self, kind: type[T]) -> T:
        """Returns the object of a type. It is made without arguments when it is first asked for."""
        found: T | None = self._kept.get(kind)
        if found is None:
            found = self._kept[kind] = kind()
        return found

    def clear(self) -> None:
        """Forgets everything."""
        self._kept.clear()
