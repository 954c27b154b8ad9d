"""What a Pod on a node holds while it is resized in place.

A resize changes the requests in the spec of a running Pod. The kubelet first reserves the new amounts
(``allocatedResources`` of a status), then applies them to the containers (``resources``). Until both have happened, the
three differ, and the Pod holds the largest amount of each resource. If the kubelet refuses the resize as infeasible,
the Pod holds the larger of the reserved and the applied amount. This is what kube-scheduler 1.36 counts (PodRequests
with UseStatusResources). Two cases differ: reserved amounts count where a status has no applied ones, as in later
versions, and an infeasible resize releases only cpu and memory, because nothing else can be resized.
"""

from collections.abc import Mapping
from operator import is_
from typing import Final

from msgspec.structs import replace

from scheduler.api.names import CPU, MEMORY
from scheduler.api.objects import (
    AppliedResources,
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
RESIZE_CONDITIONS: Final = (PENDING, "PodResizeInProgress")
INFEASIBLE: Final = "Infeasible"
RESIZABLE: Final = (CPU, MEMORY)
_NOTHING: Final = ResourceRequirements()


def held_spec(pod: Pod, report: FieldReporter) -> PodSpec:
    """The spec of a Pod with the amounts that it holds as its requests. Limits that are lower, or equal to the requests
    of the spec, become what is held, so that the Pod keeps its QoS class.

    It is the spec itself unless a resize is under way. Pods without a node hold what the spec requests. Malformed
    amounts of the status are reported and ignored.
    """
    spec, status = pod.spec, pod.status
    if not spec.node_name or (
        _is_settled(spec.containers, status.container_statuses)
        and _is_settled(spec.init_containers, status.init_container_statuses)
        and (spec.resources is None or (status.resources is None and status.allocated_resources is None))
    ):
        return spec
    held = _Held(is_infeasible(status), report)
    statuses = {
        each.name: each for each in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    }
    level, init = spec.resources, spec.init_containers
    try:
        containers = held.containers("containerStatuses", spec.containers, statuses)
        if init is not None:
            init = held.containers("initContainerStatuses", init, statuses, sidecars_only=True)
        if level is not None:
            level = held.level(level, status)
    except QuantityError:
        return spec  # its own amounts are malformed, which its readers report
    if containers is spec.containers and init is spec.init_containers and level is spec.resources:
        return spec
    return replace(spec, containers=containers, init_containers=init, resources=level)


def _is_settled(containers: list[Container] | None, statuses: list[ContainerStatus] | None) -> bool:
    """Whether all statuses agree with the requests of their containers. Most do, and this is quick to see."""
    if not statuses:
        return True
    by_name = {container.name: container.resources for container in containers or ()}
    for status in statuses:
        allocated, applied = status.allocated_resources, status.resources
        if allocated is None and applied is None:
            continue
        resources = by_name.get(status.name)
        requests = (resources.requests if resources is not None else None) or {}
        if (allocated is not None and allocated != requests) or (
            applied is not None and (applied.requests or {}) != requests
        ):
            return False
    return True


def is_infeasible(status: PodStatus) -> bool:
    """Whether the kubelet has refused the resize of a Pod for good."""
    for condition in status.conditions or ():
        if condition.type == PENDING:
            return condition.reason == INFEASIBLE
    return status.resize == INFEASIBLE  # before Kubernetes 1.33


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
        held = []
        for container in containers:
            status = statuses.get(container.name)
            if status is None or (sidecars_only and not is_sidecar(container)):
                held.append(container)
                continue
            stated = container.resources or _NOTHING
            requests = {**(stated.limits or {}), **(stated.requests or {})}  # as the API server completes them
            path = f"status.{field}[{container.name}]"
            resources = self._resources(path, stated, requests, status.allocated_resources, status.resources)
            held.append(container if resources is stated else replace(container, resources=resources))
        return containers if all(map(is_, held, containers)) else held

    def level(self, level: ResourceRequirements, status: PodStatus) -> ResourceRequirements:
        """Pod-level resources with what the Pod holds of them. What the spec does not request at this level is that of
        the containers."""
        return self._resources(
            "status", level, level.requests or {}, status.allocated_resources, status.resources, others=False
        )

    def _resources(
        self,
        path: str,
        stated: ResourceRequirements,
        requests: ResourceList,
        allocated: ResourceList | None,
        applied: AppliedResources | None,
        *,
        others: bool = True,
    ) -> ResourceRequirements:
        """``path``: the status. ``others``: resources that the spec does not request count, too."""
        if allocated is None and applied is None:
            return stated
        released = RESIZABLE if self._infeasible else ()
        held: ResourceList = {name: "0" if name in released else quantity for name, quantity in requests.items()}
        reported = (
            (f"{path}.allocatedResources", allocated),
            (f"{path}.resources.requests", applied and applied.requests),
        )
        for field, amounts in reported:
            for name, quantity in (amounts or {}).items():
                if others or name in requests:
                    # A malformed amount releases nothing.
                    counted = quantity if self._is_valid(f"{field}[{name}]", quantity) else requests.get(name, 0)
                    held[name] = _larger(held.get(name, 0), counted)
        held = {name: quantity for name, quantity in held.items() if name in requests or _nano(quantity)}
        if all(_nano(quantity) == _nano(requests.get(name, 0)) for name, quantity in held.items()):
            return stated  # so that Pods which hold what they request stay in one class
        limits = {
            name: held[name] if name in held and _equal(limit, requests[name]) else _larger(limit, held.get(name, 0))
            for name, limit in (stated.limits or {}).items()
        }
        return ResourceRequirements(requests=held, limits=limits or None)

    def _is_valid(self, field: str, quantity: Quantity) -> bool:
        """Whether a status has a usable amount; reports it otherwise."""
        try:
            if _nano(quantity) >= 0:
                return True
            problem = f"negative amount {str(quantity)[:64]}"
        except QuantityError as error:
            problem = str(error)
        self._report(field, problem)
        return False


def _nano(quantity: Quantity) -> int:
    return parse_amount(quantity).nano


def _equal(left: Quantity, right: Quantity) -> bool:
    return _nano(left) == _nano(right)


def _larger(left: Quantity, right: Quantity) -> Quantity:
    """The larger of two amounts; the first if they are equal."""
    return right if _nano(right) > _nano(left) else left
