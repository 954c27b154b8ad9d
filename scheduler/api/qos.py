"""The quality of service (QoS) class of a Pod, computed from its spec as Kubernetes does."""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final

from scheduler.api.names import CPU, MEMORY
from scheduler.api.objects import PodSpec, Quantity, ResourceRequirements
from scheduler.api.quantity import QuantityError, parse_quantity

_NAMES: Final = (CPU, MEMORY)


class Qos(IntEnum):
    """Ordered by eviction: Pods of a lower class are evicted first."""

    BEST_EFFORT = 0
    BURSTABLE = 1
    GUARANTEED = 2


def qos_of(spec: PodSpec) -> Qos:
    """The QoS class of a Pod. Pod-level resources, if there are any, replace those of the containers."""
    requested, limited = dict.fromkeys(_NAMES, 0), dict.fromkeys(_NAMES, 0)
    all_limited = True
    for resources in _resources(spec):
        limits = {name: _milli(resources.limits, name) for name in _NAMES}
        all_limited &= all(limits.values())
        for name in _NAMES:
            requested[name] += (
                _milli(resources.requests, name) or limits[name]
            )  # a limit without a request is the request
            limited[name] += limits[name]
    if not any(requested.values()) and not any(limited.values()):
        return Qos.BEST_EFFORT
    return Qos.GUARANTEED if all_limited and requested == limited else Qos.BURSTABLE


def _resources(spec: PodSpec) -> Iterator[ResourceRequirements]:
    if spec.resources is not None and (spec.resources.requests or spec.resources.limits):
        yield spec.resources
        return
    for container in (*spec.containers, *(spec.init_containers or ())):
        yield container.resources or ResourceRequirements()


def _milli(amounts: Mapping[str, Quantity] | None, name: str) -> int:
    """The amount in thousandths; 0 if it is missing or invalid."""
    try:
        return max(parse_quantity((amounts or {}).get(name, 0), 1000), 0)
    except QuantityError:
        return 0
