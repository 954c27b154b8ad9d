"""Kubernetes' rules for Pod specs: tolerated taints, pins to a node, the sum over the containers, and the QoS class."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from scheduler.api.names import CPU, MEMORY
from scheduler.api.objects import (
    Affinity,
    Container,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PodSpec,
    Quantity,
    Requirement,
    ResourceRequirements,
    Taint,
    Toleration,
)
from scheduler.api.quantity import QuantityError, parse_quantity

NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "PreferNoSchedule", "NoExecute"


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether any of the tolerations matches the taint: its effect and key (an empty one matches any), and its value
    unless the operator is Exists. An unknown operator matches nothing."""
    return any(_matches(toleration, taint) for toleration in tolerations)


def taint_text(key: str, value: str, effect: str) -> str:
    """A taint as kubectl writes it: ``key=value:effect``."""
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def _matches(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.key != "" and toleration.value == taint.value


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


class Pin(NamedTuple):
    """The only node that the required node affinity of a Pod admits, as for a Pod of a DaemonSet."""

    node: str
    term: NodeSelectorTerm
    """The only term of the affinity. It has the node, and the other requirements if there are any."""


def pin_of(spec: PodSpec) -> Pin | None:
    """The pin of a Pod. None if it has none, if it is written in another way, or if preferences, affinity to other Pods
    or topology spreading make more of the node affinity than that it admits nodes."""
    affinity = spec.affinity
    if affinity is None or affinity.node_affinity is None or spec.topology_spread_constraints:
        return None
    if affinity.pod_affinity or affinity.pod_anti_affinity:
        return None
    required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    preferred = affinity.node_affinity.preferred_during_scheduling_ignored_during_execution
    if preferred or required is None or len(required.node_selector_terms) != 1:
        return None
    (term,) = required.node_selector_terms
    match term.match_fields:
        case [Requirement(key="metadata.name", operator="In", values=[node])]:
            return Pin(node, term)
    return None


def without_pin(spec: PodSpec) -> PodSpec:
    """The spec without the node of its pin. The other requirements of the node affinity stay."""
    pin = pin_of(spec)
    if pin is None:
        return spec
    if not pin.term.match_expressions:
        return replace(spec, affinity=None)
    required = NodeSelector(node_selector_terms=[replace(pin.term, match_fields=None)])
    nodes = NodeAffinity(required_during_scheduling_ignored_during_execution=required)
    return replace(spec, affinity=Affinity(node_affinity=nodes))


def without_variables(spec: PodSpec) -> PodSpec:
    """The spec without the environment of its containers, which takes memory and may differ between equal Pods."""
    for container in (*spec.containers, *spec.init_containers) if spec.init_containers else spec.containers:
        if container.env is not None:
            init = spec.init_containers
            return replace(
                spec, containers=_bare(spec.containers), init_containers=None if init is None else _bare(init)
            )
    return spec


def _bare(containers: Iterable[Container]) -> list[Container]:
    return [container if container.env is None else replace(container, env=None) for container in containers]


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
