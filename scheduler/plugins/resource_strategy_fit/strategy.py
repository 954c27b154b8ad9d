"""Spreading or packing, resource by resource: LeastAllocated prefers nodes with much left of it, MostAllocated nodes
with little."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from scheduler.api.names import RESOURCE_STRATEGY_SCORING_TYPE, RESOURCE_STRATEGY_WEIGHT
from scheduler.api.node import Column, Nodes, Rows
from scheduler.api.resource import SMALLEST, Dimensions
from scheduler.api.task import TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import Counts, Scope

LEAST: Final = "LeastAllocated"
MOST: Final = "MostAllocated"
FULL: Final = 100.0
_weights: Final = msgspec.json.Decoder(dict[str, int])


@dataclass(frozen=True, slots=True)
class Strategy:
    """What to do with one resource."""

    type: str
    weight: int


DEFAULT: Final = {"cpu": Strategy(LEAST, 1), "memory": Strategy(LEAST, 1)}


class StrategyError(ValueError):
    """The annotations of a Pod do not say a strategy; field and problem."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(field, problem)
        self.field = f"metadata.annotations[{field}]"
        self.problem = problem


def read_strategies(arguments: Arguments) -> Mapping[str, Strategy]:
    """The argument ``resources``: name, or beginning of names with ``*`` at its end -> type and weight."""
    listed = arguments.nested("resources")
    result = {}
    for name in listed:
        if "*" in name and (name.count("*") > 1 or not name.endswith("*") or name == "*"):
            listed.problems.append(f"argument resources.{name}: one asterisk, at the end of a beginning, is understood")
            continue
        entry = listed.nested(name)
        type_, weight = entry.text("type", LEAST), entry.integer("weight", 1)
        result[name] = Strategy(type_ if type_ in (LEAST, MOST) else LEAST, weight if weight > 0 else 1)
    return result or DEFAULT


def strategies_of(cls: TaskClass, dimensions: Dimensions, configured: Mapping[str, Strategy]) -> dict[int, Strategy]:
    """Position -> strategy, for the resources that a class of Pods asks for and that have one. A Pod's own annotations
    come before the configuration. Raises StrategyError."""
    own = _own(cls)
    result = {}
    for d in np.flatnonzero(cls.request >= SMALLEST).tolist():
        name = dimensions.names[d]
        strategy = _matching(name, configured) if own is None else own.get(name)
        if strategy is not None:
            result[d] = strategy
    return result


def _own(cls: TaskClass) -> dict[str, Strategy] | None:
    type_ = cls.annotations.get(RESOURCE_STRATEGY_SCORING_TYPE)
    if not type_:
        return None
    if type_ not in (LEAST, MOST):
        raise StrategyError(RESOURCE_STRATEGY_SCORING_TYPE, f"neither {LEAST} nor {MOST}: {type_!r:.66}")
    text = cls.annotations.get(RESOURCE_STRATEGY_WEIGHT, "")
    try:
        return {name: Strategy(type_, weight) for name, weight in _weights.decode(text).items()}
    except msgspec.MsgspecError as error:
        raise StrategyError(RESOURCE_STRATEGY_WEIGHT, str(error)) from None


def _matching(name: str, configured: Mapping[str, Strategy]) -> Strategy | None:
    """The strategy of a resource: of its own name, else of the longest beginning."""
    if name in configured:
        return configured[name]
    fitting = [key for key in configured if key.endswith("*") and name.startswith(key[:-1])]
    return configured[max(fitting, key=len)] if fitting else None


class StrategyScore:
    """Sum over resources of weight x the part of it that is left (or taken) with the task there, over the sum of
    weights, x ``scale``; 0 on a node where any of them would not fit."""

    scope = Scope.NODE

    def __init__(self, nodes: Nodes, cls: TaskClass, strategies: Mapping[int, Strategy], scale: float) -> None:
        self._nodes = nodes
        self._request = cls.request
        self._strategies = strategies
        self._scale = scale / (sum(s.weight for s in strategies.values()) or 1)

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        nodes, request = self._nodes, self._request
        total: Column = np.zeros(len(rows))
        fits = np.ones(len(rows), dtype=bool)
        for d, strategy in self._strategies.items():
            if not strategy.weight:
                continue
            capacity = nodes.allocatable[d, rows]
            there = capacity > 0
            taken = nodes.used[d, rows] + (request[d] if ahead is None else request[d] * (ahead + 1))
            fits &= ~there | (taken <= capacity)
            part = taken if strategy.type == MOST else capacity - taken
            total += np.divide(part * strategy.weight, capacity, out=np.zeros(len(rows)), where=there)
        total *= self._scale
        total[~fits] = 0.0
        return total
