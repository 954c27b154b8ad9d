"""What holds a job or a Pod: one entry for each plugin or mechanism that does."""

from dataclasses import dataclass
from enum import Enum

from scheduler.api.reasons import Shortage


class Held(Enum):
    """What can hold a job or a Pod, in the order of the road to a node."""

    OWNER = "owner"
    """The object that is to make its Pods has not done so."""
    QUEUE = "queue"
    """Its queue is missing or takes nothing."""
    ENQUEUE = "enqueue"
    """It is not let into its queue."""
    VALIDITY = "validity"
    """As it is, it could not be placed on any cluster."""
    GATES = "scheduling gates"
    OVERUSED = "overused"
    """Its queue has all that it deserves and is passed over."""
    QUOTA = "quota"
    """Its queue may not have more of something."""
    VOLUMES = "volumes"
    """Its claims are not bound, or their volumes cannot be reached from every node."""
    NODES = "nodes"
    """No node takes it."""
    GANG = "gang"
    """Not enough of its Pods find a place."""
    PIPELINED = "pipelined"
    """It is pipelined: its place is promised, and other Pods still hold it."""
    PREEMPT = "preempt"
    RECLAIM = "reclaim"
    GANG_PREEMPT = "gangpreempt"
    GANG_RECLAIM = "gangreclaim"
    """Why no Pod is evicted for it."""


@dataclass(frozen=True, slots=True)
class Gate:
    """One thing that holds it back."""

    held: Held
    message: str
    plugin: str = ""
    """Who says so; "": no plugin in particular."""
    shortages: tuple[Shortage, ...] = ()
