"""resource-strategy-fit: spreads or packs each resource, and keeps scarce ones for Pods that need them (Volcano's
resource-strategy-fit plugin).

A resource has a strategy: LeastAllocated prefers nodes with much of it free, MostAllocated nodes with little. Pods that
do not request scarce resources prefer nodes without them (``sra``), and leave cpu and memory for Pods that do
(``proportional``).
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

import msgspec
import numpy as np

from scheduler.api.json_texts import STRATEGY_WEIGHTS, JsonTextError
from scheduler.api.names import RESOURCE_STRATEGY_SCORING_TYPE, RESOURCE_STRATEGY_WEIGHT
from scheduler.api.node import Column, Nodes, Rows
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, SMALLEST, Dimensions
from scheduler.api.task import TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import UNBOUNDED, Counts, Filter, PinUse, Scope, Score, StaticScore
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin
from scheduler.plugins.support.utilization import UtilizationScore

LEAST_ALLOCATED: Final = "LeastAllocated"
MOST_ALLOCATED: Final = "MostAllocated"
FULL: Final = 100.0


class ResourceStrategy(msgspec.Struct, frozen=True):
    """The strategy for one resource."""

    type: str
    weight: int


DEFAULT: Final = {"cpu": ResourceStrategy(LEAST_ALLOCATED, 1), "memory": ResourceStrategy(LEAST_ALLOCATED, 1)}


class StrategyError(ValueError):
    """The annotations of a Pod contain no valid strategy; ``field`` and ``problem`` say why."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(field, problem)
        self.field = f"annotations[{field}]"
        self.problem = problem


def read_strategies(arguments: Arguments) -> Mapping[str, ResourceStrategy]:
    """Reads the argument ``resources``: name, or prefix of names followed by ``*`` -> type and weight."""
    listed = arguments.nested("resources")
    result = {}
    for name in listed:
        if "*" in name and (name.count("*") > 1 or not name.endswith("*") or name == "*"):
            listed.set_aside(name, listed[name], "of no resource: a name may have one asterisk, at its end", None)
            continue
        entry = listed.nested(name)
        type_ = entry.text("type", LEAST_ALLOCATED)
        if type_ not in (LEAST_ALLOCATED, MOST_ALLOCATED):
            type_ = entry.set_aside("type", type_, f"neither {LEAST_ALLOCATED} nor {MOST_ALLOCATED}", LEAST_ALLOCATED)
        result[name] = ResourceStrategy(type_, entry.integer("weight", 1, least=1))
    return result or DEFAULT


def strategies_of(
    cls: TaskClass, dimensions: Dimensions, configured: Mapping[str, ResourceStrategy]
) -> dict[int, ResourceStrategy]:
    """Returns position -> strategy for the requested resources of a class. The annotations of a Pod override the
    configuration. Raises StrategyError."""
    own = _pod_strategies(cls)
    result = {}
    for d in np.flatnonzero(cls.request >= SMALLEST).tolist():
        name = dimensions.names[d]
        strategy = _matching(name, configured) if own is None else own.get(name)
        if strategy is not None:
            result[d] = strategy
    return result


def _pod_strategies(cls: TaskClass) -> dict[str, ResourceStrategy] | None:
    type_ = cls.annotations.get(RESOURCE_STRATEGY_SCORING_TYPE)
    if not type_:
        return None
    if type_ not in (LEAST_ALLOCATED, MOST_ALLOCATED):
        raise StrategyError(
            RESOURCE_STRATEGY_SCORING_TYPE, f"neither {LEAST_ALLOCATED} nor {MOST_ALLOCATED}: {type_!r:.66}"
        )
    text = cls.annotations.get(RESOURCE_STRATEGY_WEIGHT, "")
    try:
        return {name: ResourceStrategy(type_, weight) for name, weight in STRATEGY_WEIGHTS.decode(text).items()}
    except JsonTextError as error:
        raise StrategyError(RESOURCE_STRATEGY_WEIGHT, str(error)) from None


def _matching(name: str, configured: Mapping[str, ResourceStrategy]) -> ResourceStrategy | None:
    """Returns the strategy that is configured for the resource, else for the longest matching prefix."""
    if name in configured:
        return configured[name]
    fitting = [key for key in configured if key.endswith("*") and name.startswith(key[:-1])]
    return configured[max(fitting, key=len)] if fitting else None


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

    def filters(self, nodes: Nodes, dimensions: Dimensions, cls: TaskClass) -> list[Filter]:
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


DEFAULT_WEIGHT = 10


@register_plugin
class ResourceStrategyFit:
    """Arguments: ``resourceStrategyFitWeight`` (10; 0 switches the strategies off),
    ``resources`` (name or ``prefix*`` -> ``type`` LeastAllocated or MostAllocated, and ``weight``; default: cpu and
    memory LeastAllocated 1), ``sra`` (``ScarceResourceScore``) and ``proportional`` (``Proportions``). The annotations
    ``volcano.sh/resource-strategy-scoring-type`` and ``volcano.sh/resource-strategy-weight`` (JSON) of a Pod override
    the strategies."""

    name: ClassVar[str] = "resource-strategy-fit"

    def __init__(self, arguments: Arguments) -> None:
        self._weight = arguments.integer("resourceStrategyFitWeight", DEFAULT_WEIGHT, least=0)
        self._strategies = read_strategies(arguments)
        self._sra = ScarceResourceScore(arguments.nested("sra"))
        self._proportions = Proportions(arguments.nested("proportional"))

    def open(self, session: PluginSession) -> None:
        self._session = session
        session.add_filter(
            lambda cls: self._proportions.filters(session.nodes, session.dimensions, cls), pin=PinUse.IGNORED
        )
        session.add_score(self._scores)

    def _scores(self, cls: TaskClass) -> list[Score]:
        session, nodes = self._session, self._session.nodes
        scores: list[Score] = []
        if self._weight:
            try:
                strategies = strategies_of(cls, session.dimensions, self._strategies)
            except StrategyError as error:
                session.malformed_pod(cls, f"metadata.{error.field}", error.problem)
                strategies = {}
            if strategies:
                taken, left = (
                    {d: s.weight for d, s in strategies.items() if s.type == t}
                    for t in (MOST_ALLOCATED, LEAST_ALLOCATED)
                )
                scores.append(UtilizationScore(nodes, cls, taken, left, FULL * self._weight))
        if self._sra.weight:
            scores.append(StaticScore(self._sra.column(nodes, session.dimensions, cls)))
        return scores
