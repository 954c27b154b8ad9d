"""What queues hold beyond what they deserve, and whether they keep what they deserve when tasks are evicted.

For plugins whose quotas are amounts of resources. A queue keeps what it deserves if it and each of its ancestors do;
ancestors that the reclaiming queue shares do not matter, since nothing leaves them.

Which resources matter: those that are requested and lack on the node, or all requested ones, and of these the ones that
the candidate holds. If there are none (a candidate that is in the way for another reason), all resources that it holds.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final, Protocol

import numpy as np

from scheduler.api.node import Column, Mask, Rows
from scheduler.api.resource import PODS_INDEX, SMALLEST, Vector
from scheduler.framework.eviction_candidates import EvictionCandidates
from scheduler.framework.extension import Protection, ReclaimContext

_MOST_BITS: Final = 16
"""The largest number of resources by which nodes are distinguished."""
_NO_LIMIT: Final = 0
"""The column of ``_excess`` that stands for an ancestor that does not exist or does not matter."""


class DeservedBook(Protocol):
    """What a queue holds and deserves, with its descendants."""

    @property
    def name(self) -> str: ...

    @property
    def allocated(self) -> Vector: ...

    @property
    def deserved(self) -> Vector: ...


class DeservedShares:
    """The excesses of the queues of one session: allocated less deserved amounts. They follow the session."""

    def __init__(self, width: int, paths: Mapping[str, Sequence[DeservedBook]], gives: Callable[[str], bool]) -> None:
        """``width``: the number of resources. ``paths``: queue -> its book and those of its ancestors, nearest first,
        without the root. ``gives``: whether any task of a queue may be evicted for another queue; called again for
        queues whose allocated amounts have changed."""
        self._paths = paths
        self._gives = gives
        books = {book.name: book for path in paths.values() for book in path}
        self._books: list[DeservedBook] = list(books.values())
        self._column = {name: i for i, name in enumerate(books, start=1)}
        self._excess: Column = np.full((width, len(books) + 1), np.inf)
        """Shape (resources, books + 1)."""
        self._stale: set[str] = set(books)
        self._holdings: _Holdings | None = None
        self._giving: _Giving | None = None
        self._lacking: _Lacking | None = None
        """What lacks where, of the last context."""
        self._columns: dict[str, tuple[Rows, ...]] = {}
        """Reclaiming queue -> for each height in the hierarchy, the column of the book of each candidate's queue."""

    def changed(self, queue: str) -> None:
        """Reads a queue and its ancestors again. Callers call this when the allocated amounts change."""
        names = [book.name for book in self._paths.get(queue, ())]
        self._stale.update(names)
        if self._giving is not None:
            self._giving.stale.update(names)

    def path(self, queue: str, reclaimer: str) -> list[DeservedBook]:
        """Returns the book of a queue and those of the ancestors that it does not share with the reclaimer."""
        shared = {book.name for book in self._paths.get(reclaimer, ())}
        return [book for book in self._paths[queue] if book.name not in shared]

    # --- one candidate ---
    def keeps(
        self,
        context: ReclaimContext,
        path: Sequence[DeservedBook],
        amount: Vector,
        row: int,
        taken: Mapping[str, Vector],
    ) -> bool:
        """Whether a queue keeps what the context says without an amount that one of its tasks holds on a node.

        ``path``: what ``path`` returns. ``taken``: book -> what the evictions before leave of it.
        """
        matters = _resources(context, amount, row)
        if not path or not matters.any():
            return True
        if context.protection is Protection.ABOVE:
            return bool((_left(path[0], taken) >= path[0].deserved + SMALLEST)[matters].any())
        return all(bool((_left(book, taken) - amount > book.deserved - SMALLEST)[matters].all()) for book in path)

    # --- all candidates ---
    def possible(self, context: ReclaimContext, candidates: EvictionCandidates) -> Mask:
        """Returns ``keeps`` for each candidate as the only one; if the context has a job, only candidates of queues
        that give. Callers must not change the mask."""
        if not len(candidates.tasks):
            return candidates.present
        holdings, reclaimer = self._held(candidates), context.job.queue if context.job is not None else ""
        least = self._least_excess(reclaimer, candidates, alone=context.protection is Protection.ABOVE)
        excess = least[:, holdings.queues]
        where = holdings.everywhere if context.protection is Protection.REQUESTED else self._lacking_of(context)
        matters = where.matters(context.request)
        if context.protection is Protection.ABOVE:
            above = np.logical_or.reduce(matters & (excess >= SMALLEST)[:, :, np.newaxis])
            verdicts: Mask = above | ~np.logical_or.reduce(matters)
        else:
            beyond = holdings.amounts >= excess + SMALLEST
            verdicts = ~np.logical_or.reduce(matters & beyond[:, :, np.newaxis])
        if context.job is not None:
            verdicts &= self._given(candidates).by_queue[holdings.queues, np.newaxis]
        return where.spread(verdicts)

    def giving(self, candidates: EvictionCandidates) -> Mask:
        """Returns the candidates of queues that give. Callers must not change the mask."""
        return self._given(candidates).mask

    def _given(self, candidates: EvictionCandidates) -> "_Giving":
        if self._giving is None:
            self._giving = _Giving(candidates, self._gives, self._column)
        self._giving.follow()
        return self._giving

    def _lacking_of(self, context: ReclaimContext) -> "_Lacking":
        if self._lacking is None or self._lacking.source is not context.lacking:
            assert self._holdings is not None
            self._lacking = _Lacking(context.lacking, self._holdings)
        return self._lacking

    def most(self, context: ReclaimContext, candidates: EvictionCandidates) -> Column:
        """Returns what each queue of the candidates can lose of requested resources where they lack, shape (resources,
        queues)."""
        reclaimer, above = context.job.queue if context.job is not None else "", Protection.ABOVE
        excess = self._least_excess(reclaimer, candidates, alone=context.protection is above)
        if context.protection is not above or context.request is None:
            return excess
        # A queue loses tasks while it is above in some resource, and the last one takes it below.
        lacks = (context.request > 0) & context.lacking.any(axis=1)
        lacks[PODS_INDEX] = False
        exceeds = (excess >= SMALLEST) & lacks[:, np.newaxis]
        only = exceeds.sum(axis=0) == exceeds
        largest = np.zeros_like(excess)
        np.maximum.at(largest.T, self._held(candidates).queues, self._held(candidates).amounts.T)
        return np.where(only, np.where(exceeds, excess - SMALLEST + largest, 0.0), np.inf)

    def _held(self, candidates: EvictionCandidates) -> "_Holdings":
        if self._holdings is None:
            self._holdings = _Holdings(candidates)
        return self._holdings

    def _least_excess(self, reclaimer: str, candidates: EvictionCandidates, *, alone: bool) -> Column:
        """Returns the excess of the queues of candidates, shape (resources, queues): with ``alone``, the queue's own,
        otherwise the least on its path."""
        self._follow()
        columns = self._columns.get(reclaimer)
        if columns is None:
            columns = self._columns[reclaimer] = self._columns_for(reclaimer, candidates.queues)
        if alone or len(columns) == 1:
            return self._excess[:, columns[0]]
        least: Column = np.minimum.reduce([self._excess[:, column] for column in columns])
        return least

    def _columns_for(self, reclaimer: str, queues: Sequence[str]) -> tuple[Rows, ...]:
        paths = [[self._column[b.name] for b in self.path(q, reclaimer)] if q in self._paths else [] for q in queues]
        depth = max(map(len, paths), default=1) or 1
        table = np.full((depth, len(queues)), _NO_LIMIT, dtype=np.intp)
        for i, path in enumerate(paths):
            table[: len(path), i] = path
        return tuple(table)

    def _follow(self) -> None:
        for name in self._stale:
            column = self._column[name]
            book = self._books[column - 1]
            self._excess[:, column] = book.allocated - book.deserved
        self._stale.clear()


