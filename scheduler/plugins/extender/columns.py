"""What the extender says of nodes, for the tasks of one class and one job: asked once of each node, and again of those
on which something has changed since. Its answers are taken to hang on the task and the one node, on nothing else.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from scheduler.api.node import Column, Nodes, Rows
from scheduler.framework.columns import UNBOUNDED, Counts, Scope
from scheduler.plugins.extender.answers import UNSCHEDULABLE, Predicate
from scheduler.plugins.extender.client import NoAnswerError

_UNASKED: Final = -1
_PASSES: Final = 0
_REFUSED: Final = 1
_REFUSED_FOR_NOW: Final = 2
"""Evictions may help."""
AskPredicate = Callable[[Sequence[int]], Sequence[Predicate | NoAnswerError]]
"""The answers about nodes."""
AskScores = Callable[[Sequence[int]], Mapping[str, float] | None]
"""How good nodes are among each other, by name; None: there is no answer."""


class _Changes:
    """Which rows have changed since it was last asked."""

    def __init__(self, nodes: Nodes) -> None:
        self._log = nodes.log
        self._seen = len(nodes.log)

    def take(self) -> list[int]:
        fresh = self._log[self._seen :]
        self._seen = len(self._log)
        return [row for row, _, _ in fresh]


class Verdicts:
    """Whether nodes may be used, kept while nothing changes there."""

    def __init__(self, nodes: Nodes, ask: AskPredicate, *, ignorable: bool) -> None:
        """``ignorable``: a node passes of which there is no answer."""
        self._ask = ask
        self._ignorable = ignorable
        self._changes = _Changes(nodes)
        self._codes = np.full(len(nodes), _UNASKED)
        self.reasons: dict[int, str] = {}
        """Row -> why it is refused."""

    def of(self, rows: Rows) -> Counts:
        """The verdict on each row."""
        self._codes[self._changes.take()] = _UNASKED
        unasked = rows[self._codes[rows] == _UNASKED].tolist()
        if unasked:
            for row, answer in zip(unasked, self._ask(unasked), strict=True):
                self._codes[row], self.reasons[row] = self._read(answer)
        verdicts: Counts = self._codes[rows]
        return verdicts

    def _read(self, answer: Predicate | NoAnswerError) -> tuple[int, str]:
        if isinstance(answer, NoAnswerError):
            return (_PASSES if self._ignorable else _REFUSED), str(answer)
        if not answer.status:
            return _PASSES, ""
        return (_REFUSED_FOR_NOW if answer.code == UNSCHEDULABLE else _REFUSED), answer.status


class VerdictFilter:
    """The refusals of one kind. Of scope CLUSTER, so that only nodes are asked about that all else lets pass, and an
    answer is good for one task."""

    scope = Scope.CLUSTER
    costly = True

    def __init__(self, verdicts: Verdicts, *, unresolvable: bool) -> None:
        self._verdicts = verdicts
        self._code = _REFUSED if unresolvable else _REFUSED_FOR_NOW
        self.unresolvable = unresolvable

    def room(self, rows: Rows) -> Counts:
        return np.where(self._verdicts.of(rows) == self._code, 0, UNBOUNDED)

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return Counter(self._verdicts.reasons[row] for row in rows.tolist()).items()


class OneByOne:
    """Has tasks placed one at a time, because each placement is submitted to the extender."""

    scope = Scope.CLUSTER
    unresolvable = False

    def room(self, rows: Rows) -> Counts:
        return np.full(len(rows), UNBOUNDED)

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return ()


class ExtenderScore:
    """How good it finds nodes; 0 where it does not say."""

    scope = Scope.CLUSTER

    def __init__(self, nodes: Nodes, ask: AskScores) -> None:
        self._names = nodes.names
        self._ask = ask
        self._changes = _Changes(nodes)
        self._scores = np.full(len(nodes), np.nan)

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        self._scores[self._changes.take()] = np.nan
        unasked = rows[np.isnan(self._scores[rows])].tolist()
        if unasked:
            told = self._ask(unasked)
            if told is None:
                return np.zeros(len(rows))
            for row in unasked:
                score = told.get(self._names[row], 0.0)
                self._scores[row] = score if math.isfinite(score) else 0.0
        scores: Column = self._scores[rows]
        return scores
