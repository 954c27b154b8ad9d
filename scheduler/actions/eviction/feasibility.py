"""An upper bound, computed for all nodes at once, of the nodes on which evictions could make room for a task.

A node outside of the bound cannot be opened; a node inside has to be tried. The candidates change little from one task
to the next, so only the changes are counted.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.node import ChangedRows, Column, Mask, Rows
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, PODS_INDEX, Vector
from scheduler.api.task import Task
from scheduler.framework.combining import Function
from scheduler.framework.extension import ExtensionPoint
from scheduler.framework.session import Session

KEPT = 16
"""Different requests whose shortfalls are kept; each takes some columns of all nodes."""
_FEW: Final = 4
"""Candidates that are counted one by one, which takes less time than counting as many at once."""


def compared_resources(request: Vector) -> NDArray[np.intp]:
    """Returns the indices of the resources in which a request is compared with a node: the requested ones, and always
    cpu and memory (a node whose idle amount of these is negative admits no task, as in ``ClassView``)."""
    matters = request > 0
    matters[[CPU_INDEX, MEMORY_INDEX]] = True
    return np.flatnonzero(matters)


class Shortfall:
    """The amounts that each node lacks for a request once terminating tasks end. They follow the changes of the
    session."""

    def __init__(self, session: Session, request: Vector) -> None:
        self._nodes = session.nodes
        self.request = request
        self.dims = compared_resources(request)
        """Indices of the compared resources."""
        self._amounts: Column = self._lacking_at(np.arange(len(self._nodes)))
        """Shape (compared resources, nodes)."""
        self._nothing: Mask = np.logical_and.reduce(self._amounts <= 0)
        self._lacks: Mask | None = None
        self._changed_rows = ChangedRows(self._nodes)

    def _lacking_at(self, rows: Rows) -> Column:
        nodes, at = self._nodes, (self.dims[:, np.newaxis], rows)
        lacking: Column = self.request[self.dims, np.newaxis] - (
            nodes.idle[at] + nodes.releasing[at] - nodes.pipelined[at]
        )
        return lacking

    def _follow(self) -> None:
        """Updates the rows that the session changed since the last call."""
        changed = self._changed_rows.take()
        if not changed:
            return
        rows = np.array(list(set(changed)), dtype=np.intp)
        self._amounts[:, rows] = lacking = self._lacking_at(rows)
        self._nothing[rows] = np.logical_and.reduce(lacking <= 0)
        if self._lacks is not None:
            at, lacks = (self.dims[:, np.newaxis], rows), lacking > 0
            if (self._lacks[at] != lacks).any():
                self._lacks = self._lacks.copy()
                self._lacks[at] = lacks

    def covered_by(self, amounts: Column) -> Mask:
        """Returns the nodes, shape (nodes,), that have enough with additional amounts, shape (resources, nodes)."""
        self._follow()
        enough: Mask = np.ones(len(self._nodes), dtype=bool)
        for d, lacking in zip(self.dims.tolist(), self._amounts, strict=True):
            enough &= lacking <= amounts[d]
        return enough

    def lacking(self) -> Mask:
        """Returns the resources that each node lacks, shape (resources, nodes). Unlike the other answers, it stays as
        it is: the same array is returned until a node lacks others. Callers must not change it."""
        self._follow()
        if self._lacks is None:
            self._lacks = np.zeros((len(self.request), len(self._nodes)), dtype=bool)
            self._lacks[self.dims] = self._amounts > 0
        return self._lacks

    def amounts(self) -> Iterator[tuple[int, Column]]:
        """Yields the compared resources, and how much each node lacks of it; 0 or less: nothing. Callers must not
        change the columns; they are valid until the next call."""
        self._follow()
        return zip(self.dims.tolist(), self._amounts, strict=True)

    def none(self) -> Mask:
        """Returns the nodes, shape (nodes,), that lack nothing. Callers must not change the mask; it is valid until the
        next call."""
        self._follow()
        return self._nothing


class Shortfalls:
    """The shortfalls of a session. Classes with equal requests share one."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._kept: dict[bytes, Shortfall] = {}

    def of(self, request: Vector) -> Shortfall:
        key = request.tobytes()
        shortfall = self._kept.get(key)
        if shortfall is None:
            if len(self._kept) >= KEPT:
                del self._kept[next(iter(self._kept))]
            shortfall = self._kept[key] = Shortfall(self._session, request)
        return shortfall


