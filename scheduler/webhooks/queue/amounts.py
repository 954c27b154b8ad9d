"""Validation of the amounts of a queue: their quantities, and guarantee <= deserved <= capability.

A queue without ``deserved`` may have a guarantee, as in the card quota design; its capability is then compared with the
guarantee.
"""

from collections.abc import Iterator
from typing import Final

from scheduler.api.objects import ResourceList
from scheduler.api.quantity import ExactAmount, QuantityError, parse_amount
from scheduler.api.resource import is_native
from scheduler.api.scheduling import QueueSpec
from scheduler.webhooks.fields import invalid
from scheduler.webhooks.names import qualified_name

Amounts = dict[str, ExactAmount]
_QUANTITY_SYNTAX: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_OBJECT_COUNTS: Final = frozenset(
    (
        "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
        "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
    )
)  # fmt: skip
"""The resources of ResourceQuotas that count objects."""


def guarantee_of(spec: QueueSpec) -> ResourceList:
    """The guarantee of a queue; empty if it has none."""
    return (spec.guarantee.resource if spec.guarantee else None) or {}


def equal_amounts(left: ResourceList | None, right: ResourceList | None) -> bool:
    """Whether the amounts are equal in value (``1000m`` equals ``1``)."""
    return _parsed(left) == _parsed(right)


def amount_problems(spec: QueueSpec, path: str) -> Iterator[str]:
    """The problems of the amounts; ``path`` is the path of the spec."""
    capability: Amounts = {}
    deserved: Amounts = {}
    yield from _parse_quantities(spec.capability, f"{path}.capability", capability)
    yield from _parse_quantities(spec.deserved, f"{path}.deserved", deserved)
    guarantee: Amounts = {}
    yield from _parse_quantities(guarantee_of(spec), f"{path}.guarantee.resource", guarantee)
    for name, minimum in guarantee.items():
        bound = f"must be >= guarantee[{name}]={minimum}"
        if spec.deserved and name not in spec.deserved:
            yield invalid(f"{path}.deserved.{name}", "<nil>", f"deserved[{name}] {bound}")
        elif name in deserved and deserved[name].nano < minimum.nano:
            yield invalid(f"{path}.deserved.{name}", str(deserved[name]), f"deserved[{name}]={deserved[name]} {bound}")
        elif name in capability and capability[name].nano < minimum.nano:
            amount = capability[name]
            yield invalid(f"{path}.capability.{name}", str(amount), f"capability[{name}]={amount} {bound}")
    for name, amount in deserved.items():
        limit = capability.get(name)
        if limit is not None and amount.nano > limit.nano:
            text = f"deserved[{name}]={amount} must be <= capability[{name}]={limit}"
            yield invalid(f"{path}.deserved.{name}", str(amount), text)


def _parse_quantities(resources: ResourceList | None, path: str, parsed: Amounts) -> Iterator[str]:
    """The problems of each quantity. Adds the valid ones to ``parsed``."""
    for name, quantity in (resources or {}).items():
        try:
            amount = parsed[name] = parse_amount(quantity)
        except QuantityError:
            yield invalid(f"{path}.{name}", str(quantity)[:64], _QUANTITY_SYNTAX)
            continue
        yield from _value_problems(name, amount, f"{path}.{name}")


def _value_problems(name: str, amount: ExactAmount, path: str) -> Iterator[str]:
    """Amounts are not negative; those of object counts and of extended resources are integers."""
    if amount.nano < 0:
        yield invalid(path, str(amount), "must be greater than or equal to 0")
    if (name in _OBJECT_COUNTS or _is_extended(name)) and not amount.is_integer():
        yield invalid(path, str(amount), "must be an integer")


def _is_extended(name: str) -> bool:
    """Whether the resource is not one of Kubernetes itself, such as a device."""
    return not is_native(name) and not name.startswith("requests.") and not qualified_name(f"requests.{name}")


def _parsed(resources: ResourceList | None) -> dict[str, int | str]:
    result: dict[str, int | str] = {}
    for name, quantity in (resources or {}).items():
        try:
            result[name] = parse_amount(quantity).nano
        except QuantityError:
            result[name] = str(quantity)
    return result
