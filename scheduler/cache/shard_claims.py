"""Claims of several schedulers on nodes and queues: each node and each queue is used by at most one of them.

Every scheduler publishes the names that it has claimed in its NodeShard, and watches all NodeShards. It

1. claims names that it desires and that no other scheduler has claimed;
2. uses a name while the watch shows its own claim to the name and no other's;
3. withdraws a claim that it does not desire any more, and one that it has in common with a scheduler whose name comes
   first, once its own writes have ended.

Two schedulers never use the same name. The API server orders the claims, and a watch delivers them in this order: a
scheduler that sees its own claim has seen all earlier ones. So of two schedulers that claim a name at the same time,
the later one does not begin to use it, and waits until the other has withdrawn. A scheduler changes neither its claims
nor what it uses while its last claim is under way, that is, until the watch has shown it. A scheduler that takes over a
shard waits first until its watch has delivered the present NodeShards: the last leader may have withdrawn a claim that
a late watch still shows.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

NOTHING: Final[frozenset[str]] = frozenset()


class ShardNames(msgspec.Struct, frozen=True):
    """The claims of one scheduler. Names of nodes, or of queues."""

    usable: frozenset[str] = NOTHING
    """What it may use."""
    published: frozenset[str] = NOTHING
    """What it has claimed according to the watch."""
    due: frozenset[str] = NOTHING
    """What it should claim next."""
    desired: frozenset[str] = NOTHING

    @property
    def withdrawn(self) -> frozenset[str]:
        """What it gives up. Its writes must have ended before ``due`` is published."""
        return self.published - self.due


NO_CLAIMS: Final = ShardNames()


def claims(me: str, desired: frozenset[str], published: Mapping[str, frozenset[str]]) -> ShardNames:
    """Returns the claims of the scheduler ``me``. ``published``: name of each scheduler -> its claims, as the watch
    shows them."""
    mine = published.get(me, NOTHING)
    others = NOTHING.union(*(names for shard, names in published.items() if shard != me))
    first = NOTHING.union(*(names for shard, names in published.items() if shard < me))
    return ShardNames(
        usable=(mine & desired) - others,
        published=mine,
        due=(mine & desired) - first | desired - others,
        desired=desired,
    )
