"""A cache of values that are computed from the objects of nodes: a value is computed again only if one of the node's
objects changed.

Sessions in which nothing changed return the values of the session before. Otherwise the objects of all nodes are
compared by identity, a column at a time, and only the values of changed nodes are computed.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import compress, count
from operator import is_, is_not
from typing import Generic, NamedTuple, TypeVar

import msgspec
import numpy as np

from scheduler.api.node import Nodes, Rows

V = TypeVar("V")
C = TypeVar("C")


class Source(NamedTuple):
    """A dictionary of objects, at most one for each node. It is replaced when an object changes."""

    objects: Mapping[str, object]
    prefix: str = ""
    """The key of a node's object is ``prefix``, followed by the name of the node."""


class NodeValues(msgspec.Struct, Generic[V], frozen=True, eq=False):
    """The values of some nodes in one session."""

    rows: Rows
    values: list[V]
    """``values[i]`` belongs to the node at ``rows[i]``."""
    identity: object
    """Another one for each instance."""
    follows: object | None
    """The identity of the instance with the same rows that this one was made of, if there is one."""
    changed: Sequence[int]
    """Positions of the values that differ from those of ``follows``."""


class _State(NamedTuple, Generic[V]):
    """The values that the last session read."""

    origins: tuple[object, ...]
    """The facts and allocatable amounts of nodes, and the dictionary of each source."""
    constants: tuple[Hashable, ...]
    every: list[str]
    """The names of all nodes; the same list while none is added or deleted."""
    names: list[str]
    keys: list[list[str]]
    """Per source, the keys of the objects of all nodes."""
    columns: list[list[object]]
    """The Node objects, then the objects of each source."""
    found: NodeValues[V]


class NodeReadings(Generic[V]):
    """The values of the last session, for the next one. Sessions may run in several threads."""

    def __init__(self) -> None:
        self._last: _State[V] | None = None

    def read(
        self,
        nodes: Nodes,
        rows: Callable[[], Rows],
        sources: Sequence[Source],
        make: Callable[..., V],
        constants: tuple[Hashable, ...] = (),
    ) -> NodeValues[V]:
        """Returns the values of the nodes at ``rows()``, the same instance if nothing changed.

        ``rows``: depends only on ``nodes.facts`` and ``nodes.allocatable``. ``sources``: their number and prefixes
        never change. ``make(row, node, *objects)`` computes a value from the Node object and the node's object in each
        source, or None. ``constants``: all else that the values depend on; if one changes, all are computed again.
        """
        last = self._last
        origins = (nodes.facts, nodes.allocatable, *(source.objects for source in sources))
        if last is not None and constants == last.constants and all(map(is_, last.origins, origins)):
            return last.found
        if last is not None and constants != last.constants:
            last = None
        if last is not None and all(map(is_, last.origins[:2], origins)):
            at, names, every, of_nodes = last.found.rows, last.names, last.every, last.columns[0]
        else:
            at, every = rows(), nodes.names
            same_names = last is not None and last.every is every and np.array_equal(at, last.found.rows)
            names = last.names if last is not None and same_names else [every[row] for row in at.tolist()]
            of_nodes = list(map(nodes.facts.objects.__getitem__, at.tolist()))
        before = last if last is not None and (names is last.names or names == last.names) else None
        keys = before.keys if before else [[source.prefix + name for name in names] for source in sources]
        columns = [of_nodes]
        for i, source in enumerate(sources):
            same = before is not None and before.origins[i + 2] is source.objects
            columns.append(before.columns[i + 1] if before and same else list(map(source.objects.get, keys[i])))
        if before is not None:
            found = _updated(before, at, columns, make)
        else:
            found = NodeValues(at, _computed(at, names, columns, make, last), object(), None, ())
        self._last = _State(origins, constants, every, names, keys, columns, found)
        return found


class NodeColumns(Generic[V, C]):
    """A result that is computed from the values of all nodes, such as columns; follows them from session to session."""

    def __init__(self, compute: Callable[[NodeValues[V], int, C | None], C]) -> None:
        """``compute(values, number, before)``: ``number`` is that of all nodes; ``before`` is the result for the values
        that these follow, None if it is not known."""
        self._compute = compute
        self._readings: NodeReadings[V] = NodeReadings()
        self._last: tuple[int, object, C] | None = None
        """The number of all nodes, the identity of the values, and the result."""

    def read(
        self,
        nodes: Nodes,
        rows: Callable[[], Rows],
        sources: Sequence[Source],
        make: Callable[..., V],
        constants: tuple[Hashable, ...] = (),
    ) -> C:
        """Returns the result for the values of ``NodeReadings.read``, the same instance if nothing changed."""
        values = self._readings.read(nodes, rows, sources, make, constants)
        number, before = len(nodes), None
        if self._last is not None and self._last[0] == number:
            _, identity, result = self._last
            if identity is values.identity:
                return result
            before = result if identity is values.follows else None
        found = self._compute(values, number, before)
        self._last = number, values.identity, found
        return found


def _updated(last: _State[V], rows: Rows, columns: list[list[object]], make: Callable[..., V]) -> NodeValues[V]:
    """The values of nodes whose set has not changed since the last session."""
    pairs = zip(last.columns, columns, strict=True)
    differ = (map(is_not, before, now) for before, now in pairs if before is not now)
    changed = sorted({i for column in differ for i in compress(count(), column)})
    found = last.found
    same_rows = np.array_equal(rows, found.rows)
    if same_rows and not changed:
        return found
    values = found.values.copy()
    for i in changed:
        values[i] = make(int(rows[i]), *(column[i] for column in columns))
    return NodeValues(rows, values, object(), found.identity if same_rows else None, changed)


def _computed(
    rows: Rows, names: list[str], columns: list[list[object]], make: Callable[..., V], last: _State[V] | None
) -> list[V]:
    """The values of other nodes than in the last session. Those with the objects of the last session keep theirs."""
    of_nodes = zip(*columns, strict=True)
    if last is None:
        return [make(row, *objects) for row, objects in zip(rows.tolist(), of_nodes, strict=True)]
    kept: dict[str, tuple[tuple[object, ...], V]] = dict(
        zip(last.names, zip(zip(*last.columns, strict=True), last.found.values, strict=True), strict=True)
    )
    values = []
    for row, name, objects in zip(rows.tolist(), names, of_nodes, strict=True):
        known = kept.get(name)
        same = known is not None and all(map(is_, known[0], objects))
        values.append(known[1] if known is not None and same else make(row, *objects))
    return values