def freed_amounts(session: Session, evicted: Mask, dims: NDArray[np.intp]) -> Column:
    """Returns what evicting all candidates of a mask frees on each node; shape (len(dims), nodes)."""
    result: Column = FreedAmounts(session).of(evicted)[dims]
    return result


class FreedAmounts:
    """The amounts that evicting some of the candidates frees on each node, updated incrementally."""

    def __init__(self, session: Session) -> None:
        self._candidates = candidates = session.eviction_candidates
        self._evicted: Mask = np.zeros(len(candidates.tasks), dtype=bool)
        self._dims: list[int] = np.flatnonzero(candidates.requests.any(axis=1)).tolist()
        self._amounts: Column = np.zeros((len(candidates.requests), len(session.nodes)))

    def of(self, evicted: Mask) -> Column:
        """Returns what evicting all candidates of a mask frees; shape (resources, nodes). The array is read-only and
        valid until the next call."""
        changed = np.flatnonzero(evicted != self._evicted)
        if 0 < len(changed) <= _FEW:
            for i in changed.tolist():
                freed = self._candidates.requests[:, i]
                self._amounts[:, self._candidates.rows[i]] += freed if evicted[i] else -freed
            self._evicted[changed] = evicted[changed]
        elif len(changed):
            rows, signs = self._candidates.rows[changed], np.where(evicted[changed], 1.0, -1.0)
            for d in self._dims:  # whole numbers: adding and subtracting is exact
                np.add.at(self._amounts[d], rows, signs * self._candidates.requests[d, changed])
            self._evicted = evicted.copy()
        return self._amounts


class EvictionFeasibility:
    """The nodes that evictions approved at one extension point could open for a task."""

    def __init__(self, session: Session, point: ExtensionPoint) -> None:
        self._session = session
        self._point = point

    @cached_property
    def _tiers(self) -> "list[_Tier]":
        """Built on first use: often no candidate is in scope."""
        session, point = self._session, self._point
        return [_Tier(session, point, functions) for functions in session.functions(point) if functions]

    def nodes_for(self, preemptor: Task, shortfall: Shortfall, scope: Mask) -> Mask:
        """Returns the nodes, shape (nodes,), whose shortfall is covered if all candidates of ``scope`` are evicted that
        some tier of victim functions may approve."""
        result: Mask = np.zeros(len(self._session.nodes), dtype=bool)
        if scope.any():
            for tier in self._tiers:
                reached, amounts = tier.freed_amounts(preemptor, scope)
                result |= reached & shortfall.covered_by(amounts)
        return result


class _Tier:
    """The victim functions of one tier."""

    def __init__(self, session: Session, point: ExtensionPoint, functions: Sequence[Function]) -> None:
        self._session = session
        self._point = point
        # From its third function on, a tier may restart with the list of one function if the lists before it have no
        # victim in common (``PluginFunctions``). Then each function bounds the victims on its own.
        together = [functions] if len(functions) < 3 else [[function] for function in functions]
        self._groups = [(group, FreedAmounts(session)) for group in together]

    def freed_amounts(self, preemptor: Task, scope: Mask) -> tuple[Mask, Column]:
        """Returns the nodes where the tier may approve victims, and the amounts that evicting all of them frees."""
        reached: Mask = np.ones(len(self._session.nodes), dtype=bool)
        for group, freed in self._groups:
            evicted = scope
            for function in group:
                evicted = self._session.bounded(evicted, self._point, function, preemptor)
            amounts = freed.of(evicted)
            reached &= amounts[PODS_INDEX] > 0
        return reached, amounts
