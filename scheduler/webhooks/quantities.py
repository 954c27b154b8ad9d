"""Amounts of resources, as Kubernetes checks them wherever they are written."""

from typing import Final

from scheduler.api.amount import Amount
from scheduler.webhooks import names
from scheduler.webhooks.fields import Problems, invalid

QUANTITY_SYNTAX: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_NOT_NEGATIVE: Final = "must be greater than or equal to 0"
UNIT: Final = 10**9
"""Amounts are counted in thousand-millionths."""
_OBJECTS: Final = frozenset(
    (
        "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
        "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
    )
)  # fmt: skip
"""Things that quotas count; a container cannot ask for them."""


def _is_native(name: str) -> bool:
    """Whether a resource is Kubernetes' own."""
    return "/" not in name or "kubernetes.io/" in name


def _is_extended(name: str) -> bool:
    """Whether a resource is not Kubernetes' own, such as a device."""
    return not _is_native(name) and not name.startswith("requests.") and not names.qualified_name(f"requests.{name}")


def check_amount(name: str, amount: Amount, path: str) -> Problems:
    """An amount is not negative; of things and of devices it is a whole number."""
    if amount.nano < 0:
        yield invalid(path, str(amount), _NOT_NEGATIVE)
    if (name in _OBJECTS or _is_extended(name)) and amount.nano % UNIT:
        yield invalid(path, str(amount), "must be an integer")
