"""Figures of plugins about queues, jobs, namespaces and devices, for metrics and reports: shares, limits, deserved
amounts, states of devices.

A plugin returns one value at the extension point FIGURES when the actions are done. Decisions do not depend on it. The
value does not change afterwards, so it may be read while the next session runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.card_totals import CardTotals, QuotaProblem
from scheduler.api.resource import Vector


class QueueFigures(Protocol):
    """The figures of a queue, as the plugin that divides the cluster among queues computes them."""

    @property
    def share(self) -> float:
        """The largest quotient of used and deserved amount over all resources."""

    @property
    def overused(self) -> bool:
        """Whether it holds all that it deserves (proportion), or more (capacity)."""

    @property
    def request(self) -> Vector:
        """The amounts that its jobs held or requested when the session was opened; in a hierarchy, with those of child
        queues."""

    @property
    def allocated(self) -> Vector:
        """The amounts that they hold, including pipelined tasks."""

    @property
    def limit(self) -> Vector:
        """The most it may hold (realCapability in Volcano)."""

    @property
    def inqueue(self) -> Vector:
        """The amounts that admitted jobs still need for their minimum."""


class QueueUsage(NamedTuple):
    """The usage and limits of a queue for one name that a plugin limits, such as a card model, in thousandths."""

    used: float
    """What its Pods hold, including terminating ones."""
    limit: float
    inqueue: float = 0.0
    """What admitted jobs still need for their minimum."""
    requested: float = 0.0
    """What its Pods hold, and what those that wait request."""
    borrowed: float | None = None
    """The used amount beyond the limit. None: queues do not borrow from each other."""
    lent: float | None = None
    """The part of the limit that other queues use."""
    online: float | None = None
    """The used amount of online Pods (``workloads.is_online``). None: not known."""
    guarantee: float | None = None
    """What the cluster keeps for the queue. None: nothing is guaranteed."""
    elastic: float = 0.0
    """What jobs hold beyond their minimum."""
    totals: CardTotals | None = None
    """What the whole cluster has, for cards."""
    problem: QuotaProblem | None = None
    """What is wrong with the quotas of the card, if this concerns the queue."""

    @property
    def offline(self) -> float | None:
        """The used amount of the other Pods. None: not known."""
        return None if self.online is None else self.used - self.online


UsageByQueue = Mapping[str, Mapping[str, QueueUsage]]
"""Queue -> name -> usage."""


class CardUser(NamedTuple):
    """Pods that use cards."""

    queue: str
    """The queue that is charged for them; "": none is."""
    namespace: str
    online: bool
    """Whether they are online (``workloads.is_online``)."""


class CardOwner(NamedTuple):
    """What an object that manages Pods without a queue holds of a card."""

    user: CardUser
    owner: str
    """``Task.owner``."""
    card: str
    amount: float
    """In thousandths."""


CardsByUser = Mapping[CardUser, Mapping[str, float]]
"""User -> card -> what its Pods hold, including terminating ones, in thousandths."""


class QueueShare(msgspec.Struct, frozen=True):
    """The share of a queue, from a plugin that limits by name."""

    share: float
    """The largest quotient of used amount and limit."""
    overused: bool
    """Whether it holds more than a limit, as after a quota was lowered."""


class NamespaceFigures(msgspec.Struct, frozen=True):
    """A namespace with its share."""

    share: float
    """Its dominant share of the cluster, 0 to 1."""
    weight: float


class DeviceCounts(msgspec.Struct, frozen=True, eq=False):
    """The number of devices of one resource in each state."""

    resource: str
    nodes: Sequence[str]
    """Names of the nodes with such devices."""
    counts: NDArray[np.int64]
    """Shape (nodes, states), the states in the order of ``Availability``."""
    masks: NDArray[np.uint64] | None = None
    """An array of the same shape: bit i is set if the device with the number i is in that state. None: devices have no
    numbers. A node whose devices are not known one by one has counts and no bits."""


class Figures(msgspec.Struct, frozen=True):
    """The figures of one plugin, by name."""

    queues: Mapping[str, QueueFigures] = msgspec.field(default_factory=dict)
    shares: Mapping[str, QueueShare] = msgspec.field(default_factory=dict)
    """The figures of queues that are not in ``queues``."""
    counted: Mapping[str, Mapping[str, float]] = msgspec.field(default_factory=dict)
    """Queue -> resource -> the part of its usage that counts against its capability, if this is not all of it."""
    jobs: Iterable[tuple[str, str, float]] = ()
    """Namespace, name and dominant share of each job. Can be iterated repeatedly."""
    namespaces: Mapping[str, NamespaceFigures] = msgspec.field(default_factory=dict)
    devices: Sequence[DeviceCounts] = ()
    cards: Mapping[str, CardTotals] = msgspec.field(default_factory=dict)
    """The cards that nodes have or quotas list, by name."""
    card_owners: Sequence[CardOwner] = ()
    """The owners of Pods without a queue. The same owner and card may occur several times."""
