"""The changes that ``explain`` tries, one module for each area, and their catalogue in the order of ``ChangeKind``."""

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from scheduler.explain.changes.jobs import (
    lower_minimum,
    move_to_child_queue,
    raise_highest_tier,
    raise_priority,
    raise_priority_and_add,
    remove_scheduling_gates,
)
from scheduler.explain.changes.new_nodes import add_nodes
from scheduler.explain.changes.nodes import fix_nodes, free_amounts
from scheduler.explain.changes.other_jobs import delete_others, scale_down_others
from scheduler.explain.changes.queues import (
    create_queue,
    open_queue,
    raise_deserved,
    raise_device_limit,
    raise_limits,
    raise_resource_quota,
    raise_weight,
)
from scheduler.explain.changes.requests import reduce_requests
from scheduler.framework.remedies.adjustments import ChangeKind, Plan
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.registry import remedies_of

_KINDS: Final[tuple[tuple[ChangeKind, Callable[[Evidence], Iterator[Plan]]], ...]] = (
    (ChangeKind.GATES, remove_scheduling_gates),
    (ChangeKind.MINIMUM, lower_minimum),
    (ChangeKind.TOPOLOGY, raise_highest_tier),
    (ChangeKind.QUEUE_OF_JOB, move_to_child_queue),
    (ChangeKind.QUEUE, create_queue),
    (ChangeKind.QUEUE_STATE, open_queue),
    (ChangeKind.RESOURCE_QUOTA, raise_resource_quota),
    (ChangeKind.CAPABILITY, raise_limits),
    (ChangeKind.DESERVED, raise_deserved),
    (ChangeKind.WEIGHT, raise_weight),
    (ChangeKind.DEVICE_QUOTA, raise_device_limit),
    (ChangeKind.NODES_MADE_FIT, fix_nodes),
    (ChangeKind.AMOUNT, free_amounts),
    (ChangeKind.NODES, add_nodes),
    (ChangeKind.PRIORITY, raise_priority),
    (ChangeKind.SHRINK, scale_down_others),
    (ChangeKind.DELETE, delete_others),
    (ChangeKind.DELETE, raise_priority_and_add),
    (ChangeKind.REQUEST, reduce_requests),
)


def catalogue(evidence: Evidence, without: Collection[Callable[..., Any]] = ()) -> Iterator[Plan]:
    """The plans that the evidence suggests, of explain and of the configured plugins, preferred ones first. A trial
    shows whether a plan helps. ``without``: remedies of plugins to leave out. Raises RemedyError."""
    order = list(ChangeKind)
    for _, plans in sorted([*_KINDS, *remedies_of(evidence.session, without)], key=lambda entry: order.index(entry[0])):
        yield from plans(evidence)
