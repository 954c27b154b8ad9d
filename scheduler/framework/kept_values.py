"""Values that are computed from the objects of nodes, or from jobs, and kept across sessions: a value is computed again
only if the job or one of the node's objects changed.

Sessions in which nothing changed return the values of the session before. Otherwise the objects of all nodes are
compared by identity, a column at a time, and only the values of changed nodes are computed. Of jobs, a session computes
the values of those that changed since the session before, and iterates over no others.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from itertools import compress, count
from operator import is_, is_not
from typing import Generic, NamedTuple, TypeVar

import msgspec
import numpy as np

from scheduler.api.job import Job
from scheduler.api.node import Column, NodeFacts, Nodes, Rows
from scheduler.api.snapshot import Memory, Snapshot

V = TypeVar("V")
C = TypeVar("C")


class ObjectsByNode(NamedTuple):
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
    """A different object for each instance."""
    follows: object | None
    """The identity of the instance with the same rows that this one was made of, if there is one."""
    changed: Sequence[int]
    """Positions of the values that differ from those of ``follows``."""


class NodeReading(NamedTuple, Generic[V]):
    """How a value of each node is read, and what it depends on."""

    key: Hashable
    """The key in the memory (``Memory.memo``)."""
    rows: Callable[[], Rows]
    """Returns the rows of the nodes with a value. It depends only on ``nodes.facts``, ``nodes.allocatable`` and the
    constants."""
    sources: Sequence[ObjectsByNode]
    """Their number and prefixes are the same in all sessions."""
    make: Callable[..., V]
    """``make(row, node, *objects)`` computes a value from the Node object and the node's object in each source, or
    None."""
    constants: tuple[Hashable, ...] = ()
    """All else that the values depend on; if one changes, all are computed again."""


class _Kept(NamedTuple, Generic[V]):
    """The values that the last session read, with what they were made of."""

    facts: NodeFacts
    allocatable: Column
    sources: Sequence[ObjectsByNode]
    names: list[str]
    keys: list[list[str]]
    """Per source, the keys of the objects of all nodes."""
    columns: list[list[object]]
    """The Node objects, then the objects of each source."""
    found: NodeValues[V]


def node_values(memory: Memory, nodes: Nodes, reading: NodeReading[V]) -> NodeValues[V]:
    """Returns the values of the nodes at ``reading.rows()``, the same instance if nothing changed."""
    version = (nodes.facts, nodes.allocatable, *(source.objects for source in reading.sources))

    def compute(last: _Kept[V] | None) -> _Kept[V]:
        return _read(nodes, reading, last)

    return memory.memo(("node values", reading.key), version, compute, reading.constants).found


def node_columns(
    memory: Memory,
    nodes: Nodes,
    reading: NodeReading[V],
    compute: Callable[[NodeValues[V], int, C | None], C],
) -> C:
    """Returns a result that is computed from the values of all nodes, such as columns; the same instance if nothing
    changed.

    ``compute(values, number, before)``: ``number`` is the number of all nodes; ``before`` is the result for the values
    that these follow, None if it is not known.
    """
    values, number = node_values(memory, nodes, reading), len(nodes)

    def follow(last: tuple[object, C] | None) -> tuple[object, C]:
        before = last[1] if last is not None and last[0] is values.follows else None
        return values.identity, compute(values, number, before)

    return memory.memo(("node columns", reading.key), (values.identity,), follow, number)[1]


def _read(nodes: Nodes, reading: NodeReading[V], last: _Kept[V] | None) -> _Kept[V]:
    """Reads the nodes. ``last``: the last values with equal constants, if there are any."""
    sources, every = reading.sources, nodes.names
    if last is not None and last.facts is nodes.facts and last.allocatable is nodes.allocatable:
        at, names, of_nodes = last.found.rows, last.names, last.columns[0]
    else:
        at = reading.rows()
        same_names = last is not None and last.facts.names is every and np.array_equal(at, last.found.rows)
        names = last.names if last is not None and same_names else [every[row] for row in at.tolist()]
        of_nodes = list(map(nodes.facts.objects.__getitem__, at.tolist()))
    before = last if last is not None and (names is last.names or names == last.names) else None
    keys = before.keys if before else [[source.prefix + name for name in names] for source in sources]
    columns = [of_nodes]
    for i, source in enumerate(sources):
        same = before is not None and before.sources[i].objects is source.objects
        columns.append(before.columns[i + 1] if before and same else list(map(source.objects.get, keys[i])))
    if before is not None:
        found = _updated(before, at, columns, reading.make)
    else:
        found = NodeValues(at, _computed(at, names, columns, reading.make, last), object(), None, ())
    return _Kept(nodes.facts, nodes.allocatable, sources, names, keys, columns, found)


def _updated(last: _Kept[V], rows: Rows, columns: list[list[object]], make: Callable[..., V]) -> NodeValues[V]:
    """Returns the values of nodes whose set has not changed since the last session."""
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
    rows: Rows, names: list[str], columns: list[list[object]], make: Callable[..., V], last: _Kept[V] | None
) -> list[V]:
    """Returns the values of other nodes than in the last session. Nodes with the objects of the last session keep their
    values."""
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


class _KeptJobs(NamedTuple, Generic[V]):
    identity: object
    """The identity of the jobs (``JobChanges.identity``)."""
    values: dict[str, V]


def job_values(snapshot: Snapshot, key: Hashable, make: Callable[[Job], V | None]) -> Mapping[str, V]:
    """Returns key of a job -> ``make(job)``, for all jobs where it is not None; the same instance if nothing changed.

    It must be called before the session changes jobs. ``key`` is the key in the memory; ``make`` depends on nothing but
    the job.
    """
    changes = snapshot.job_changes

    def compute(before: _KeptJobs[V] | None) -> _KeptJobs[V]:
        if before is not None and before.identity is changes.follows:
            return _KeptJobs(changes.identity, _updated_jobs(before.values, snapshot.jobs, changes.keys, make))
        values = {key: value for key, job in snapshot.jobs.items() if (value := make(job)) is not None}
        return _KeptJobs(changes.identity, values)

    return snapshot.memory.memo(key, (changes.identity,), compute).values


def _updated_jobs(
    last: dict[str, V], jobs: Mapping[str, Job], keys: Collection[str], make: Callable[[Job], V | None]
) -> dict[str, V]:
    """Returns the values after some jobs have changed; ``last`` itself if no value has."""
    found = {key: make(jobs[key]) if key in jobs else None for key in keys}
    if not any(value is not None or key in last for key, value in found.items()):
        return last
    values = last.copy()
    for key, value in found.items():
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
    return values
