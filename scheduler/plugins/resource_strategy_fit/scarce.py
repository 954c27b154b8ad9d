"""Scarce resources: Pods that do not request them prefer nodes without them (sra), and leave cpu and memory for Pods
that do (proportional)."""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from scheduler.api.node import Column, Nodes, Rows
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, SMALLEST, Dimensions
from scheduler.api.task import TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import UNBOUNDED, Counts, Scope
from scheduler.plugins.resource_strategy_fit.strategy import FULL

_MEMORY_UNIT: Final = 1e6
"""Bytes per thousandth of a card at the proportion 1, which is 1 GB of memory per card."""


class ScarceResourceScore:
    """Argument ``sra``: ``enable`` (false), ``resources`` ("a, b"), ``weight`` (0), ``resourceWeight`` (1 each)."""

    def __init__(self, arguments: Arguments) -> None:
        weights = arguments.nested("resourceWeight")
        weight = arguments.integer("weight", 0, least=0)
        self.weight = weight if arguments.boolean("enable", False) else 0
        self._weights = {name: weights.integer(name, 1, least=0) for name in arguments.names("resources")}

    def column(self, nodes: Nodes, dimensions: Dimensions, cls: TaskClass) -> Column:
        """Shape (nodes,): the weighted part of the scarce resources that a node does not have, x 100 x weight; 0 if the
        node lacks a requested resource."""
        total = sum(self._weights.values())
        score: Column = np.full(len(nodes), 1.0 if total else 0.0)
        for name, weight in self._weights.items():
            d = dimensions.find(name)
            if d is not None and total:
                score -= np.where(nodes.allocatable[d] > 0, weight / total, 0.0)
        asked = np.flatnonzero(cls.request >= SMALLEST)
        score[(nodes.allocatable[asked] == 0).any(axis=0)] = 0.0
        return score * (FULL * self.weight)


class Proportions:
    """Argument ``proportional``: ``enable`` (false), ``resources`` ("a, b"), ``resourceProportion`` with ``<name>.cpu``
    (cores per card) and ``<name>.memory`` (GB per card), default 1 each."""

    def __init__(self, arguments: Arguments) -> None:
        given = arguments.nested("resourceProportion")
        rates = {
            name: (given.number(f"{name}.cpu", 1.0, least=0), given.number(f"{name}.memory", 1.0, least=0))
            for name in arguments.names("resources")
        }
        self._rates = rates if arguments.boolean("enable", False) else {}

    def filters(self, nodes: Nodes, dimensions: Dimensions, cls: TaskClass) -> list["ProportionFilter"]:
        """Returns one filter per scarce resource for a class that requests none of them."""
        known = {name: d for name in self._rates if (d := dimensions.find(name)) is not None}
        if any(cls.request[d] > 0 for d in known.values()):
            return []
        return [ProportionFilter(nodes, cls, name, d, *self._rates[name]) for name, d in known.items()]


class ProportionFilter:
    """Passes nodes that keep enough cpu and memory for the idle cards of one resource."""

    scope = Scope.NODE
    unresolvable = True

    def __init__(self, nodes: Nodes, cls: TaskClass, name: str, position: int, cpu: float, memory: float) -> None:
        self._nodes = nodes
        self._request = cls.request
        self._name = name
        self._position = position
        self._reserved_per_card: Mapping[int, float] = {CPU_INDEX: cpu, MEMORY_INDEX: memory * _MEMORY_UNIT}

    def room(self, rows: Rows) -> Counts:
        nodes = self._nodes
        cards = nodes.idle[self._position, rows]
        room: Counts = np.full(len(rows), UNBOUNDED, dtype=np.int64)
        for d, rate in self._reserved_per_card.items():
            left = nodes.idle[d, rows] - cards * rate
            asked = self._request[d]
            fitting = left // asked if asked else np.where(left < 0, 0, UNBOUNDED)
            np.minimum(room, np.clip(fitting, 0, UNBOUNDED).astype(np.int64), out=room)
        room[nodes.allocatable[self._position, rows] == 0] = UNBOUNDED
        return room

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return ((f"proportional of resource {self._name} check failed", len(rows)),)
