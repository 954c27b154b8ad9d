"""What an explanation holds: plain data, of which the table and the documents of the command line are views."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from scheduler.api.reasons import Shortage
from scheduler.framework.remedies.gates import Gate

Raw = dict[str, Any]


class NotThereError(Exception):
    """What is to be explained does not exist; the message says what."""


class Outlook(Enum):
    """What will become of it if nobody changes anything."""

    PLACED = "placed"
    """It has its nodes."""
    STARTS = "starts"
    """It gets its nodes in a session to come."""
    WAITS = "waits"
    """It waits for good, as things are."""
    ENDED = "ended"
    """It is finished, or on its way out."""
    LEFT_ALONE = "left alone"
    """This scheduler does not place it."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The place of a job among those of its queue that wait."""

    queue: str
    position: int
    """From 1."""
    waiting: int
    before: tuple[str, ...]
    """PodGroups (``namespace/name``) whose turn comes first, the first one first."""


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that refuse a Pod for the same reasons."""

    names: tuple[str, ...]
    reasons: tuple[str, ...]
    shortages: tuple[Shortage, ...] = ()
    """Of each resource and device that is short, what the node of the group has that has most."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A node that takes the Pod, and how good it is."""

    name: str
    total: float
    by_plugin: dict[str, float]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The nodes that one Pod may have."""

    pod: str
    nodes: int
    """Number of nodes that take it."""
    best: tuple[Ranked, ...]
    """The best, the first one first; the one it has is always among them."""
    chosen: str = ""
    """The node it got; "": none yet."""


@dataclass(frozen=True, slots=True)
class QueueNumbers:
    """One resource of a queue, or of one above it, in the units of vectors; None: no such limit."""

    queue: str
    resource: str
    used: float
    deserved: float | None
    capability: float | None


@dataclass(frozen=True, slots=True)
class Change:
    """A change that was tried, and lets it run; with one unit less of anything in it, it does not."""

    kinds: tuple[str, ...]
    text: str
    documents: tuple[Raw, ...] = ()
    """The change as a what-if file."""
    arguments: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Plugin -> arguments of the configuration that change."""
    evicted: tuple[str, ...] = ()
    """Pods (``namespace/name``) that are evicted when the change is made."""


@dataclass(slots=True)
class Explanation:
    """All there is to say about one Pod, PodGroup or job."""

    kind: str
    namespace: str
    name: str
    outlook: Outlook
    state: str
    """In a sentence."""
    group: str = ""
    """``namespace/name`` of its PodGroup."""
    queue: str = ""
    priority: int = 0
    phase: str = ""
    needed: int = 0
    """Pods that must have a node at the same time."""
    size: int = 0
    placed: int = 0
    """Pods that have a node, or have done their work."""
    placeable: int = 0
    """Pods that would have a node besides, if the others of the gang had one."""
    turn: Turn | None = None
    gates: list[Gate] = field(default_factory=list)
    queues: list[QueueNumbers] = field(default_factory=list)
    nodes: list[NodeGroup] = field(default_factory=list)
    ranking: Ranking | None = None
    changes: list[Change] = field(default_factory=list)
    """What would let it run, the smallest first."""
    searched: bool = False
    """Whether changes were looked for."""
