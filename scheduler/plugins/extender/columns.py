"""The extender's filter results and scores for the tasks of one class and one job.

The extender is called once for each node, and again for nodes that have changed. The plugin assumes that an answer
depends only on the task and the node.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from scheduler.api.node import ChangedRows, Column, Nodes, Rows
from scheduler.framework.columns import UNBOUNDED, Counts, Scope
from scheduler.plugins.extender.client import UNSCHEDULABLE, NoAnswerError, Predicate

_UNKNOWN: Final = -1
_PASSES: Final = 0
_REJECTED: Final = 1
_REJECTED_RESOLVABLE: Final = 2
"""Rejected, but evictions may resolve it."""
CallPredicate = Callable[[Sequence[int]], Sequence[Predicate | NoAnswerError]]
"""Calls the extender for nodes, by row."""
CallScores = Callable[[Sequence[int]], Mapping[str, float] | None]
"""Calls the extender for the scores of nodes. Returns node name -> score, or None without an answer."""


class CachedResults:
    """Cached filter results of nodes; a result is valid until its node changes."""

    def __init__(self, nodes: Nodes, call: CallPredicate, *, ignorable: bool) -> None:
        """``ignorable``: whether a node without an answer passes."""
        self._call = call
        self._ignorable = ignorable
        self._changed_rows = ChangedRows(nodes)
        self._codes = np.full(len(nodes), _UNKNOWN)
        self.reasons: dict[int, str] = {}
        """Row -> why the node is rejected."""

    def of(self, rows: Rows) -> Counts:
        """The result for each row, as a code."""
        self._codes[self._changed_rows.take()] = _UNKNOWN
        unknown = rows[self._codes[rows] == _UNKNOWN].tolist()
        if unknown:
            for row, answer in zip(unknown, self._call(unknown), strict=True):
                self._codes[row], self.reasons[row] = self._read(answer)
        results: Counts = self._codes[rows]
        return results

    def _read(self, answer: Predicate | NoAnswerError) -> tuple[int, str]:
        if isinstance(answer, NoAnswerError):
            return (_PASSES if self._ignorable else _REJECTED), str(answer)
        if not answer.status:
            return _PASSES, ""
        return (_REJECTED_RESOLVABLE if answer.code == UNSCHEDULABLE else _REJECTED), answer.status


class PredicateFilter:
    """Rejects nodes with one kind of result: resolvable by evictions or not. It has scope CLUSTER, so that the extender
    is called only for nodes that pass all other filters, and each answer is used for one task."""

    scope = Scope.CLUSTER
    costly = True

    def __init__(self, results: CachedResults, *, unresolvable: bool) -> None:
        self._results = results
        self._code = _REJECTED if unresolvable else _REJECTED_RESOLVABLE
        self.unresolvable = unresolvable

    def room(self, rows: Rows) -> Counts:
        return np.where(self._results.of(rows) == self._code, 0, UNBOUNDED)

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return Counter(self._results.reasons[row] for row in rows.tolist()).items()


class SequentialFilter:
    """Rejects no node. It has scope CLUSTER, so that tasks are placed one at a time and the extender can reject
    each."""

    scope = Scope.CLUSTER
    unresolvable = False

    def room(self, rows: Rows) -> Counts:
        return np.full(len(rows), UNBOUNDED)

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return ()


class ExtenderScore:
    """The scores of the extender; 0 for nodes that it does not score."""

    scope = Scope.CLUSTER

    def __init__(self, nodes: Nodes, call: CallScores) -> None:
        self._names = nodes.names
        self._call = call
        self._changed_rows = ChangedRows(nodes)
        self._scores = np.full(len(nodes), np.nan)

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        self._scores[self._changed_rows.take()] = np.nan
        unknown = rows[np.isnan(self._scores[rows])].tolist()
        if unknown:
            answer = self._call(unknown)
            if answer is None:
                return np.zeros(len(rows))
            for row in unknown:
                score = answer.get(self._names[row], 0.0)
                self._scores[row] = score if math.isfinite(score) else 0.0
        scores: Column = self._scores[rows]
        return scores
