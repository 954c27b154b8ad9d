"""Which objects have something in common: their keys by what a function says of them, kept as objects come and go."""

from collections.abc import Callable, Hashable
from typing import Any

Key = tuple[str, str, str]
"""Group and kind, namespace, name."""
Word = Callable[[dict[str, Any]], Hashable]
"""What is said of an object, from the object alone; None: nothing, it is left out."""


class Index:
    """Of one function, over objects of one kind."""

    def __init__(self, word: Word) -> None:
        self._word = word
        self._values: dict[Key, Hashable] = {}
        self._keys: dict[Hashable, dict[Key, int]] = {}
        """Value -> keys, with their numbers."""

    def fork(self, copied: Callable[[Any], Any]) -> "Index":
        """An independent copy. ``copied``: gives the copy of a dictionary of dictionaries."""
        other = Index(self._word)
        other._values, other._keys = self._values.copy(), copied(self._keys)
        return other

    def put(self, key: Key, number: int, raw: dict[str, Any]) -> None:
        """An object came, or has a new version. ``number``: its place among all, the same for all its versions."""
        value = self._word(raw)
        if value != self._values.get(key):
            self.drop(key)
            if value is not None:
                self._values[key] = value
                self._keys.setdefault(value, {})[key] = number

    def drop(self, key: Key) -> None:
        """An object is gone."""
        value = self._values.pop(key, None)
        if value is not None:
            keys = self._keys[value]
            del keys[key]
            if not keys:
                del self._keys[value]

    def keys(self, value: Hashable) -> list[Key]:
        """The keys of the objects of which a value is said, by their numbers."""
        found = self._keys.get(value, {})
        return sorted(found, key=found.__getitem__)
