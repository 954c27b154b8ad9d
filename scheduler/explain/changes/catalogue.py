"""All kinds of changes, in the order of ``ChangeKind``."""

from collections.abc import Callable, Iterator
from typing import Final

from scheduler.explain.changes.chips import free_chips
from scheduler.explain.changes.evidence import Evidence
from scheduler.explain.changes.jobs import allow_tiers, delete_others, lower_minimum, move_to_leaf, ungate
from scheduler.explain.changes.lever import Plan
from scheduler.explain.changes.new_nodes import more_nodes
from scheduler.explain.changes.nodes import free_amounts, mend_nodes
from scheduler.explain.changes.queues import (
    create_queue,
    open_queue,
    raise_card_quota,
    raise_deserved,
    raise_limits,
    raise_overcommit,
    raise_resource_quota,
    raise_weight,
)

_KINDS: Final[tuple[Callable[[Evidence], Iterator[Plan]], ...]] = (
    ungate,
    lower_minimum,
    allow_tiers,
    move_to_leaf,
    create_queue,
    open_queue,
    raise_resource_quota,
    raise_card_quota,
    raise_limits,
    raise_deserved,
    raise_weight,
    raise_overcommit,
    mend_nodes,
    free_chips,
    free_amounts,
    more_nodes,
    delete_others,
)


def catalogue(evidence: Evidence) -> Iterator[Plan]:
    """The plans that the evidence suggests, those to be preferred first. Whether they help has to be tried."""
    for kind in _KINDS:
        yield from kind(evidence)
