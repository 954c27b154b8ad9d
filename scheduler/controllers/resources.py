"""The usage of a Pod in a ResourceQuota, computed from its spec: PodGroups carry it as ``minResources``.

As Volcano's GetPodQuotaUsage: Kubernetes' usage of a Pod (``pods``, ``count/pods``, ``cpu`` and ``requests.cpu``,
``limits.cpu`` ...), and extended resources under their plain name too, by which the scheduler knows them.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from scheduler.api.names import CPU, MEMORY, PODS
from scheduler.api.objects import Container, PodSpec, ResourceList, ResourceRequirements, Wire
from scheduler.api.pod_amounts import effective_total
from scheduler.api.quantity import Amount, QuantityError, parse_amount
from scheduler.api.resource import is_native

Usage = Mapping[str, Amount]
_COUNT_PODS: Final = "count/pods"
_REQUESTS: Final = "requests."
_LIMITS: Final = "limits."
_HUGE_PAGES: Final = "hugepages-"
_COMPUTE: Final = (CPU, MEMORY, "ephemeral-storage")
_ONE: Final = Amount(10**9)
_NOTHING: Final = Amount(0)


class _Asking(Wire):
    """The fields of a Pod spec that ask for resources."""

    containers: list[Container] = msgspec.field(default_factory=list)
    init_containers: list[Container] | None = None
    overhead: ResourceList | None = None
    resources: ResourceRequirements | None = None


def pod_usage(spec: PodSpec | Mapping[str, Any]) -> dict[str, Amount]:
    """The usage of one Pod of the spec (that of a Pod, or of a template as it was written).

    A limit stands for a request that is not given, as the API server will write it. Raises QuantityError naming
    container and resource when an amount is malformed, or the field when the spec itself is.
    """
    if isinstance(spec, PodSpec):
        asking: PodSpec | _Asking = spec
    else:
        try:
            asking = msgspec.convert(spec, _Asking)
        except msgspec.ValidationError as error:
            raise QuantityError(str(error)) from None
    requests = _total(asking, _requests)
    limits = _total(asking, _limits)
    if asking.resources is not None:
        level = _limits("pod", asking.resources)
        limits.update(level)
        requests = level | requests | _amounts("pod", asking.resources.requests)
    for name, amount in _amounts("overhead", asking.overhead).items():
        requests[name] = requests.get(name, _NOTHING) + amount
        if name in limits:
            limits[name] = limits[name] + amount
    return _quota(requests, limits)


def scaled(usage: Usage, count: int) -> dict[str, Amount]:
    """The usage of ``count`` such Pods; empty for none."""
    return {name: amount * count for name, amount in usage.items()} if count > 0 else {}


def summed(left: Usage, right: Usage) -> dict[str, Amount]:
    """The sum of two usages."""
    result = dict(left)
    for name, amount in right.items():
        result[name] = result[name] + amount if name in result else amount
    return result


def printed(usage: Usage) -> dict[str, str]:
    """The usage as a Kubernetes ResourceList."""
    return {name: str(amount) for name, amount in usage.items()}


def _quota(requests: Usage, limits: Usage) -> dict[str, Amount]:
    """The names under which a quota counts requests and limits."""
    result = {_COUNT_PODS: _ONE, PODS: _ONE}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith(_HUGE_PAGES) or not (is_native(name) or name.startswith(_REQUESTS)):
            result[name] = result[_REQUESTS + name] = amount
    for name in _COMPUTE:
        if name in limits:
            result[_LIMITS + name] = limits[name]
    return result


def _total(
    asking: PodSpec | _Asking, of: Callable[[str, ResourceRequirements], dict[str, Amount]]
) -> dict[str, Amount]:
    """The larger of two amounts: the sum over the containers (with sidecars), and the largest init container (with the
    sidecars started before it)."""

    def stated(container: Container) -> dict[str, Amount]:
        return of(container.name, container.resources) if container.resources is not None else {}

    return effective_total(asking.containers, asking.init_containers, stated, {}, summed, _greater)


def _greater(left: dict[str, Amount], right: Usage) -> dict[str, Amount]:
    return left | {name: amount for name, amount in right.items() if name not in left or amount.nano > left[name].nano}


def _requests(owner: str, resources: ResourceRequirements) -> dict[str, Amount]:
    return _limits(owner, resources) | _amounts(owner, resources.requests)


def _limits(owner: str, resources: ResourceRequirements) -> dict[str, Amount]:
    return _amounts(owner, resources.limits)


def _amounts(owner: str, amounts: ResourceList | None) -> dict[str, Amount]:
    result: dict[str, Amount] = {}
    for name, quantity in (amounts or {}).items():
        try:
            result[name] = parse_amount(quantity)
        except QuantityError as error:
            raise QuantityError(f"{owner}: {name}: {error}") from None
        if result[name].nano < 0:
            raise QuantityError(f"{owner}: {name}: negative amount {str(quantity)[:64]}")
    return result
