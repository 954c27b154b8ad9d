"""Counts the entries in the tables of an object and of the objects that it holds, which shows tables that grow while
objects are created and deleted."""

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping
from typing import Any

_OURS = ("scheduler.", "prometheus_client.")
_ATOMS = (str, bytes, int, float, bool, type(None))


def tables(root: object, ignored: Collection[str] = ()) -> dict[str, int]:
    """Maps a path of attributes to the number of entries of all containers at this path. ``ignored``: names of
    attributes that are not followed."""
    found: Counter[str] = Counter()
    seen: set[int] = set()
    waiting: deque[tuple[str, Any]] = deque([("", root)])
    while waiting:
        path, it = waiting.popleft()
        if isinstance(it, _ATOMS) or id(it) in seen:
            continue
        seen.add(id(it))
        if isinstance(it, Mapping):
            found[path] += len(it)
            waiting += ((f"{path}[]", value) for value in list(it.values()))
        elif isinstance(it, (list, set, frozenset, tuple, deque)):
            if not isinstance(it, tuple):
                found[path] += len(it)
            waiting += ((f"{path}[]", value) for value in list(it))
        elif type(it).__module__.startswith(_OURS):
            waiting += ((f"{path}.{name}", value) for name, value in _attributes(it) if name not in ignored)
    return {path: number for path, number in found.items() if number}


def _attributes(it: object) -> Iterator[tuple[str, Any]]:
    yield from getattr(it, "__dict__", {}).items()
    for cls in type(it).__mro__:
        slots = getattr(cls, "__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(it, name):
                yield name, getattr(it, name)


def grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """The paths that hold more than before."""
    return {path: (before.get(path, 0), number) for path, number in after.items() if number > before.get(path, 0)}
