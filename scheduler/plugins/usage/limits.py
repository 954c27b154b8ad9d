"""The limits of cpu and memory of a Pod (Volcano's GetPodResourceLimit)."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from scheduler.api.names import CPU, MEMORY
from scheduler.api.objects import Container, PodSpec, Quantity
from scheduler.api.pod_amounts import effective_total
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.resource import scale_of

Pair = NDArray[np.float64]
"""cpu in milli-cores, memory in bytes."""


def pod_limits(spec: PodSpec) -> Pair:
    """Returns the larger of the limits of the containers (with sidecars) and of each init container (with the sidecars
    started before it). Pod-level limits replace it; overhead is added to limited resources. 0 means no limit."""
    total = effective_total(spec.containers, spec.init_containers, _limit, np.zeros(2), np.add, np.maximum)
    level = _pair(spec.resources.limits if spec.resources is not None else None)
    total = np.where(level > 0, level, total)
    return np.where(total > 0, total + _pair(spec.overhead), 0.0)


def _limit(container: Container) -> Pair:
    return _pair(container.resources.limits if container.resources is not None else None)


def _pair(amounts: Mapping[str, Quantity] | None) -> Pair:
    return np.array([_amount(amounts or {}, name) for name in (CPU, MEMORY)])


def _amount(amounts: Mapping[str, Quantity], name: str) -> float:
    """Returns an amount; 0 if it is missing or invalid."""
    try:
        return float(max(parse_quantity(amounts.get(name, 0), scale_of(name)), 0))
    except QuantityError:
        return 0.0
