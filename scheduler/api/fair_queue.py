"""A queue in which namespaces take turns: a tenant with much work delays the work of another by one item."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class FairQueue(Generic[T]):
    """Items of one namespace are taken in the order in which they were added; an item is in the queue once."""

    def __init__(self) -> None:
        self._turns: OrderedDict[str, OrderedDict[T, None]] = OrderedDict()
        """The items of each namespace that has any, by namespace; the first namespace is the next to take its turn."""
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[tuple[str, T]]:
        """The items with their namespaces, namespace by namespace."""
        for namespace, items in self._turns.items():
            for item in items:
                yield namespace, item

    def add(self, namespace: str, item: T) -> None:
        """Adds an item at the end of its namespace, unless it is there."""
        items = self._turns.get(namespace)
        if items is None:
            items = self._turns[namespace] = OrderedDict()
        elif item in items:
            return
        items[item] = None
        self._length += 1

    def take(self) -> T:
        """Removes and returns the first item of the namespace whose turn it is. Raises KeyError if there is none."""
        namespace, items = next(iter(self._turns.items()), ("", OrderedDict[T, None]()))
        item, _ = items.popitem(last=False)
        self._turns.move_to_end(namespace)
        self._drop_empty(namespace)
        return item

    def remove(self, namespace: str, item: T) -> None:
        """Removes an item. Raises KeyError if it is not in the queue."""
        items = self._turns[namespace]
        del items[item]
        self._drop_empty(namespace)

    def count(self, namespace: str) -> int:
        """The number of items of a namespace."""
        return len(self._turns.get(namespace, ()))

    def longest(self) -> str:
        """The namespace with the most items. Raises ValueError if there is none."""
        return max(self._turns, key=lambda namespace: len(self._turns[namespace]))

    def take_last(self, namespace: str) -> T:
        """Removes and returns the item of a namespace that was added last. Raises KeyError if there is none."""
        item, _ = self._turns[namespace].popitem()
        self._drop_empty(namespace)
        return item

    def _drop_empty(self, namespace: str) -> None:
        """Counts an item less, and ends the turns of a namespace without items."""
        self._length -= 1
        if not self._turns[namespace]:
            del self._turns[namespace]

    def clear(self) -> None:
        """Removes all items."""
        self._turns.clear()
        self._length = 0
