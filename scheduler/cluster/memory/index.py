"""Indices of the objects of one kind by a common value, like the indexers of client-go."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from scheduler.api.names import GROUP_NAME

Json = dict[str, Any]
Key = tuple[str, str, str]
"""Group and kind, namespace, name."""
IndexFunction = Callable[[Json], Hashable]
"""Returns the indexed value of an object, from the object alone; None leaves the object out of the index."""


def node_of(pod: Json) -> str | None:
    """The name of a Pod's node."""
    return pod["spec"].get("nodeName") or None


def group_of(pod: Json) -> str:
    """``namespace/name`` of a Pod's PodGroup; the name is empty if the Pod has none."""
    meta = pod["metadata"]
    return f"{meta['namespace']}/{(meta.get('annotations') or {}).get(GROUP_NAME, '')}"


class Index:
    """The index of one function over the objects of one kind."""

    def __init__(self, function: IndexFunction, objects: Iterable[tuple[Key, int, Json]] = ()) -> None:
        """``objects``: the first objects, each with its number."""
        self._function = function
        self._values: dict[Key, Hashable] = {}
        self._keys: dict[Hashable, dict[Key, int]] = {}
        """Value -> keys with their numbers."""
        for key, number, raw in objects:
            value = function(raw)
            if value is not None:
                self._add(key, number, value)

    def fork(self, copied: Callable[[Any], Any]) -> "Index":
        """Returns an independent copy. ``copied``: copies a dictionary of dictionaries."""
        other = Index(self._function)
        other._values, other._keys = self._values.copy(), copied(self._keys)
        return other

    def put(self, key: Key, number: int, raw: Json) -> None:
        """Adds or updates an object. ``number``: its position among all objects, the same for all its versions."""
        value = self._function(raw)
        if value != self._values.get(key):
            self.remove(key)
            if value is not None:
                self._add(key, number, value)

    def _add(self, key: Key, number: int, value: Hashable) -> None:
        self._values[key] = value
        self._keys.setdefault(value, {})[key] = number

    def remove(self, key: Key) -> None:
        """Removes an object, if it is in the index."""
        value = self._values.pop(key, None)
        if value is not None:
            keys = self._keys[value]
            del keys[key]
            if not keys:
                del self._keys[value]

    def keys(self, value: Hashable) -> list[Key]:
        """The keys of the objects with a value, ordered by their numbers."""
        found = self._keys.get(value, {})
        return sorted(found, key=found.__getitem__)