class _Holdings:
    """The different amounts that the candidates of each queue hold: few, since many tasks are equal."""

    def __init__(self, candidates: EvictionCandidates) -> None:
        """``candidates``: at least one."""
        self.candidates = candidates
        known: dict[bytes, int] = {}
        requests = [known.setdefault(cls.request.tobytes(), len(known)) for cls in candidates.classes]
        codes = candidates.queue_of * len(known) + np.array(requests, dtype=np.intp)[candidates.class_of]
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        self.of: Rows = inverse
        """The position of each candidate's holding."""
        self.queues: Rows = candidates.queue_of[first]
        self.amounts: Column = candidates.requests[:, first]
        """Shape (resources, holdings)."""

    @cached_property
    def everywhere(self) -> "_Lacking":
        """Nothing lacks on any node."""
        return _Lacking(np.broadcast_to(False, (len(self.amounts), len(self.of))), self)


class _Giving:
    """Which candidates are of queues that give."""

    def __init__(self, candidates: EvictionCandidates, gives: Callable[[str], bool], books: Mapping[str, int]) -> None:
        """``books``: the queues that have a book."""
        self._candidates = candidates
        self._gives = gives
        self._position = {name: i for i, name in enumerate(candidates.queues)}
        self._without_book = {name for name in candidates.queues if name not in books}
        self.stale = set(candidates.queues)
        self.by_queue: Mask = np.zeros(len(candidates.queues), dtype=bool)
        self.mask: Mask = np.zeros(len(candidates.tasks), dtype=bool)

    def follow(self) -> None:
        """Asks again about the queues that have changed, and about those without a book."""
        changed = False
        for name in (*self.stale, *self._without_book):
            position = self._position.get(name)
            if position is not None and self.by_queue[position] != (gives := self._gives(name)):
                self.by_queue[position] = gives
                changed = True
        self.stale.clear()
        if changed:
            self.mask = self.by_queue[self._candidates.queue_of]


