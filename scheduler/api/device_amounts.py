"""Devices of ResourceClaims as amounts that queues are limited by: ``deviceclass/<class>`` is a number of devices,
``<dimension>.deviceclass/<class>`` an amount of their capacity (Volcano's names).

Only requests for an exact number count: what one with alternatives, or for all devices, will take is not known before.
"""

from collections.abc import Mapping

from scheduler.api.amount import Amount, parse_amount
from scheduler.api.dra import EXACT_COUNT, ResourceClaimSpec
from scheduler.api.names import DEVICE_CAPACITY_QUOTA, DEVICE_CLASS_QUOTA
from scheduler.api.objects import ResourceList
from scheduler.api.task import Task

_UNIT = 10**9
Amounts = dict[str, Amount]


def device_amounts(spec: ResourceClaimSpec) -> Amounts:
    """What a claim counts for. Raises QuantityError."""
    result: Amounts = {}
    for request in spec.devices.requests or ():
        ask = request.exactly
        if ask is None or ask.allocation_mode != EXACT_COUNT or not ask.device_class_name:
            continue
        number = max(ask.count, 1)
        add(result, {f"{DEVICE_CLASS_QUOTA}{ask.device_class_name}": Amount(number * _UNIT)})
        for dimension, quantity in ((ask.capacity.requests if ask.capacity else None) or {}).items():
            name = f"{dimension}{DEVICE_CAPACITY_QUOTA}{ask.device_class_name}"
            add(result, {name: parse_amount(quantity) * number})
    return result


def device_limits(amounts: ResourceList | None) -> Amounts:
    """Those of a queue's amounts that are of devices. Raises QuantityError naming the resource."""
    return {name: parse_amount(amount) for name, amount in (amounts or {}).items() if device_class_of(name)}


def device_class_of(name: str) -> str:
    """The DeviceClass that the name of an amount is about; "": it is of something else."""
    if name.startswith(DEVICE_CLASS_QUOTA):
        return name.removeprefix(DEVICE_CLASS_QUOTA)
    dimension, _, device_class = name.partition(DEVICE_CAPACITY_QUOTA)
    return device_class if dimension else ""


def add(sums: Amounts, amounts: Mapping[str, Amount], sign: int = 1) -> None:
    """Add amounts (or, with ``sign`` -1, take them away) by name."""
    for name, amount in amounts.items():
        sums[name] = sums.get(name, Amount(0)) + amount * sign


def claims_of(task: Task) -> list[str]:
    """The keys of a Pod's ResourceClaims, as far as they are made."""
    names = (
        entry.resource_claim_name or task.device_claims.get(entry.name) for entry in task.cls.spec.resource_claims or ()
    )
    return [f"{task.namespace}/{name}" for name in dict.fromkeys(names) if name]
