"""The hierarchy of queues, and the books of the capacity plugin: what each queue holds, requests, and may use.

A queue without a parent is a child of the root, whether or not a Queue object ``root`` exists. A queue whose ancestors
do not lead to the root (one does not exist, or they form a cycle) is invalid, and so are its descendants. Other queues
are not affected (in Volcano one such queue stops all queues).

The limit of a flat queue is the cluster less the guarantees of other queues, and at most its capability. In a
hierarchy it is the limit of the parent less the guarantees of siblings, and at most the capability; what a queue holds
counts for all its ancestors. The root has no limit unless its spec sets one, so that jobs may request more than the
cluster currently has.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from scheduler.api.names import ROOT_QUEUE
from scheduler.api.queue import Queue
from scheduler.api.resource import PODS_INDEX, SMALLEST, Vector, exceeded, is_empty, largest_share
from scheduler.api.task import TaskClass
from scheduler.framework.columns import UNBOUNDED
from scheduler.framework.plugin_session import PluginSession
from scheduler.plugins.support.queue_accounting import flat_limits, queue_amounts


@dataclass(slots=True)
class QueueTree:
    """The queues of a session in their hierarchy."""

    ancestors: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Queue -> its ancestors, the root first. An invalid queue has only the root."""
    children: dict[str, list[str]] = field(default_factory=dict)
    """Queue -> its children, sorted by name, without invalid queues. Only queues without children may have jobs."""
    faults: dict[str, str] = field(default_factory=dict)
    """Invalid queue -> the reason."""

    def path(self, name: str) -> tuple[str, ...]:
        """Returns the queue and its ancestors, nearest first; the limits of all apply."""
        return (name, *reversed(self.ancestors[name]))


def queue_tree(queues: Mapping[str, Queue]) -> QueueTree:
    """Builds the hierarchy from ``spec.parent``."""
    tree = QueueTree(ancestors={ROOT_QUEUE: ()})
    for name in sorted(queues):
        above, fault = _find_ancestors(queues, name)
        tree.ancestors[name] = above
        if fault:
            tree.faults[name] = fault
        elif above:
            tree.children.setdefault(above[-1], []).append(name)
    return tree


def _find_ancestors(queues: Mapping[str, Queue], name: str) -> tuple[tuple[str, ...], str]:
    """Returns the ancestors of a queue, root first, and why they are invalid ("" if they are valid)."""
    if name == ROOT_QUEUE:
        return (), ""
    path = [name]
    while path[-1] != ROOT_QUEUE:
        parent = queues[path[-1]].parent or ROOT_QUEUE
        if parent != ROOT_QUEUE and parent not in queues:
            of = "" if len(path) == 1 else f"queue {path[-1]}, which is above it, has a parent that is missing: "
            return (ROOT_QUEUE,), f"{of}queue {parent} does not exist"
        if parent in path:
            circle = [*path[path.index(parent) :], parent]
            return (ROOT_QUEUE,), f"its parents form a circle: {', '.join(circle)}"
        path.append(parent)
    return tuple(reversed(path[1:])), ""


Positions = NDArray[np.bool_]


