"""binpack: fill nodes that are already in use before touching empty ones (Volcano's binpack plugin).

score = sum over requested resources of weight x (requested + used) / allocatable, over the sum of weights, x 100 x
``binpack.weight``; 0 on a node where any weighted request would not fit.
"""

from typing import ClassVar

import numpy as np

from scheduler.api.job import Job
from scheduler.api.names import CPU, MEMORY
from scheduler.api.node import Column, Nodes, Rows
from scheduler.api.task import TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import Counts, Scope, Score
from scheduler.framework.extension import NODE_ORDER
from scheduler.framework.registry import register_plugin
from scheduler.framework.session import Session

FULL = 100.0


@register_plugin
class Binpack:
    """Arguments: ``binpack.weight``, ``binpack.cpu``, ``binpack.memory`` (1 each), ``binpack.resources`` ("a, b") and
    ``binpack.resources.<name>`` (1). A negative resource weight counts as 1; ``binpack.weight`` 0 switches off."""

    name: ClassVar[str] = "binpack"

    def __init__(self, arguments: Arguments) -> None:
        self._weight = arguments.integer("binpack.weight", 1)
        self._weights = {
            CPU: _positive(arguments.integer("binpack.cpu", 1)),
            MEMORY: _positive(arguments.integer("binpack.memory", 1)),
        }
        for name in arguments.text("binpack.resources", "").split(","):
            if name.strip():
                self._weights[name.strip()] = _positive(arguments.integer(f"binpack.resources.{name.strip()}", 1))

    def open(self, session: Session) -> None:
        self._session = session
        if self._weight:
            session.add(NODE_ORDER, self._scores)

    def _scores(self, cls: TaskClass, job: Job) -> list[Score]:
        weights = {}
        for name, weight in self._weights.items():
            d = self._session.dimensions.find(name)
            if d is not None and cls.request[d] > 0:
                weights[d] = float(weight)
        total = sum(weights.values())
        return [BinpackScore(self._session.nodes, cls, weights, FULL * self._weight / total)] if total else []


class BinpackScore:
    """The score for one class of tasks."""

    scope = Scope.NODE

    def __init__(self, nodes: Nodes, cls: TaskClass, weights: dict[int, float], scale: float) -> None:
        self._nodes = nodes
        self._cls = cls
        self._weights = weights
        self._scale = scale

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        nodes, request = self._nodes, self._cls.request
        total: Column = np.zeros(len(rows))
        fits = np.ones(len(rows), dtype=bool)
        for d, weight in self._weights.items():
            wanted = nodes.used[d, rows] + (request[d] if ahead is None else request[d] * (ahead + 1))
            allocatable = nodes.allocatable[d, rows]
            there = allocatable > 0
            if weight:
                fits &= ~there | (wanted <= allocatable)
                total += np.divide(wanted * weight, allocatable, out=np.zeros(len(rows)), where=there)
        total *= self._scale
        total[~fits] = 0.0
        return total


def _positive(weight: int) -> int:
    return weight if weight >= 0 else 1
