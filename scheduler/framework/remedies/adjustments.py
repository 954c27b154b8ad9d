"""An adjustment is a change with an amount. A plan is a set of adjustments that are made together."""

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

import msgspec

from scheduler.api.kinds import Kind

Raw = dict[str, Any]
Transform = Callable[[Raw], Raw | None]
Key = tuple["ChangeKind", str]


class ChangeKind(Enum):
    """The kinds of changes, preferred ones first: changes to the job and queue that their owner can make, plugin
    arguments, labels and taints, freed amounts, devices and volumes, new nodes, changes that take from other jobs,
    and last reductions of the job itself."""

    GATES = "scheduling gates"
    MINIMUM = "minMember"
    TOPOLOGY = "network topology"
    REVOCABLE = "revocable zone"
    CHIP_FAMILY = "family of chips"
    QUEUE_OF_JOB = "queue of the job"
    QUEUE = "queue"
    QUEUE_STATE = "queue state"
    NODE_GROUP = "node group"
    NODE_GROUP_LIMIT = "limit of a node group"
    RESOURCE_QUOTA = "ResourceQuota"
    CARD_QUOTA = "card quota"
    CAPABILITY = "queue capability"
    DESERVED = "queue deserved"
    WEIGHT = "queue weight"
    DEVICE_QUOTA = "device quota"
    OVERCOMMIT = "overcommit"
    HOURS = "hours of a zone"
    LOAD = "load of nodes"
    PLUGIN = "plugin"
    """A change that a plugin offers and that is of no other kind."""
    NODES_MADE_FIT = "nodes made fit"
    CHIPS = "chips"
    DEVICES = "devices"
    STORAGE = "storage"
    VOLUMES = "volumes"
    ATTACHMENTS = "volumes of one node"
    AMOUNT = "amount on one node"
    NODES = "nodes"
    PRIORITY = "priority"
    SHRINK = "size of other jobs"
    DELETE = "delete"
    REQUEST = "request of the job"


REDISTRIBUTING: Final = frozenset(
    {
        ChangeKind.QUEUE, ChangeKind.QUEUE_STATE, ChangeKind.RESOURCE_QUOTA, ChangeKind.CARD_QUOTA,
        ChangeKind.CAPABILITY, ChangeKind.DESERVED, ChangeKind.WEIGHT, ChangeKind.DEVICE_QUOTA, ChangeKind.OVERCOMMIT,
        ChangeKind.PRIORITY, ChangeKind.SHRINK, ChangeKind.DELETE,
    }
)  # fmt: skip
"""Kinds that only redistribute existing resources: they make no node larger, and no Pod or gang smaller."""


class Edit(msgspec.Struct, frozen=True):
    """A change of one object. ``transform`` receives a copy of the object and returns its new state; None deletes
    it. ``creates``: an object that does not exist is created, from one that has only a name; otherwise it is
    skipped."""

    kind: Kind
    namespace: str
    name: str
    transform: Transform
    creates: bool = False


class Step(msgspec.Struct, frozen=True):
    """An adjustment with a given amount."""

    text: str
    edits: tuple[Edit, ...] = ()
    arguments: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    """Plugin -> arguments to change in the configuration."""


class Adjustment(msgspec.Struct, frozen=True):
    """A change with an amount of 1, 2, 3 ... units. A larger amount is assumed never to do harm."""

    kind: ChangeKind
    estimate: int
    """The amount that is estimated to be enough."""
    most: int
    """The maximum amount."""
    at: Callable[[int], Step]
    """Returns the change for an amount, from 1 on."""
    what: str = ""
    """The changed object or field; it distinguishes several adjustments of a kind."""
    grain: int = 1
    """Units of a round amount, such as a core or a gibibyte; multiples of it are tried first."""
    split: "Callable[[int], Plan] | None" = None
    """Returns one adjustment of one unit for each unit of an amount, where a subset of them may be enough. None: any
    unit is as good as another."""
    shared: int = 0
    """The estimate if earlier jobs in the queue use a part of the added amount; 0: the same as ``estimate``."""

    @property
    def attempts(self) -> tuple[int, int]:
        """The amounts to try: the larger estimate, and the maximum."""
        return (min(max(self.shared, self.estimate), self.most), self.most)

    @property
    def key(self) -> Key:
        """Identifies the adjustment."""
        return (self.kind, self.what)

    @property
    def preference(self) -> int:
        """The position in the order of kinds; lower is preferred."""
        return list(ChangeKind).index(self.kind)


Plan = tuple[Adjustment, ...]


def indivisible(kind: ChangeKind, step: Step, what: str = "") -> Adjustment:
    """An adjustment that has only one unit."""
    return Adjustment(kind, 1, 1, lambda amount: step, what)


# --- text ---
def join_names(names: list[str], most: int = 4) -> str:
    """``a, b, c and 3 more``"""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
