"""Filters (how many tasks of a class may run on a node) and Scores (how good a node is for them).

Both are computed for many nodes at once. Their scope says when a value changes, so that ClassView can place runs of
equal tasks without computing all values again:

* STATIC   constant in a session
* NODE     depends on the state of the node: a placement changes the value of its own node only
* CLUSTER  depends on other nodes or on the set of candidates: a placement may change the values of all nodes

Most filters and scores of scope CLUSTER distinguish few kinds of nodes (the nodes of a zone, the nodes with two such
Pods). They are Grouped: a run computes their value for one node of each group.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from enum import Enum
from typing import Any, NoReturn, Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from scheduler.api.node import Codes, Column, Rows
from scheduler.api.reasons import Shortage

Counts = NDArray[np.int64]
UNBOUNDED = 2**31
ColumnFailure = Callable[..., NoReturn]
"""fail(column, method, error, row=None): raises an exception of a method of a Filter or Score, or of the use of its
answer, with the name of its plugin. ``row``: the only node in question; None: there are several."""
GRAIN = 2.0**-16
"""Scores that depend on one node are rounded to multiples of this, so that rounding errors of sums do not decide
ties."""


class Scope(Enum):
    STATIC = 0
    NODE = 1
    CLUSTER = 2


class PinUse(Enum):
    """How the Filters that a function returns depend on the node to which a class is pinned
    (``TaskClass.pinned_to``)."""

    ASKED = "asked"
    """They may depend on it in any way, so the function is called for each class."""
    IGNORED = "ignored"
    """They do not depend on it: on that node, the Filters for the class without its node refuse whatever those for the
    class refuse."""
    REQUIRED = "required"
    """They refuse all other nodes. On the pinned node, the same holds as for IGNORED."""


class Filter(Protocol):
    """A condition on nodes for the tasks of one class."""

    scope: Scope
    unresolvable: bool
    """Whether evictions cannot help (UnschedulableAndUnresolvable)."""

    def room(self, rows: Rows) -> Counts:
        """Returns how many more tasks of the class each node takes: 0 refuses the node, UNBOUNDED sets no limit.
        Filters of scope STATIC return only these two. With scope CLUSTER, any other number means one task for now."""

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        """Returns (reason, number of nodes) for nodes that are refused. It is called only with nodes whose room is
        0."""


@runtime_checkable
class FutureFilter(Protocol):
    """Optional methods of a Filter whose answer changes when terminating tasks have exited."""

    def future_room(self, rows: Rows) -> Counts:
        """Returns ``room`` as it will be when terminating tasks have left the nodes."""


@runtime_checkable
class MeasuringFilter(Protocol):
    """Optional methods of a Filter that reports shortages of amounts."""

    def shortages(self, rows: Rows) -> Iterable[Shortage]:
        """Returns the shortages on the best of these nodes, which are all refused."""


@runtime_checkable
class PerDeviceFilter(Protocol):
    """Optional methods of a Filter that a task passes only if one device of a node has room: an NPU that is divided,
    or a group of NPUs that communicate. Evictions are tried device by device."""

    def device_of(self, row: int, uid: str) -> int:
        """Returns a number of the device that a task on a node holds or has a part of; -1 if it has none."""


def devices_of(filters: Iterable[Filter]) -> Callable[[int, str], tuple[int, ...]] | None:
    """Returns a function of the row of a node and the uid of a task there, which returns the devices of the task by all
    filters that have devices; None if none has."""
    found = [each.device_of for each in filters if isinstance(each, PerDeviceFilter)]
    return (lambda row, uid: tuple(device_of(row, uid) for device_of in found)) if found else None


class Score(Protocol):
    """A ranking of nodes for the tasks of one class; higher is better."""

    scope: Scope

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        """Returns the score of each node. A Score of scope NODE computes it as if ``ahead`` more tasks of the class
        were there (None: none). With scope CLUSTER, ``rows`` are all candidates."""


@runtime_checkable
class Grouped(Protocol):
    """Optional methods of a Filter or Score of scope CLUSTER that gives the same answer for groups of nodes."""

    moves: bool
    """Whether a placement changes the traits of its node. It never changes those of other nodes."""

    def traits(self, rows: Rows) -> Sequence[Column]:
        """Returns columns of whole numbers. Nodes with equal numbers get equal answers, whatever has been placed."""

    def place(self, row: int, number: int) -> None:
        """Changes later answers as if the node held ``number`` more tasks of the class (negative: fewer). The caller
        undoes this before the session continues."""


@runtime_checkable
class AmountFilter(Protocol):
    """Optional attribute of a Filter that compares an amount with what the node has, so that more of the resource lets
    the node pass."""

    amount: str
    """The name of the resource."""


@runtime_checkable
class Identified(Protocol):
    """Optional attribute of a Filter or Score. Those of a session with equal identities give equal answers:
    classes that request the same and whose filters and scores have equal identities share one view."""

    identity: Hashable


@runtime_checkable
class Costly(Protocol):
    """Optional attribute of a Filter of scope CLUSTER whose answers are expensive. It is applied last, to the best
    nodes first, and only until one passes, unless the scores depend on which nodes pass."""

    costly: bool


@runtime_checkable
class GroupedFilter(Filter, Grouped, Protocol):
    """A Filter that is Grouped."""


@runtime_checkable
class GroupedScore(Grouped, Protocol):
    """A Score that is Grouped."""

    def of_groups(self, rows: Rows, sizes: Counts) -> Column:
        """Returns ``values`` for one node of each group; ``sizes`` are the numbers of candidates in the groups."""


# These look up attributes: isinstance takes as long for a protocol as some columns.
def is_grouped_filter(it: Filter) -> TypeGuard[GroupedFilter]:
    """Whether a Filter is a GroupedFilter."""
    return hasattr(it, "traits") and hasattr(it, "place") and hasattr(it, "moves")


def is_grouped_score(it: Score) -> TypeGuard[GroupedScore]:
    """Whether a Score is a GroupedScore."""
    return hasattr(it, "of_groups") and hasattr(it, "traits") and hasattr(it, "place") and hasattr(it, "moves")


def is_costly(it: Filter) -> bool:
    """Returns whether a Filter is Costly."""
    return hasattr(it, "costly")


class ColumnAnswer:
    """A Filter or Score from a column of shape (nodes,). A session refuses columns of another shape."""

    column: NDArray[Any]


class MaskFilter(ColumnAnswer):
    """A STATIC filter from a column of booleans of shape (nodes,)."""

    scope = Scope.STATIC

    def __init__(self, passes: NDArray[np.bool_], reason: str, unresolvable: bool = True) -> None:
        if getattr(passes, "dtype", None) != np.bool_ or not isinstance(reason, str):
            raise TypeError(
                f"MaskFilter takes a column of booleans and a reason, not {passes!r:.66} and {reason!r:.66}"
            )
        self.column = passes
        self._reason = reason
        self.unresolvable = unresolvable

    @property
    def identity(self) -> Hashable:
        return (type(self), self._reason, self.unresolvable, np.packbits(self.column).tobytes())

    def room(self, rows: Rows) -> Counts:
        room: Counts = self.column.take(rows) * np.int64(UNBOUNDED)
        return room

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return ((self._reason, len(rows)),)


class RefusingFilter:
    """A STATIC filter that refuses all nodes because of the Pods themselves. No other reason is reported."""

    scope = Scope.STATIC
    unresolvable = True

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def room(self, rows: Rows) -> Counts:
        return np.zeros(len(rows), dtype=np.int64)

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return ((self._reason, len(rows)),)


class CodedFilter(ColumnAnswer):
    """A STATIC filter from a column of codes, shape (nodes,). A code is the index in ``reasons`` of why the node is
    refused; -1: the node passes."""

    scope = Scope.STATIC

    def __init__(self, codes: Codes, reasons: Sequence[str], unresolvable: bool = True) -> None:
        self.column = codes
        self._reasons = reasons
        self.unresolvable = unresolvable

    @property
    def identity(self) -> Hashable:
        return (type(self), *self._reasons, self.unresolvable, self.column.tobytes())

    def room(self, rows: Rows) -> Counts:
        return np.where(self.column[rows] < 0, UNBOUNDED, 0)

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        numbers = np.bincount(self.column[rows], minlength=len(self._reasons)).tolist()
        return [(reason, number) for reason, number in zip(self._reasons, numbers, strict=True) if number]


class StaticScore(ColumnAnswer):
    """A STATIC score from a column of shape (nodes,)."""

    scope = Scope.STATIC

    def __init__(self, column: Column) -> None:
        self.column = column

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        values: Column = self.column[rows]
        return values
