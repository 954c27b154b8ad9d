"""Why nodes refuse the tasks of one class: the number of nodes for each reason, and the nodes where evictions do not
help."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from scheduler.api.node import Mask, Nodes, Rows
from scheduler.api.reasons import FitErrors, Shortage
from scheduler.api.resource import Vector
from scheduler.framework.columns import ColumnFailure, Filter, MeasuringFilter, RefusingFilter, Scope


class Refusals:
    """The refusals of nodes by amounts and filters."""

    def __init__(
        self, nodes: Nodes, request: Vector, dims: Sequence[int], filters: Sequence[Filter], fail: ColumnFailure
    ) -> None:
        """``dims``: the resources that are compared. ``fail``: raises exceptions of filters."""
        self._nodes = nodes
        self._request = request
        self._dims = dims
        self._filters = filters
        self._fail = fail

    def fit_errors(self, names: Sequence[str], rows: Rows) -> FitErrors:
        """Returns why none of the rows takes a task now. ``names``: resource names. The shortage of a reason is that of
        the nodes which the reason counts."""
        errors = FitErrors(len(rows))
        refusing = next((condition for condition in self._filters if isinstance(condition, RefusingFilter)), None)
        if refusing is not None:
            errors.reasons.update(dict(refusing.reasons(rows)))
            return errors
        future = self._nodes.future_idle()
        for d in self._dims:
            short = future[d, rows] < self._request[d]
            number = int(short.sum())
            if number:
                errors.reasons[f"Insufficient {names[d]}"] += number
                most = float(future[d, rows[short]].max())
                errors.shortages.append(Shortage(names[d], float(self._request[d]), 0.0, most, "Node"))
                rows = rows[~short]
        method = "room"
        try:
            for condition in self._filters:
                method = "room"
                refused = rows[condition.room(rows) < 1]
                if len(refused):
                    method = "reasons"
                    for reason, number in condition.reasons(refused):
                        errors.reasons[reason] += number
                    if isinstance(condition, MeasuringFilter):
                        method = "shortages"
                        errors.shortages += condition.shortages(refused)
                    if condition.unresolvable:  # one reason is enough for such a node
                        rows = np.setdiff1d(rows, refused, assume_unique=True)
        except Exception as error:  # the code of others may raise anything
            self._fail(condition, method, error)
        return errors

    def unresolvable(self) -> Mask:
        """Returns a mask of shape (nodes,): nodes on which evictions cannot help."""
        every = np.arange(len(self._nodes))
        result: Mask = self._closed.copy()
        try:
            for condition in self._filters:
                if condition.unresolvable and condition.scope is not Scope.STATIC:
                    rest = every[~result]
                    result[rest] = condition.room(rest) < 1
        except Exception as error:  # the code of others may raise anything
            self._fail(condition, "room", error)
        return result

    @cached_property
    def _closed(self) -> Mask:
        """Returns a mask of shape (nodes,): nodes that are unresolvable for the whole session."""
        every = np.arange(len(self._nodes))
        closed = np.zeros(len(every), dtype=bool)
        try:
            for condition in self._filters:
                if condition.unresolvable and condition.scope is Scope.STATIC:
                    closed |= condition.room(every) < 1
        except Exception as error:  # the code of others may raise anything
            self._fail(condition, "room", error)
        return closed
