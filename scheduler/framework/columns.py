"""What plugins say about nodes: Filters (may a task of this class run there, and how many) and Scores (how good is it).

Both answer for many nodes at once. Their scope says how long an answer holds, which is what lets ClassView place whole
runs of equal tasks without asking again:

* STATIC   nothing a session does changes it
* NODE     it depends on the node's own state only: placing a task changes the answer for that node alone
* CLUSTER  it depends on other nodes or on the set of candidates: any placement may change any node's answer

Most conditions of scope CLUSTER know few nodes apart (those of one zone, those with two such Pods): they are Grouped,
and a run asks them about one node of each group.
"""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from scheduler.api.node import Codes, Column, Rows
from scheduler.api.reasons import Shortage

Counts = NDArray[np.int64]
UNBOUNDED = 2**31
GRAIN = 2.0**-16
"""Scores that depend on one node are compared in steps of this, so that ties do not hang on how sums are rounded."""


class Scope(Enum):
    STATIC = 0
    NODE = 1
    CLUSTER = 2


class Filter(Protocol):
    """One condition on nodes, for the tasks of one class."""

    scope: Scope
    unresolvable: bool
    """Evicting Pods cannot help (UnschedulableAndUnresolvable)."""

    def room(self, rows: Rows) -> Counts:
        """How many more tasks of the class each node takes by this condition: 0 refuses, UNBOUNDED sets no limit. With
        scope STATIC nothing else; with scope CLUSTER any number but 0 says: one more for now."""

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        """Why the nodes given are refused: (text, number of nodes). Called only for nodes whose room is 0."""


@runtime_checkable
class FutureFilter(Protocol):
    """What a Filter may say besides: its answer changes when terminating tasks are gone."""

    def future_room(self, rows: Rows) -> Counts:
        """``room``, as it will be once the tasks that are terminating have left the nodes."""


@runtime_checkable
class MeasuringFilter(Protocol):
    """What a Filter may say besides: the amounts of which there was not enough."""

    def shortages(self, rows: Rows) -> Iterable[Shortage]:
        """What the best of the nodes given, which are refused, has too little of."""


class Score(Protocol):
    """One ranking of nodes, for the tasks of one class; higher is better."""

    scope: Scope

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        """The score of each node given. With scope NODE: as it would be if ``ahead`` more tasks of the class were there
        already (None: none). With scope CLUSTER: ``rows`` is the whole set of candidates."""


@runtime_checkable
class Grouped(Protocol):
    """What a Filter or Score of scope CLUSTER may say besides: which nodes are alike to it."""

    moves: bool
    """Whether a placement changes the traits of its node. It never changes those of others."""

    def traits(self, rows: Rows) -> Sequence[Column]:
        """Columns of whole numbers. Nodes that have the same numbers get the same answer, whatever is placed where."""

    def place(self, row: int, number: int) -> None:
        """Answer as if ``number`` more tasks of the class were on the node (negative: fewer). The
        caller undoes it before any other question is asked."""


@runtime_checkable
class AmountFilter(Protocol):
    """What a Filter may say besides: it compares an amount with what the node has, and more of that lets it pass."""

    amount: str
    """The name of the resource."""


@runtime_checkable
class Costly(Protocol):
    """What a Filter of scope CLUSTER may say besides: its answers cost much. It is asked last, of the best nodes first,
    and of no more than it takes to find one that passes, unless scores hang on which nodes do."""

    costly: bool


@runtime_checkable
class GroupedFilter(Filter, Grouped, Protocol):
    """A Filter that is Grouped."""


@runtime_checkable
class GroupedScore(Grouped, Protocol):
    """A Score that is Grouped."""

    def of_groups(self, rows: Rows, sizes: Counts) -> Column:
        """``values``, where each of the rows stands for so many candidates that are alike."""


class MaskFilter:
    """A STATIC filter from a column of booleans of shape (nodes,)."""

    scope = Scope.STATIC

    def __init__(self, passes: NDArray[np.bool_], reason: str, unresolvable: bool = True) -> None:
        self._passes = passes
        self._reason = reason
        self.unresolvable = unresolvable

    def room(self, rows: Rows) -> Counts:
        room: Counts = self._passes.take(rows) * np.int64(UNBOUNDED)
        return room

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return ((self._reason, len(rows)),)


class Nowhere:
    """A STATIC filter that no node passes, because of the Pods themselves: no other reason is reported."""

    scope = Scope.STATIC
    unresolvable = True

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def room(self, rows: Rows) -> Counts:
        return np.zeros(len(rows), dtype=np.int64)

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return ((self._reason, len(rows)),)


class CodedFilter:
    """A STATIC filter from a column of codes, shape (nodes,): the place in ``reasons`` of why a node is refused; -1: it
    passes."""

    scope = Scope.STATIC

    def __init__(self, codes: Codes, reasons: Sequence[str], unresolvable: bool = True) -> None:
        self._codes = codes
        self._reasons = reasons
        self.unresolvable = unresolvable

    def room(self, rows: Rows) -> Counts:
        return np.where(self._codes[rows] < 0, UNBOUNDED, 0)

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        numbers = np.bincount(self._codes[rows], minlength=len(self._reasons)).tolist()
        return [(reason, number) for reason, number in zip(self._reasons, numbers, strict=True) if number]


class StaticScore:
    """A STATIC score from a column of shape (nodes,)."""

    scope = Scope.STATIC

    def __init__(self, column: Column) -> None:
        self._column = column

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        return self._column[rows]
