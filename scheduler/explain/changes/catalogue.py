"""All kinds of changes, in the order of ``ChangeKind``."""

from collections.abc import Callable, Iterator
from typing import Final

from scheduler.explain.changes.cards import raise_card_quota
from scheduler.explain.changes.chips import free_chips
from scheduler.explain.changes.devices import more_devices, raise_device_limit
from scheduler.explain.changes.evidence import Evidence
from scheduler.explain.changes.groups import allow_groups, raise_group_limits
from scheduler.explain.changes.jobs import allow_tiers, delete_others, lower_minimum, move_to_leaf, ungate
from scheduler.explain.changes.lever import Plan
from scheduler.explain.changes.loads import raise_overcommit, raise_thresholds
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
from scheduler.explain.changes.volumes import more_attachments, more_storage, more_volumes
from scheduler.explain.changes.zones import use_loans

_KINDS: Final[tuple[Callable[[Evidence], Iterator[Plan]], ...]] = (
    ungate,
    lower_minimum,
    allow_tiers,
    use_loans,
    move_to_leaf,
    create_queue,
    open_queue,
    allow_groups,
    raise_group_limits,
    raise_resource_quota,
    raise_card_quota,
    raise_limits,
    raise_deserved,
    raise_weight,
    raise_device_limit,
    raise_overcommit,
    raise_thresholds,
    mend_nodes,
    free_chips,
    more_devices,
    more_storage,
    more_volumes,
    more_attachments,
    free_amounts,
    more_nodes,
    raise_priority,
    shrink_others,
    delete_others,
    go_first,
    ask_for_less,
)


def catalogue(evidence: Evidence) -> Iterator[Plan]:
    """The plans that the evidence suggests, those to be preferred first. Whether they help has to be tried."""
    for kind in _KINDS:
        yield from kind(evidence)
