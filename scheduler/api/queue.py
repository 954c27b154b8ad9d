"""A queue as the scheduler sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.api.amount import Amount
from scheduler.api.names import ROOT_QUEUE
from scheduler.api.resource import Vector
from scheduler.api.scheduling import QueueAffinity

OPEN = "Open"
CLOSING = "Closing"
"""It takes nothing new, and still has PodGroups."""
CLOSED = "Closed"
UNKNOWN = "Unknown"


@dataclass(slots=True, eq=False)
class Queue:
    """One Queue object, its amounts as vectors. Amounts of plugins (deserved by share, allocated) are theirs."""

    name: str
    weight: int
    priority: int
    creation: float
    state: str
    """Open, Closed, Closing, Unknown or "" (not yet seen by the queue controller; counts as open)."""
    reclaimable: bool
    parent: str
    capability: Vector
    """Upper bound; a resource not listed is infinity."""
    has_capability: bool
    guarantee: Vector
    deserved: Vector
    """The deserved amount written in the spec (0 where not listed)."""
    deserves: frozenset[str] = frozenset()
    """Resources of which the spec names a deserved or guaranteed amount, be it 0."""
    device_limits: dict[str, Amount] = field(default_factory=dict)
    """``deviceclass/<class>`` and ``<dimension>.deviceclass/<class>`` of the capability."""
    affinity: QueueAffinity | None = None
    """The node groups its Pods may use."""
    annotations: dict[str, str] = field(default_factory=dict)
    allocated: dict[str, str] = field(default_factory=dict)
    """status.allocated as the API server has it."""

    @property
    def open(self) -> bool:
        return self.state in (OPEN, "")


def not_open_message(queue: Queue) -> str:
    """Why a queue that is not open takes no jobs."""
    return f"queue {queue.name} is {queue.state}: only an Open queue takes jobs"


def ancestors(queues: Mapping[str, Queue], name: str) -> list[str]:
    """The queues above one, nearest first; a cycle of parents or a parent that does not exist ends the list. Above a
    queue that does not exist is none."""
    result: list[str] = []
    seen = {name}
    while name != ROOT_QUEUE and name in queues:
        name = queues[name].parent or ROOT_QUEUE
        if name in seen or name not in queues:
            break
        seen.add(name)
        result.append(name)
    return result
