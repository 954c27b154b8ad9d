"""The scheduler's model of a queue."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.api.names import ROOT_QUEUE
from scheduler.api.quantity import ExactAmount
from scheduler.api.resource import Vector
from scheduler.api.scheduling import QueueAffinity

OPEN = "Open"
CLOSING = "Closing"
"""The queue admits no new PodGroups and still has some."""
CLOSED = "Closed"
UNKNOWN = "Unknown"
QUEUE_PHASES = ("pending", "inqueue", "running", "unknown", "completed")
"""The phases of PodGroups that are counted for each queue, in its status and in metrics."""
COUNTED_PHASE = {"": "pending"} | {phase.capitalize(): phase for phase in QUEUE_PHASES}
"""Phase of a PodGroup -> the phase as which it is counted; any other: ``unknown``."""


@dataclass(slots=True, eq=False)
class Queue:
    """A Queue object with its amounts as vectors. Plugins keep the amounts that they compute (share, allocated)."""

    name: str
    weight: int
    priority: int
    creation: float
    state: str
    """Open, Closed, Closing, Unknown or "" (not yet set by the queue controller; counts as open)."""
    reclaimable: bool
    parent: str
    capability: Vector
    """Upper bound; infinity for resources that are not listed."""
    has_capability: bool
    guarantee: Vector
    deserved: Vector
    """The deserved amount in the spec; 0 for resources that are not listed."""
    deserves: frozenset[str] = frozenset()
    """Resources with a deserved or guaranteed amount in the spec, even 0."""
    device_limits: dict[str, ExactAmount] = field(default_factory=dict)
    """``deviceclass/<class>`` and ``<dimension>.deviceclass/<class>`` of the capability."""
    affinity: QueueAffinity | None = None
    """The node groups that its Pods may use."""
    annotations: dict[str, str] = field(default_factory=dict)
    allocated: dict[str, str] = field(default_factory=dict)
    """status.allocated as the API server has it."""
    groups: dict[str, int] = field(default_factory=dict)
    """The numbers of PodGroups by phase in the status, as the API server has them."""
    cards: dict[str, dict[str, str]] = field(default_factory=dict)
    """status.cards as last written, or as on the API server before the first write. An API server with Volcano's
    resource definition does not store it."""
    shown_deserved: dict[str, str] | None = None
    """status.deserved, as ``cards``. None: there is none."""

    @property
    def open(self) -> bool:
        return self.state in (OPEN, "")


def not_open_message(queue: Queue) -> str:
    """Why a queue that is not open takes no jobs."""
    return f"queue {queue.name} is {queue.state}: only an Open queue takes jobs"


def ancestors(queues: Mapping[str, Queue], name: str) -> list[str]:
    """Returns the ancestors of a queue, nearest first. A cycle or a missing parent ends the list. A queue that does not
    exist has no ancestors."""
    result: list[str] = []
    seen = {name}
    while name != ROOT_QUEUE and name in queues:
        name = queues[name].parent or ROOT_QUEUE
        if name in seen or name not in queues:
            break
        seen.add(name)
        result.append(name)
    return result
