"""The strategy of each resource: LeastAllocated prefers nodes with much of it free, MostAllocated nodes with little."""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
import numpy as np

from scheduler.api.names import RESOURCE_STRATEGY_SCORING_TYPE, RESOURCE_STRATEGY_WEIGHT
from scheduler.api.resource import SMALLEST, Dimensions
from scheduler.api.task import TaskClass
from scheduler.framework.arguments import MAX_INTEGER, Arguments

LEAST_ALLOCATED: Final = "LeastAllocated"
MOST_ALLOCATED: Final = "MostAllocated"
FULL: Final = 100.0
_weights: Final = msgspec.json.Decoder(dict[str, Annotated[int, msgspec.Meta(ge=0, le=MAX_INTEGER)]])


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
        return {name: ResourceStrategy(type_, weight) for name, weight in _weights.decode(text).items()}
    except msgspec.MsgspecError as error:
        raise StrategyError(RESOURCE_STRATEGY_WEIGHT, str(error)) from None


def _matching(name: str, configured: Mapping[str, ResourceStrategy]) -> ResourceStrategy | None:
    """Returns the strategy that is configured for the resource, else for the longest matching prefix."""
    if name in configured:
        return configured[name]
    fitting = [key for key in configured if key.endswith("*") and name.startswith(key[:-1])]
    return configured[max(fitting, key=len)] if fitting else None
