"""The quality of service class of a Pod, as Kubernetes works it out from the spec."""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final

from scheduler.api.names import CPU, MEMORY
from scheduler.api.objects import PodSpec, Quantity, ResourceRequirements
from scheduler.api.quantity import QuantityError, parse_quantity

_NAMES: Final = (CPU, MEMORY)


class Qos(IntEnum):
    """The less is guaranteed to a Pod, the earlier it gives way."""

    BEST_EFFORT = 0
    BURSTABLE = 1
    GUARANTEED = 2


def qos_of(spec: PodSpec) -> Qos:
    """Pod-level amounts count in place of the containers' where there are any."""
    asked, limited = dict.fromkeys(_NAMES, 0), dict.fromkeys(_NAMES, 0)
    all_limited = True
    for resources in _resources(spec):
        limits = {name: _milli(resources.limits, name) for name in _NAMES}
        all_limited &= all(limits.values())
        for name in _NAMES:
            asked[name] += _milli(resources.requests, name) or limits[name]  # a limit alone is a request as well
            limited[name] += limits[name]
    if not any(asked.values()) and not any(limited.values()):
        return Qos.BEST_EFFORT
    return Qos.GUARANTEED if all_limited and asked == limited else Qos.BURSTABLE


def _resources(spec: PodSpec) -> Iterator[ResourceRequirements]:
    if spec.resources is not None and (spec.resources.requests or spec.resources.limits):
        yield spec.resources
        return
    for container in (*spec.containers, *(spec.init_containers or ())):
        yield container.resources or ResourceRequirements()


def _milli(amounts: Mapping[str, Quantity] | None, name: str) -> int:
    """0 where there is none, or one that no API server would take."""
    try:
        return max(parse_quantity((amounts or {}).get(name, 0), 1000), 0)
    except QuantityError:
        return 0
