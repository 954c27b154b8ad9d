"""The usage of a Pod in a ResourceQuota, computed from its spec: PodGroups carry it as ``minResources``.

As Volcano's GetPodQuotaUsage: Kubernetes' usage of a Pod (``pods``, ``count/pods``, ``cpu`` and ``requests.cpu``,
``limits.cpu`` ...), and extended resources under their plain name too, by which the scheduler knows them.
"""

from collections.abc import Mapping
from typing import Any, Final

from scheduler.api.names import CPU, MEMORY, PODS
from scheduler.api.objects import PodSpec
from scheduler.api.pod_amounts import (
    HUGE_PAGES,
    amount_fields,
    completed_level,
    exact_amounts,
    is_pod_level,
    total_limits,
    total_requests,
)
from scheduler.api.quantity import ExactAmount
from scheduler.api.resource import is_native

Usage = Mapping[str, ExactAmount]
_COUNT_PODS: Final = "count/pods"
_REQUESTS: Final = "requests."
_LIMITS: Final = "limits."
_COMPUTE: Final = (CPU, MEMORY, "ephemeral-storage")
_ONE: Final = ExactAmount(10**9)
_NOTHING: Final = ExactAmount(0)


def pod_usage(spec: PodSpec | Mapping[str, Any]) -> dict[str, ExactAmount]:
    """The usage of one Pod of the spec (that of a Pod, or of a template as it was written).

    Requests that are not given have the defaults of the API server. Raises QuantityError naming container and resource
    when an amount is malformed, or the field when the spec itself is.
    """
    asking = spec if isinstance(spec, PodSpec) else amount_fields(spec)
    requests, limits = total_requests(asking), total_limits(asking)
    level = completed_level(asking)
    if level is not None:
        for total, stated in ((requests, level.requests), (limits, level.limits)):
            total |= {name: amount for name, amount in exact_amounts("pod", stated).items() if is_pod_level(name)}
    for name, amount in exact_amounts("overhead", asking.overhead).items():
        requests[name] = requests.get(name, _NOTHING) + amount
        if name in limits:
            limits[name] = limits[name] + amount
    return _quota(requests, limits)


def scaled(usage: Usage, count: int) -> dict[str, ExactAmount]:
    """The usage of ``count`` such Pods; empty for none."""
    return {name: amount * count for name, amount in usage.items()} if count > 0 else {}


def printed(usage: Usage) -> dict[str, str]:
    """The usage as a Kubernetes ResourceList."""
    return {name: str(amount) for name, amount in usage.items()}


def _quota(requests: Usage, limits: Usage) -> dict[str, ExactAmount]:
    """The names under which a quota counts requests and limits."""
    result = {_COUNT_PODS: _ONE, PODS: _ONE}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith(HUGE_PAGES) or not (is_native(name) or name.startswith(_REQUESTS)):
            result[name] = result[_REQUESTS + name] = amount
    for name in _COMPUTE:
        if name in limits:
            result[_LIMITS + name] = limits[name]
    return result
