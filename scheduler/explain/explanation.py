"""The data of an explanation. The command line renders it as a table or as a JSON or YAML document."""

from enum import Enum
from typing import Any, Final

import msgspec

from scheduler.api.reasons import Shortage
from scheduler.framework.remedies.gates import Gate
from scheduler.framework.remedies.registry import RemedyError

Raw = dict[str, Any]
AMOUNT_FIELDS: Final = (
    *("used", "counted", "deserved", "capability", "guarantee", "inqueue", "requested", "elastic", "borrowed", "lent"),
    *("granted", "existing", "healthy"),
)
"""The fields of ``QueueAmounts`` that are amounts."""


class NotFoundError(Exception):
    """The object to explain does not exist. The message names it."""


class Outlook(Enum):
    """What happens to the Pod or job if the cluster does not change otherwise."""

    PLACED = "placed"
    """It has the nodes it needs."""
    STARTS = "starts"
    """A later session places it."""
    WAITS = "waits"
    """No session places it until something changes."""
    ENDED = "ended"
    """It has finished or is terminating."""
    LEFT_ALONE = "left alone"
    """This scheduler does not place it."""


class QueuePosition(msgspec.Struct, frozen=True):
    """The position of a job among the waiting jobs of its queue."""

    queue: str
    position: int
    """The position in the queue, from 1."""
    waiting: int
    before: tuple[str, ...]
    """PodGroups (``namespace/name``) that the scheduler considers earlier, in that order."""


class RefusingNodes(msgspec.Struct, frozen=True):
    """Nodes that refuse a Pod for the same reasons."""

    names: tuple[str, ...]
    reasons: tuple[str, ...]
    shortages: tuple[Shortage, ...] = ()
    """The numbers of the node of this group that has most of it, for each resource or device that is short."""


class ResizedPod(msgspec.Struct, frozen=True):
    """A Pod that holds more of a resource than it requests, because it is resized in place."""

    pod: str
    """``namespace/name``."""
    node: str
    resource: str
    requested: float
    """The amount in its spec, in the units of vectors."""
    held: float


class RankedNode(msgspec.Struct, frozen=True):
    """A node that accepts the Pod, with its scores."""

    name: str
    total: float
    by_plugin: dict[str, float]


class Ranking(msgspec.Struct, frozen=True):
    """The nodes that accept one Pod, by score."""

    pod: str
    nodes: int
    """Number of nodes that accept it."""
    best: tuple[RankedNode, ...]
    """The nodes with the highest scores, best first. Always contains ``chosen``."""
    chosen: str = ""
    """The node it was placed on; "": none yet."""


class QueueAmounts(msgspec.Struct, frozen=True):
    """The amounts of one resource in a queue or one of its ancestors, in the units of vectors. None: no such limit."""

    queue: str
    resource: str
    used: float
    deserved: float | None
    capability: float | None
    inqueue: float | None = None
    """What admitted jobs still need for their minimum. This amount and the following ones are known for resources that
    plugins limit by name, such as cards."""
    requested: float | None = None
    """What Pods hold or wait for."""
    borrowed: float | None = None
    """The used amount beyond the capability. None: queues do not borrow from each other."""
    lent: float | None = None
    """How much of the capability other queues use."""
    counted: float | None = None
    """The part of the used amount that counts against the capability. None: all of it."""
    guarantee: float | None = None
    """What the cluster keeps for the queue."""
    elastic: float | None = None
    """What jobs hold beyond their minimum. This amount and the following ones are known for cards."""
    granted: float | None = None
    """The sum of the quotas of all queues."""
    existing: float | None = None
    """What the nodes have, healthy or not."""
    healthy: float | None = None
    """What nodes that are ready offer to Pods."""

    @property
    def limited(self) -> float:
        """The amount to compare with the capability."""
        return self.used if self.counted is None else self.counted


class AlternativeState(msgspec.Struct, frozen=True):
    """One of the accelerators that the tasks of a vcjob list."""

    name: str
    state: str
    """``chosen``, ``fits``, ``does not fit`` or ``not tried``."""
    reason: str = ""
    """Why it does not fit now, or did not when the scheduler chose, or ""."""


class Change(msgspec.Struct, frozen=True):
    """A change that a trial has shown to work. With one unit less of any part, it does not."""

    kinds: tuple[str, ...]
    text: str
    documents: tuple[Raw, ...] = ()
    """The change as a what-if file."""
    arguments: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    """Plugin -> arguments to change in the scheduler configuration."""
    evicted: tuple[str, ...] = ()
    """Pods (``namespace/name``) that the scheduler evicts once the change is made."""


class Explanation(msgspec.Struct):
    """The explanation of one Pod, PodGroup or workload."""

    kind: str
    """A key of ``EXPLAINED``, or the kind of another owner of Pods."""
    namespace: str
    name: str
    outlook: Outlook
    state: str
    """The outlook in one sentence."""
    group: str = ""
    """``namespace/name`` of its PodGroup."""
    subject: tuple[str, str] | None = None
    """Kind and name of the object in its namespace that is explained for it: of a JobFlow, the job of a step."""
    queue: str = ""
    priority: int = 0
    phase: str = ""
    needed: int = 0
    """Pods that must have a node at the same time."""
    size: int = 0
    placed: int = 0
    """Pods that have a node or have succeeded."""
    pipelined: bool = False
    """Whether it gets its nodes without a change, once the Pods that terminate there are gone."""
    placeable: int = 0
    """Further Pods that found a node, but had to give it back because the gang was incomplete."""
    queue_position: QueuePosition | None = None
    gates: list[Gate] = msgspec.field(default_factory=list)
    alternatives: tuple[AlternativeState, ...] = ()
    """The alternatives of a vcjob, the preferred one first."""
    queues: list[QueueAmounts] = msgspec.field(default_factory=list)
    nodes: list[RefusingNodes] = msgspec.field(default_factory=list)
    resizing: list[ResizedPod] = msgspec.field(default_factory=list)
    """Pods on these nodes that hold more of what is short than they request."""
    ranking: Ranking | None = None
    changes: list[Change] = msgspec.field(default_factory=list)
    """Changes that would let it run, preferred ones first."""
    searched: bool = False
    """Whether changes were searched for."""
    remedy_errors: list[RemedyError] = msgspec.field(default_factory=list)
    """The remedies of plugins that raised an exception. Their changes were not tried."""
    problems: list[str] = msgspec.field(default_factory=list)
    """Invalid and unknown arguments of plugins and actions in the configuration."""
