"""Devices of ResourceClaims as amounts that limit queues (Volcano's names): ``deviceclass/<class>`` is a number of
devices, ``<dimension>.deviceclass/<class>`` an amount of their capacity.

Only requests for an exact number count. The amount of a request with alternatives, or for all devices, is not known
before the allocation.
"""

from collections.abc import Mapping

from scheduler.api.dra import EXACT_COUNT, ResourceClaimSpec
from scheduler.api.names import DEVICE_CAPACITY_QUOTA, DEVICE_CLASS_QUOTA
from scheduler.api.objects import ResourceList
from scheduler.api.quantity import ExactAmount, parse_amount
from scheduler.api.task import Task

_UNIT = 10**9
Amounts = dict[str, ExactAmount]


def device_amounts(spec: ResourceClaimSpec) -> Amounts:
    """Returns the amounts of a claim. Raises QuantityError."""
    result: Amounts = {}
    for request in spec.devices.requests or ():
        ask = request.exactly
        if ask is None or ask.allocation_mode != EXACT_COUNT or not ask.device_class_name:
            continue
        number = max(ask.count, 1)
        add(result, {f"{DEVICE_CLASS_QUOTA}{ask.device_class_name}": ExactAmount(number * _UNIT)})
        for dimension, quantity in ((ask.capacity.requests if ask.capacity else None) or {}).items():
            name = f"{dimension}{DEVICE_CAPACITY_QUOTA}{ask.device_class_name}"
            add(result, {name: parse_amount(quantity) * number})
    return result


def device_limits(amounts: ResourceList | None) -> Amounts:
    """Returns the device amounts of a queue. Raises QuantityError, which names the resource."""
    return {name: parse_amount(amount) for name, amount in (amounts or {}).items() if device_class_of(name)}


def device_class_of(name: str) -> str:
    """Returns the DeviceClass in the name of an amount, or "" for other resources."""
    if name.startswith(DEVICE_CLASS_QUOTA):
        return name.removeprefix(DEVICE_CLASS_QUOTA)
    dimension, _, device_class = name.partition(DEVICE_CAPACITY_QUOTA)
    return device_class if dimension else ""


def add(sums: Amounts, amounts: Mapping[str, ExactAmount], sign: int = 1) -> None:
    """Adds amounts by name, or subtracts them with ``sign`` -1."""
    for name, amount in amounts.items():
        sums[name] = sums.get(name, ExactAmount(0)) + amount * sign


def claims_of(task: Task) -> list[str]:
    """The keys of the existing ResourceClaims of a Pod."""
    names = (
        entry.resource_claim_name or task.device_claims.get(entry.name) for entry in task.cls.spec.resource_claims or ()
    )
    return [f"{task.namespace}/{name}" for name in dict.fromkeys(names) if name]
