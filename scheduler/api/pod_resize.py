"""What a Pod on a node holds while it is resized in place.

A resize changes the requests in the spec of a running Pod. The kubelet first reserves the new amounts
(``allocatedResources`` of a status), then applies them to the containers (``resources``). Until both have happened, the
three differ, and the Pod holds the largest amount of each resource. If the kubelet refuses the resize as infeasible,
the Pod holds the larger of the reserved and the applied amount. This is what kube-scheduler 1.36 counts (PodRequests
with UseStatusResources). Two cases differ: reserved amounts count where a status has no applied ones, as in later
versions, and an infeasible resize releases only cpu and memory, because nothing else can be resized.
"""

from collections.abc import Collection, Iterable, Mapping
from operator import is_
from typing import Final

from msgspec.structs import replace

from scheduler.api.names import CPU, MEMORY
from scheduler.api.objects import (
    Container,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    Quantity,
    ResourceList,
    ResourceRequirements,
)
from scheduler.api.pod_amounts import is_sidecar
from scheduler.api.quantity import QuantityError, parse_amount
from scheduler.api.selectors import FieldReporter

PENDING: Final = "PodResizePending"
INFEASIBLE: Final = "Infeasible"
RESIZABLE: Final = (CPU, MEMORY)
_NONE: Final = ResourceRequirements()
_Reported = tuple[str, Mapping[str, Quantity] | None]
"""A field of a status, and its amounts."""


def held_spec(pod: Pod, report: FieldReporter) -> PodSpec:
    """The spec of a Pod with the amounts that it holds as its requests, and with the limits that apply to it.

    It is the spec itself unless a resize is under way. Pods without a node hold what the spec requests. Malformed
    amounts of the status are reported and ignored.
    """
    spec, status = pod.spec, pod.status
    if not spec.node_name:
        return spec
    statuses = _statuses(status)
    level = spec.resources
    if not statuses and (level is None or (status.resources is None and status.allocated_resources is None)):
        return spec
    held = _Held(is_infeasible(status), report)
    try:
        containers = held.containers("containerStatuses", spec.containers, statuses)
        sidecars = spec.init_containers
        if sidecars is not None:
            sidecars = held.containers("initContainerStatuses", sidecars, statuses, sidecars_only=True)
        if level is not None:
            level = held.level(level, status)
    except QuantityError:
        return spec  # its own amounts are malformed, which its readers report
    if containers is spec.containers and sidecars is spec.init_containers and level is spec.resources:
        return spec
    return replace(spec, containers=containers, init_containers=sidecars, resources=level)


def is_infeasible(status: PodStatus) -> bool:
    """Whether the kubelet has refused the resize of a Pod for good."""
    for condition in status.conditions or ():
        if condition.type == PENDING:
            return condition.reason == INFEASIBLE
    return status.resize == INFEASIBLE  # before Kubernetes 1.33


def _statuses(status: PodStatus) -> dict[str, ContainerStatus]:
    """The statuses that say what a container holds, by its name."""
    found = {}
    for statuses in (status.container_statuses, status.init_container_statuses):
        for each in statuses or ():
            if each.resources is not None or each.allocated_resources is not None:
                found[each.name] = each
    return found


class _Held:
    """Combines the amounts of spec and status."""

    def __init__(self, infeasible: bool, report: FieldReporter) -> None:
        self._infeasible = infeasible
        self._report = report

    def containers(
        self,
        field: str,
        containers: list[Container],
        statuses: Mapping[str, ContainerStatus],
        *,
        sidecars_only: bool = False,
    ) -> list[Container]:
        """The containers with what they hold; the same list if that is what they request."""
        held = [
            container
            if (status := statuses.get(container.name)) is None or (sidecars_only and not is_sidecar(container))
            else self._container(f"status.{field}[{container.name}]", container, status)
            for container in containers
        ]
        return containers if all(map(is_, held, containers)) else held

    def _container(self, field: str, container: Container, status: ContainerStatus) -> Container:
        stated, applied = container.resources or _NONE, status.resources or _NONE
        requests, allocated = stated.requests or {}, status.allocated_resources
        if (allocated is None or allocated == requests) and (status.resources is None or _same(applied, stated)):
            return container
        resources = self._resources(field, stated, allocated, applied, {**(stated.limits or {}), **requests})
        return container if resources is stated else replace(container, resources=resources)

    def level(self, level: ResourceRequirements, status: PodStatus) -> ResourceRequirements:
        """Pod-level resources with what the Pod holds of them. The resources that the spec does not name at this level
        are those of the containers."""
        requests = level.requests or {}
        applied = status.resources or _NONE
        allocated = status.allocated_resources
        return self._resources(
            "status",
            level,
            None if allocated is None else {name: allocated[name] for name in requests if name in allocated},
            ResourceRequirements(
                requests={name: amount for name, amount in (applied.requests or {}).items() if name in requests},
                limits=applied.limits,
            ),
            requests,
        )

    def _resources(
        self,
        field: str,
        stated: ResourceRequirements,
        allocated: ResourceList | None,
        applied: ResourceRequirements,
        requests: Mapping[str, Quantity],
    ) -> ResourceRequirements:
        """``requests``: those of the spec, where a limit counts as a request that is not given."""
        reported = ((f"{field}.allocatedResources", allocated), (f"{field}.resources.requests", applied.requests))
        held = self._largest(requests, reported, RESIZABLE if self._infeasible else ())
        limits = stated.limits or {}
        known = {name: amount for name, amount in (applied.limits or {}).items() if name in limits}
        resized = [name for name in RESIZABLE if name in known] if self._infeasible else []
        held_limits = self._largest(limits, ((f"{field}.resources.limits", known),), resized)
        if held == requests and held_limits == limits:
            return stated
        return ResourceRequirements(requests=held, limits=held_limits or None)

    def _largest(
        self, stated: Mapping[str, Quantity], reported: Iterable[_Reported], released: Collection[str]
    ) -> ResourceList:
        """The largest amount of each resource. Of equal amounts that of the spec is returned, so that Pods which hold
        what they request stay in one class. ``released``: the resources for which the spec does not count."""
        held: ResourceList = {name: "0" if name in released else amount for name, amount in stated.items()}
        for field, amounts in reported:
            for name, quantity in (amounts or {}).items():
                # A malformed amount releases nothing.
                counted = quantity if self._is_valid(f"{field}[{name}]", quantity) else stated.get(name, 0)
                if parse_amount(counted).nano > parse_amount(held.get(name, 0)).nano:
                    held[name] = counted
        for name, quantity in stated.items():
            if parse_amount(held[name]).nano == parse_amount(quantity).nano:
                held[name] = quantity
        return held

    def _is_valid(self, field: str, quantity: Quantity) -> bool:
        """Whether a status has a usable amount; reports it otherwise."""
        try:
            if parse_amount(quantity).nano >= 0:
                return True
            problem = f"negative amount {str(quantity)[:64]}"
        except QuantityError as error:
            problem = str(error)
        self._report(field, problem)
        return False


def _same(left: ResourceRequirements, right: ResourceRequirements) -> bool:
    """Whether both have the same requests and limits."""
    return (left.requests or {}) == (right.requests or {}) and (left.limits or {}) == (right.limits or {})
