"""An adjustment is something that can be changed by degrees; a plan is what has to be changed together."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from scheduler.api.kinds import Kind

Raw = dict[str, Any]
Transform = Callable[[Raw], Raw | None]
Key = tuple["ChangeKind", str]


class ChangeKind(Enum):
    """What kinds of changes there are, in the order in which they are preferred: first what only the owner of the job
    or the queue has to write, then arguments, then what needs labels and taints, then free amounts, devices and
    volumes, then new machines, then what others would lose, and last what the job would have less of."""

    GATES = "scheduling gates"
    MINIMUM = "minMember"
    TOPOLOGY = "network topology"
    REVOCABLE = "revocable zone"
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


SHARING: Final = frozenset(
    {
        ChangeKind.QUEUE, ChangeKind.QUEUE_STATE, ChangeKind.RESOURCE_QUOTA, ChangeKind.CARD_QUOTA,
        ChangeKind.CAPABILITY, ChangeKind.DESERVED, ChangeKind.WEIGHT, ChangeKind.DEVICE_QUOTA, ChangeKind.OVERCOMMIT,
        ChangeKind.PRIORITY, ChangeKind.SHRINK, ChangeKind.DELETE,
    }
)  # fmt: skip
"""Those that say who gets what is there: they make no node larger, no Pod smaller, and no gang smaller."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What becomes of one object: ``transform`` is given a copy of it, and gives the object as it should be, None for
    gone. Of an object that is not there nothing becomes, unless the edit ``creates`` it (of a name alone)."""

    kind: Kind
    namespace: str
    name: str
    transform: Transform
    creates: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """An adjustment at one degree."""

    text: str
    edits: tuple[Edit, ...] = ()
    arguments: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Plugin -> arguments of the configuration."""


@dataclass(frozen=True, slots=True)
class Adjustment:
    """Something that can be changed by 1, 2, 3 ... units. More of it never does harm, as far as one can tell."""

    kind: ChangeKind
    guess: int
    """The degree that should do."""
    most: int
    """The highest degree that makes sense."""
    at: Callable[[int], Step]
    """The change of a degree from 1 on."""
    what: str = ""
    """What is changed, where there may be several adjustments of a kind."""
    grain: int = 1
    """Units in what people count by, a core or a gibibyte: such amounts are tried first."""
    apart: "Callable[[int], Plan] | None" = None
    """The same at a degree as adjustments of one unit each, where some may do without those before them; None: all
    units are alike."""
    shared: int = 0
    """The degree that should do where jobs that come first take their part of what is added; 0: the same."""

    @property
    def attempts(self) -> tuple[int, int]:
        """The degrees at which it is tried: one that should do for all, and the highest."""
        return (min(max(self.shared, self.guess), self.most), self.most)

    @property
    def key(self) -> Key:
        """Identifies the adjustment among others."""
        return (self.kind, self.what)

    @property
    def welcome(self) -> int:
        """The place among all kinds: the higher, the less welcome."""
        return list(ChangeKind).index(self.kind)


Plan = tuple[Adjustment, ...]


def whole(kind: ChangeKind, step: Step, what: str = "") -> Adjustment:
    """An adjustment of which there is only all."""
    return Adjustment(kind, 1, 1, lambda degree: step, what)


# --- words ---
def listed(names: list[str], most: int = 4) -> str:
    """``a, b, c and 3 more``"""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