@dataclass(slots=True)
class QueueBook:
    """One queue in a session. Its amounts include those of its descendants."""

    name: str
    guarantee: Vector
    deserved: Vector
    """The deserved amounts, which are at least the guarantee."""
    limit: Vector
    """The most that the queue may hold (Volcano's realCapability)."""
    deserved_by_name: Positions
    """Resources that spec.deserved names, even with 0; for cpu and memory: with an amount above 0."""
    request: Vector
    """Allocated plus pending amounts of its jobs at the opening of the session."""
    allocated: Vector
    inqueue: Vector
    elastic: Vector
    reserved: Vector
    """The amounts of tasks without a node whose gate of queue admission was removed."""
    path: tuple["QueueBook", ...] = ()
    """The books of the queue and its ancestors, nearest first. The limits of all apply."""
    opening_share: float = 0.0
    """``share`` at the opening of the session."""

    @property
    def share(self) -> float:
        """The largest ratio of allocated to deserved amount of any resource; 1 if the queue deserves nothing, so that
        it comes after all queues below their deserved share."""
        if self.best_effort:
            return 1.0
        return largest_share(self.allocated, self.deserved)

    @property
    def overused(self) -> bool:
        """Whether the queue holds more than it deserves of some resource."""
        return self.share > 1

    @property
    def best_effort(self) -> bool:
        """Whether the queue deserves nothing (``pods`` do not count)."""
        return is_empty(self.deserved)

    def taken(self, cls: TaskClass) -> Vector:
        """Returns the amount that is not available to tasks of a class. Reservations are available to ungated tasks,
        which take them in order, so that none of them waits for another's reservation."""
        ungated = cls.requests_queue_gate and not cls.at_queue_gate
        return self.allocated if ungated else self.allocated + self.reserved

    def room(self, cls: TaskClass) -> int:
        """Returns how many tasks of a class still fit under the limit."""
        request = cls.request
        asked = request > 0
        asked[PODS_INDEX] = False
        if not asked.any():
            return UNBOUNDED
        most = UNBOUNDED * request[asked]  # infinity cannot be floored
        free = np.minimum(self.limit[asked] - self.taken(cls)[asked], most)
        return max(int((free // request[asked]).min()), 0)

    def over(self, request: Vector) -> list[int]:
        """Returns the resources in which the request exceeds the limit."""
        return exceeded(self.allocated + request, self.limit, request)

    def admission_usage(self) -> Vector:
        """The amounts that count at admission: used or reserved. Admitted jobs count with their minimum, without the
        elastic part."""
        return self.allocated + self.inqueue - self.elastic

    def take(self, amount: Vector) -> None:
        """Adds an amount (negative: subtracts) to what the queue and its ancestors hold."""
        for book in self.path:
            book.allocated = book.allocated + amount


def flat_books(session: PluginSession) -> dict[str, QueueBook]:
    """Returns a book for every queue, without a hierarchy."""
    limits = flat_limits(session)
    books = {}
    for name, held in queue_amounts(session).items():
        queue, limit = session.queues[name], limits[name]
        deserved = np.maximum(np.minimum(queue.deserved, limit), queue.guarantee)
        books[name] = QueueBook(
            name=name,
            guarantee=queue.guarantee,
            deserved=deserved,
            limit=limit,
            deserved_by_name=_deserved_by_name(session, queue, deserved),
            request=held.allocated + held.pending,
            allocated=held.allocated,
            inqueue=held.reserved,
            elastic=held.elastic,
            reserved=session.dimensions.zeros(),
        )
    for book in books.values():
        book.path = (book,)
    return books


def tree_books(session: PluginSession, tree: QueueTree) -> dict[str, QueueBook]:
    """Returns a book for every queue and for the root."""
    books = {name: _own_book(session, name) for name in tree.ancestors}
    for name, held in queue_amounts(session).items():
        for at in tree.path(name):
            book = books[at]
            book.request = book.request + held.allocated + held.pending
            book.allocated = book.allocated + held.allocated
            book.inqueue = book.inqueue + held.reserved
            book.elastic = book.elastic + held.elastic
    _set_limits(session, tree, books)
    for name, book in books.items():
        book.path = tuple(books[above] for above in tree.path(name))
        book.opening_share = book.share
    return books


def _own_book(session: PluginSession, name: str) -> QueueBook:
    """Returns the book of a queue from its spec; a default one for the root if there is no such object."""
    zeros = session.dimensions.zeros()
    queue = session.queues.get(name)
    if queue is None:
        guarantee = deserved = zeros
        limit = np.full(len(zeros), np.inf)
        deserved_by_name = np.zeros(len(zeros), dtype=bool)
    else:
        guarantee, limit = queue.guarantee, queue.capability
        deserved = np.maximum(queue.deserved, guarantee)
        deserved_by_name = _deserved_by_name(session, queue, deserved)
    return QueueBook(
        name,
        guarantee,
        deserved,
        limit,
        deserved_by_name,
        request=zeros,
        allocated=zeros,
        inqueue=zeros,
        elastic=zeros,
        reserved=zeros,
    )


def _set_limits(session: PluginSession, tree: QueueTree, books: dict[str, QueueBook]) -> None:
    """Sets limits from the root down. The root deserves and guarantees the sums of its children."""
    root = books[ROOT_QUEUE]
    below = [books[child] for child in tree.children.get(ROOT_QUEUE, ())]
    root.guarantee = _sum(session, (book.guarantee for book in below))
    root.deserved = _sum(session, (book.deserved for book in below))
    root.deserved_by_name = (
        np.any([book.deserved_by_name for book in below], axis=0) if below else root.deserved_by_name
    )
    waiting = [ROOT_QUEUE]
    while waiting:
        parent = books[waiting.pop()]
        children = tree.children.get(parent.name, [])
        guaranteed = _sum(session, (books[child].guarantee for child in children))
        free = np.maximum(parent.limit - guaranteed, 0)
        for child in children:
            books[child].limit = np.minimum(free + books[child].guarantee, books[child].limit)
        waiting += children


def _sum(session: PluginSession, vectors: Iterable[Vector]) -> Vector:
    total = session.dimensions.zeros()
    for vector in vectors:
        total += vector
    return total


def _deserved_by_name(session: PluginSession, queue: Queue, deserved: Vector) -> Positions:
    deserved_by_name: Positions = deserved >= SMALLEST
    names = session.dimensions.names
    for d in range(PODS_INDEX, len(names)):
        deserved_by_name[d] = names[d] in queue.deserves
    return deserved_by_name
