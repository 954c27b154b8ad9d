"""The plugins, one file (or package) each. Importing this package registers all of them; to add one, import it here."""

from scheduler.plugins import (
    ascend,
    binpack,
    capacity_card,
    conformance,
    drf,
    gang,
    nodeorder,
    overcommit,
    predicates,
    priority,
    proportion,
)

__all__ = [
    "ascend",
    "binpack",
    "capacity_card",
    "conformance",
    "drf",
    "gang",
    "nodeorder",
    "overcommit",
    "predicates",
    "priority",
    "proportion",
]
