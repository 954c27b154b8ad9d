"""Amounts of resources, as Kubernetes checks them wherever somebody writes them."""

from typing import Final

from scheduler.api.amount import Amount, parse_amount
from scheduler.api.objects import Quantity
from scheduler.api.quantity import QuantityError
from scheduler.webhooks import names
from scheduler.webhooks.fields import Problems, invalid

QUANTITY_SYNTAX: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
NOT_NEGATIVE: Final = "must be greater than or equal to 0"
UNIT: Final = 10**9
"""Amounts are counted in thousand-millionths."""
_MILLI: Final = 10**6
OBJECTS: Final = frozenset(
    (
        "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
        "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
    )
)  # fmt: skip
"""Things that quotas count; a container cannot ask for them."""


def is_native(name: str) -> bool:
    """Whether a resource is Kubernetes' own."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Whether a resource is somebody else's, such as a device."""
    return not is_native(name) and not name.startswith("requests.") and not names.qualified_name(f"requests.{name}")


def read_quantity(value: Quantity) -> Amount | None:
    """Rounded up to thousandths as the API server rounds; None: it is no quantity."""
    try:
        amount = parse_amount(value)
    except QuantityError:
        return None
    return Amount(-(-amount.nano // _MILLI) * _MILLI, amount.family)


def check_amount(name: str, amount: Amount, path: str) -> Problems:
    """An amount is not negative; of things and of devices it is a whole number."""
    if amount.nano < 0:
        yield invalid(path, str(amount), NOT_NEGATIVE)
    if (name in OBJECTS or is_extended(name)) and amount.nano % UNIT:
        yield invalid(path, str(amount), "must be an integer")
