"""What each queue holds, waits for and may have, as the capacity plugin keeps it.

Flat: a queue may have what no other queue is guaranteed, within its capability. In a hierarchy: what its parent may
have and its siblings are not guaranteed, within its capability; what it holds counts for every queue above it too. The
root is unlimited unless it says otherwise: people may ask for more than the cluster has today.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.api.names import ROOT_QUEUE
from scheduler.api.queue import Queue
from scheduler.api.resource import PODS_INDEX, SMALLEST, Vector, exceeded, is_empty, shares
from scheduler.api.task import TaskClass
from scheduler.framework.columns import UNBOUNDED
from scheduler.framework.session import Session
from scheduler.plugins.capacity.tree import QueueTree
from scheduler.plugins.support.queues.accounting import flat_limits, job_columns

Positions = NDArray[np.bool_]


@dataclass(slots=True)
class QueueBook:
    """One queue in a session; amounts include those of all queues below it."""

    name: str
    guarantee: Vector
    deserved: Vector
    """At least what is guaranteed."""
    limit: Vector
    """The most it may have (Volcano's realCapability)."""
    named: Positions
    """Resources that the queue deserves a named amount of, be it 0; of cpu and memory, an amount above 0."""
    request: Vector
    """What its jobs held and waited for when the session was opened."""
    allocated: Vector
    inqueue: Vector
    elastic: Vector
    reserved: Vector
    """What tasks that were let past the gate of queue admission will take, and do not hold yet."""
    path: tuple["QueueBook", ...] = ()
    """The books of the queue and of those above it, nearest first: the limits of all hold."""
    opening_share: float = 0.0
    """``share`` when the session was opened."""

    @property
    def share(self) -> float:
        """The largest part that is in use of what it deserves of any resource; 1 if it deserves nothing, so that it
        comes after all queues that have not got what they deserve."""
        if self.best_effort:
            return 1.0
        asked = self.deserved >= SMALLEST
        return float(shares(self.allocated[asked], self.deserved[asked]).max())

    @property
    def overused(self) -> bool:
        """It holds more than it deserves of something."""
        return self.share > 1

    @property
    def best_effort(self) -> bool:
        """It deserves nothing (but ``pods``, perhaps)."""
        return is_empty(self.deserved)

    def taken(self, cls: TaskClass) -> Vector:
        """What is taken as far as tasks of a class are concerned: what is reserved is so for those that were let past
        the gate; of these the first come first, so that none waits for another's reservation."""
        let_past = cls.asks_admission and not cls.at_queue_gate
        return self.allocated if let_past else self.allocated + self.reserved

    def room(self, cls: TaskClass) -> int:
        """How many tasks of a class still fit below the limit."""
        request = cls.request
        asked = request > 0
        asked[PODS_INDEX] = False
        if not asked.any():
            return UNBOUNDED
        most = UNBOUNDED * request[asked]  # infinity cannot be floored
        free = np.minimum(self.limit[asked] - self.taken(cls)[asked], most)
        return max(int((free // request[asked]).min()), 0)

    def over(self, request: Vector) -> list[int]:
        """The resources of which the request would exceed the limit."""
        return exceeded(self.allocated + request, self.limit, request)

    def promised(self) -> Vector:
        """What is used or promised: jobs in the queue count with their minimum, what they hold beyond it does not."""
        return self.allocated + self.inqueue - self.elastic

    def take(self, amount: Vector) -> None:
        """The queue, and so each above it, holds this much more (or less)."""
        for book in self.path:
            book.allocated = book.allocated + amount


def flat_books(session: Session) -> dict[str, QueueBook]:
    """A book for every queue; none is above another."""
    columns = job_columns(session)
    allocated, pending, inqueue, elastic = (
        columns.per_queue(column) for column in (columns.allocated, columns.pending, columns.reserved, columns.elastic)
    )
    limits = flat_limits(session)
    books = {}
    for i, name in enumerate(columns.queue_names):
        queue, limit = session.queues[name], limits[name]
        deserved = np.maximum(np.minimum(queue.deserved, limit), queue.guarantee)
        books[name] = QueueBook(
            name=name,
            guarantee=queue.guarantee,
            deserved=deserved,
            limit=limit,
            named=_named(session, queue, deserved),
            request=allocated[i] + pending[i],
            allocated=allocated[i],
            inqueue=inqueue[i],
            elastic=elastic[i],
            reserved=session.dimensions.zeros(),
        )
    for book in books.values():
        book.path = (book,)
    return books


def tree_books(session: Session, tree: QueueTree) -> dict[str, QueueBook]:
    """A book for every queue and for the root."""
    books = {name: _own_book(session, name) for name in tree.ancestors}
    columns = job_columns(session)
    held = zip(
        columns.queue_names,
        columns.per_queue(columns.allocated),
        columns.per_queue(columns.pending),
        columns.per_queue(columns.reserved),
        columns.per_queue(columns.elastic),
        strict=True,
    )
    for name, allocated, pending, inqueue, elastic in held:
        for at in tree.path(name):
            book = books[at]
            book.request = book.request + allocated + pending
            book.allocated = book.allocated + allocated
            book.inqueue = book.inqueue + inqueue
            book.elastic = book.elastic + elastic
    _share_out(session, tree, books)
    for name, book in books.items():
        book.path = tuple(books[above] for above in tree.path(name))
        book.opening_share = book.share
    return books


def _own_book(session: Session, name: str) -> QueueBook:
    """The book of a queue as its spec has it; one for the root, if there is no such object."""
    zeros = session.dimensions.zeros()
    queue = session.queues.get(name)
    if queue is None:
        guarantee = deserved = zeros
        limit = np.full(len(zeros), np.inf)
        named = np.zeros(len(zeros), dtype=bool)
    else:
        guarantee, limit = queue.guarantee, queue.capability
        deserved = np.maximum(queue.deserved, guarantee)
        named = _named(session, queue, deserved)
    return QueueBook(
        name,
        guarantee,
        deserved,
        limit,
        named,
        request=zeros,
        allocated=zeros,
        inqueue=zeros,
        elastic=zeros,
        reserved=zeros,
    )


def _share_out(session: Session, tree: QueueTree, books: dict[str, QueueBook]) -> None:
    """Set limits from the root down; the root deserves and guarantees what those directly below it do."""
    root = books[ROOT_QUEUE]
    below = [books[child] for child in tree.children.get(ROOT_QUEUE, ())]
    root.guarantee = _sum(session, (book.guarantee for book in below))
    root.deserved = _sum(session, (book.deserved for book in below))
    root.named = np.any([book.named for book in below], axis=0) if below else root.named
    waiting = [ROOT_QUEUE]
    while waiting:
        parent = books[waiting.pop()]
        children = tree.children.get(parent.name, [])
        guaranteed = _sum(session, (books[child].guarantee for child in children))
        free = np.maximum(parent.limit - guaranteed, 0)
        for child in children:
            books[child].limit = np.minimum(free + books[child].guarantee, books[child].limit)
        waiting += children


def _sum(session: Session, vectors: Iterable[Vector]) -> Vector:
    total = session.dimensions.zeros()
    for vector in vectors:
        total += vector
    return total


def _named(session: Session, queue: Queue, deserved: Vector) -> Positions:
    named: Positions = deserved >= SMALLEST
    names = session.dimensions.names
    for d in range(PODS_INDEX, len(names)):
        named[d] = names[d] in queue.deserves
    return named
