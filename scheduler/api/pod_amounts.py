"""Kubernetes' rules for the amounts of a Pod: the sum over its containers, what it takes from a node, and its QoS
class."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Final, Protocol, TypeVar

import numpy as np

from scheduler.api.names import CPU, MEMORY
from scheduler.api.node import NONZERO_CPU, NONZERO_MEMORY
from scheduler.api.objects import Container, PodSpec, Quantity, ResourceRequirements
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, PODS_INDEX, Dimensions, Vector


class HasRestartPolicy(Protocol):
    @property
    def restart_policy(self) -> str | None: ...


C = TypeVar("C", bound=HasRestartPolicy)
A = TypeVar("A")


def is_sidecar(init_container: HasRestartPolicy) -> bool:
    """Whether an init container keeps running beside the containers after it."""
    return init_container.restart_policy == "Always"


def effective_total(
    containers: Iterable[C],
    init_containers: Iterable[C] | None,
    amount: Callable[[C], A],
    zero: A,
    add: Callable[[A, A], A],
    maximum: Callable[[A, A], A],
) -> A:
    """The amount that the containers of a Pod need at once. Init containers run one after the other, the others
    together.

    This is the maximum of two amounts: all containers with all sidecars, and each init container with the sidecars
    started before it. ``amount`` returns the amount of one container; ``add`` and ``maximum`` combine amounts.
    """
    sidecars = peak = running = zero
    for container in init_containers or ():
        started = add(sidecars, amount(container))
        peak = maximum(peak, started)
        if is_sidecar(container):
            sidecars = started
    for container in containers:
        running = add(running, amount(container))
    return maximum(add(running, sidecars), peak)


def pod_request(spec: PodSpec, dimensions: Dimensions) -> Vector:
    """What a Pod takes from a node (Kubernetes' resource calculation, Volcano's GetPodResourceRequest).

    This is the greater of the requests of all containers with sidecars, and of each init container with the sidecars
    started before it. Pod-level requests replace it where given. Overhead and one Pod are added.

    Raises QuantityError, which names container and resource.
    """

    def request(container: Container) -> Vector:
        return _request(container, dimensions)

    def add(left: Vector, right: Vector) -> Vector:
        return dimensions.fit(left) + dimensions.fit(right)

    def greater(left: Vector, right: Vector) -> Vector:
        return np.maximum(dimensions.fit(left), dimensions.fit(right))

    total = effective_total(spec.containers, spec.init_containers, request, dimensions.zeros(), add, greater)
    if spec.resources is not None and spec.resources.requests:
        level = dimensions.vector(spec.resources.requests)
        total = np.where(level > 0, level, dimensions.fit(total))
    if spec.overhead:
        overhead = dimensions.vector(spec.overhead)
        total = dimensions.fit(total) + overhead
    total[PODS_INDEX] = 1
    total.setflags(write=False)  # tasks and jobs share it
    return total


def nonzero_request(spec: PodSpec, request: Vector) -> tuple[float, float]:
    """cpu (milli) and memory (bytes) as kube-scheduler's scores count them: a container without a request counts with a
    default."""
    no_cpu = no_memory = 0
    for container in spec.containers:
        requests = (container.resources.requests if container.resources else None) or {}
        no_cpu += "cpu" not in requests
        no_memory += "memory" not in requests
    return (
        float(request[CPU_INDEX]) + no_cpu * NONZERO_CPU,
        float(request[MEMORY_INDEX]) + no_memory * NONZERO_MEMORY,
    )


def _request(container: Container, dimensions: Dimensions) -> Vector:
    """The requests of a container. A limit without a request is the request, as the API server defaults it. Other
    limits must be well-formed too, because plugins read them."""
    resources = container.resources
    if resources is None:
        return dimensions.zeros()
    limits, requests = resources.limits or {}, resources.requests or {}
    other = {name: limit for name, limit in limits.items() if requests.get(name, limit) != limit}
    if other:
        dimensions.vector(other)
    return dimensions.vector({**limits, **requests})


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