class _Lacking:
    """The different sets of resources that lack on nodes."""

    def __init__(self, source: Mask, holdings: _Holdings) -> None:
        """``source``: the resources that lack on each node, shape (resources, nodes); it must not change."""
        self.source = source
        self._sets, of_node = _distinct_columns(source)
        """Shape (resources, sets)."""
        self._held: Mask = holdings.amounts > 0
        self._held[PODS_INDEX] = False
        self._matters: tuple[bytes, Mask] | None = None
        self._at: Rows = holdings.of
        if self._sets.shape[1] > 1:
            self._at = holdings.of * self._sets.shape[1] + of_node[holdings.candidates.rows]
        self._last: tuple[bytes, Mask] = (b"", np.zeros(len(holdings.of), dtype=bool))

    def matters(self, request: Vector | None) -> Mask:
        """Returns the resources that matter for a holding where a set of resources lacks, shape (resources, holdings,
        sets)."""
        key = b"" if request is None else request.tobytes()
        if self._matters is not None and self._matters[0] == key:
            return self._matters[1]
        held = self._held[:, :, np.newaxis]
        requested: Mask = held if request is None else held & (request > 0)[:, np.newaxis, np.newaxis]
        lacking: Mask = requested & self._sets[:, np.newaxis, :]
        some = np.where(np.logical_or.reduce(requested), requested, held)
        matters: Mask = np.where(np.logical_or.reduce(lacking), lacking, some)
        self._matters = (key, matters)
        return matters

    def spread(self, verdicts: Mask) -> Mask:
        """Returns the verdict for each candidate, given those for holdings and sets, shape (holdings, sets)."""
        key = verdicts.tobytes()
        if key != self._last[0]:
            self._last = (key, verdicts.ravel()[self._at])
        return self._last[1]


def _distinct_columns(lacking: Mask) -> tuple[Mask, Rows]:
    """Returns the different columns of a matrix, and for each column its position among them."""
    codes: Rows = np.zeros(lacking.shape[1], dtype=np.intp)
    if lacking.strides[1] == 0:  # one column stands for all
        return lacking[:, :1], codes
    for bit, d in enumerate(np.flatnonzero(lacking.any(axis=1))[:_MOST_BITS].tolist()):
        codes |= lacking[d].astype(np.intp) << bit
    different = np.flatnonzero(np.bincount(codes))
    position = np.zeros(different[-1] + 1, dtype=np.intp)
    position[different] = np.arange(len(different))
    of_node = position[codes]
    examples = np.zeros(len(different), dtype=np.intp)
    examples[of_node] = np.arange(len(codes))
    return lacking[:, examples], of_node


def _resources(context: ReclaimContext, amount: Vector, row: int) -> Mask:
    """Returns the resources that matter for a candidate."""
    held: Mask = amount > 0
    held[PODS_INDEX] = False
    if context.request is None:
        return held
    requested: Mask = held & (context.request > 0)
    if context.protection is not Protection.REQUESTED:
        lacking: Mask = requested & context.lacking[:, row]
        if lacking.any():
            return lacking
    return requested if requested.any() else held


def _left(book: DeservedBook, taken: Mapping[str, Vector]) -> Vector:
    return taken.get(book.name, book.allocated)


def take(taken: dict[str, Vector], books: Sequence[DeservedBook], amount: Vector) -> None:
    """Subtracts an amount from what the evictions so far leave of books."""
    for book in books:
        taken[book.name] = _left(book, taken) - amount
