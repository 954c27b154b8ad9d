"""The amounts of one queue: quantities, and guarantee <= deserved <= capability.

A queue that says nothing of what it deserves may have a guarantee all the same, as the card quota design has it; its
capability is compared with the guarantee directly.
"""

from collections.abc import Iterator

from scheduler.api.amount import Amount, parse_amount
from scheduler.api.objects import ResourceList
from scheduler.api.quantity import QuantityError
from scheduler.api.scheduling import QueueSpec
from scheduler.webhooks.fields import invalid
from scheduler.webhooks.quantities import QUANTITY_SYNTAX, check_amount

Amounts = dict[str, Amount]


def guaranteed(spec: QueueSpec) -> ResourceList:
    return (spec.guarantee.resource if spec.guarantee else None) or {}


def same_amounts(left: ResourceList | None, right: ResourceList | None) -> bool:
    """Whether both mean the same, however it is written (``1000m`` is ``1``)."""
    return _known(left) == _known(right)


def amount_problems(spec: QueueSpec, path: str) -> Iterator[str]:
    capability: Amounts = {}
    deserved: Amounts = {}
    yield from _quantities(spec.capability, f"{path}.capability", capability)
    yield from _quantities(spec.deserved, f"{path}.deserved", deserved)
    guarantee: Amounts = {}
    yield from _quantities(guaranteed(spec), f"{path}.guarantee.resource", guarantee)
    for name, least in guarantee.items():
        bound = f"must be >= guarantee[{name}]={least}"
        if spec.deserved and name not in spec.deserved:
            yield invalid(f"{path}.deserved.{name}", "<nil>", f"deserved[{name}] {bound}")
        elif name in deserved and deserved[name].nano < least.nano:
            yield invalid(f"{path}.deserved.{name}", str(deserved[name]), f"deserved[{name}]={deserved[name]} {bound}")
        elif name in capability and capability[name].nano < least.nano:
            amount = capability[name]
            yield invalid(f"{path}.capability.{name}", str(amount), f"capability[{name}]={amount} {bound}")
    for name, amount in deserved.items():
        most = capability.get(name)
        if most is not None and amount.nano > most.nano:
            text = f"deserved[{name}]={amount} must be <= capability[{name}]={most}"
            yield invalid(f"{path}.deserved.{name}", str(amount), text)


def _quantities(written: ResourceList | None, path: str, found: Amounts) -> Iterator[str]:
    """Problems of each; those that are quantities at all go into ``found``."""
    for name, quantity in (written or {}).items():
        try:
            amount = found[name] = parse_amount(quantity)
        except QuantityError:
            yield invalid(f"{path}.{name}", str(quantity)[:64], QUANTITY_SYNTAX)
            continue
        yield from check_amount(name, amount, f"{path}.{name}")


def _known(written: ResourceList | None) -> dict[str, int | str]:
    result: dict[str, int | str] = {}
    for name, quantity in (written or {}).items():
        try:
            result[name] = parse_amount(quantity).nano
        except QuantityError:
            result[name] = str(quantity)
    return result
