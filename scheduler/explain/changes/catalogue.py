"""All kinds of changes, in the order of ``ChangeKind``."""

from collections.abc import Callable, Iterator
from typing import Final

from scheduler.explain.changes.device_limits import raise_device_limit
from scheduler.explain.changes.jobs import allow_tiers, delete_others, lower_minimum, move_to_leaf, ungate
from scheduler.explain.changes.new_nodes import more_nodes
from scheduler.explain.changes.nodes import free_amounts, mend_nodes
from scheduler.explain.changes.priority import go_first, raise_priority
from scheduler.explain.changes.queues import (
    create_queue,
    open_queue,
    raise_deserved,
    raise_limits,
    raise_resource_quota,
    raise_weight,
)
from scheduler.explain.changes.requests import ask_for_less
from scheduler.explain.changes.shrinking import shrink_others
from scheduler.framework.remedies.adjustments import ChangeKind, Plan
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.registry import remedies_of

_KINDS: Final[tuple[tuple[ChangeKind, Callable[[Evidence], Iterator[Plan]]], ...]] = (
    (ChangeKind.GATES, ungate),
    (ChangeKind.MINIMUM, lower_minimum),
    (ChangeKind.TOPOLOGY, allow_tiers),
    (ChangeKind.QUEUE_OF_JOB, move_to_leaf),
    (ChangeKind.QUEUE, create_queue),
    (ChangeKind.QUEUE_STATE, open_queue),
    (ChangeKind.RESOURCE_QUOTA, raise_resource_quota),
    (ChangeKind.CAPABILITY, raise_limits),
    (ChangeKind.DESERVED, raise_deserved),
    (ChangeKind.WEIGHT, raise_weight),
    (ChangeKind.DEVICE_QUOTA, raise_device_limit),
    (ChangeKind.NODES_MADE_FIT, mend_nodes),
    (ChangeKind.AMOUNT, free_amounts),
    (ChangeKind.NODES, more_nodes),
    (ChangeKind.PRIORITY, raise_priority),
    (ChangeKind.SHRINK, shrink_others),
    (ChangeKind.DELETE, delete_others),
    (ChangeKind.DELETE, go_first),
    (ChangeKind.REQUEST, ask_for_less),
)


def catalogue(evidence: Evidence) -> Iterator[Plan]:
    """The plans that the evidence suggests, those of explain and of the configured plugins, those to be preferred
    first. Whether they help has to be tried."""
    order = list(ChangeKind)
    for _, plans in sorted([*_KINDS, *remedies_of(evidence.session)], key=lambda entry: order.index(entry[0])):
        yield from plans(evidence)
