"""Kubernetes' rules for the amounts of a Pod: the sum over its containers, pod-level resources, what it takes from a
node, and its QoS class.

``pod_resize.held_spec`` is the spec to use for a Pod that is on a node.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any, Final, Protocol, TypeVar

import msgspec
import numpy as np

from scheduler.api.names import CPU, MEMORY
from scheduler.api.node import NONZERO_CPU, NONZERO_MEMORY
from scheduler.api.objects import Container, PodSpec, Quantity, ResourceList, ResourceRequirements, Wire
from scheduler.api.quantity import ExactAmount, QuantityError, parse_amount, parse_quantity
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, PODS_INDEX, Dimensions, Vector


class HasRestartPolicy(Protocol):
    @property
    def restart_policy(self) -> str | None: ...


HUGE_PAGES: Final = "hugepages-"
_NAMES: Final = (CPU, MEMORY)
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
    started before it. Pod-level requests, with the defaults of the API server, replace it where given. Overhead and one
    Pod are added.

    Raises QuantityError, which names container and resource.
    """

    def request(container: Container) -> Vector:
        return _request(container, dimensions)

    def add(left: Vector, right: Vector) -> Vector:
        return dimensions.fit(left) + dimensions.fit(right)

    def greater(left: Vector, right: Vector) -> Vector:
        return np.maximum(dimensions.fit(left), dimensions.fit(right))

    total = effective_total(spec.containers, spec.init_containers, request, dimensions.zeros(), add, greater)
    level = completed_level(spec)
    if level is not None and level.requests:
        requested = dimensions.vector(level.requests)
        total = dimensions.fit(total).copy()
        for name in level.requests:
            position = dimensions.find(name)
            if position is not None and is_pod_level(name):
                total[position] = requested[position]
    if spec.overhead:
        overhead = dimensions.vector(spec.overhead)
        total = dimensions.fit(total) + overhead
    total[PODS_INDEX] = 1
    total.setflags(write=False)  # tasks and jobs share it
    return total


def nonzero_request(spec: PodSpec, request: Vector) -> tuple[float, float]:
    """cpu (milli) and memory (bytes) as kube-scheduler's scores count them: a container without a request counts with a
    default. With pod-level requests, so it does only if the whole Pod requests none."""
    no_cpu = no_memory = 0
    for container in spec.containers:
        requests = (container.resources.requests if container.resources else None) or {}
        no_cpu += CPU not in requests
        no_memory += MEMORY not in requests
    if spec.resources is not None and any(map(is_pod_level, spec.resources.requests or ())):
        no_cpu, no_memory = no_cpu * (not request[CPU_INDEX]), no_memory * (not request[MEMORY_INDEX])
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


# --- exact amounts and pod-level resources ---
class AmountFields(Wire):
    """The fields of a Pod spec that request resources."""

    containers: list[Container] = msgspec.field(default_factory=list)
    init_containers: list[Container] | None = None
    overhead: ResourceList | None = None
    resources: ResourceRequirements | None = None


def amount_fields(spec: Mapping[str, Any]) -> AmountFields:
    """The fields of a spec as it was written. Raises QuantityError, which names the field, if one has a wrong type."""
    try:
        return msgspec.convert(spec, AmountFields)
    except msgspec.ValidationError as error:
        raise QuantityError(str(error)) from None


def exact_amounts(owner: str, amounts: ResourceList | None) -> dict[str, ExactAmount]:
    """Parses amounts. Raises QuantityError, which names ``owner`` and resource, if one is malformed or negative."""
    result: dict[str, ExactAmount] = {}
    for name, quantity in (amounts or {}).items():
        try:
            result[name] = parse_amount(quantity)
        except QuantityError as error:
            raise QuantityError(f"{owner}: {name}: {error}") from None
        if result[name].nano < 0:
            raise QuantityError(f"{owner}: {name}: negative amount {str(quantity)[:64]}")
    return result


def summed(left: Mapping[str, ExactAmount], right: Mapping[str, ExactAmount]) -> dict[str, ExactAmount]:
    """The sum of two sets of amounts."""
    result = dict(left)
    for name, amount in right.items():
        result[name] = result[name] + amount if name in result else amount
    return result


def total_requests(spec: PodSpec | AmountFields) -> dict[str, ExactAmount]:
    """What the containers of a Pod request at once. A limit counts as a request that is not given, as the API server
    defaults it. Raises QuantityError, which names container and resource."""
    return _total(spec, lambda owner, each: exact_amounts(owner, each.limits) | exact_amounts(owner, each.requests))


def total_limits(spec: PodSpec | AmountFields) -> dict[str, ExactAmount]:
    """The limits of the containers of a Pod at once. Raises QuantityError, which names container and resource."""
    return _total(spec, lambda owner, each: exact_amounts(owner, each.limits))


def _total(
    spec: PodSpec | AmountFields, of: Callable[[str, ResourceRequirements], dict[str, ExactAmount]]
) -> dict[str, ExactAmount]:
    def stated(container: Container) -> dict[str, ExactAmount]:
        return of(container.name, container.resources) if container.resources is not None else {}

    return effective_total(spec.containers, spec.init_containers, stated, {}, summed, _greater)


def _greater(left: dict[str, ExactAmount], right: Mapping[str, ExactAmount]) -> dict[str, ExactAmount]:
    return left | {name: amount for name, amount in right.items() if name not in left or amount.nano > left[name].nano}


def is_pod_level(name: str) -> bool:
    """Whether a resource may be requested for a Pod as a whole."""
    return name in _NAMES or name.startswith(HUGE_PAGES)


def completed_level(spec: PodSpec | AmountFields) -> ResourceRequirements | None:
    """The pod-level resources of a spec with the defaults of the API server (Kubernetes 1.36, ``SetDefaults_Pod``).

    Huge pages that containers may use are limited at this level to their sum. If there are pod-level limits, requests
    of cpu and memory that are not given are what the containers request or, if they request nothing, the limit; those
    of huge pages are the limit. Raises QuantityError, which names container and resource.
    """
    level = spec.resources
    if level is None or not (level.requests or level.limits):
        return level
    requests, limits = dict(level.requests or {}), dict(level.limits or {})
    for name, amount in total_limits(spec).items():
        if name.startswith(HUGE_PAGES) and name not in requests:
            limits.setdefault(name, str(amount))
    if limits:
        for name, amount in total_requests(spec).items():
            if name in _NAMES:
                requests.setdefault(name, str(amount))
        for name, quantity in limits.items():
            if is_pod_level(name):
                requests.setdefault(name, quantity)
    return ResourceRequirements(requests=requests or None, limits=limits or None)


# --- QoS ---


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
