"""The interface of a family of devices: requests of Pods, cards of nodes, placement, and annotations.

Everything else (ledger, columns, undo, evictions) is common to all families. Each session creates its families. The
results of their methods depend only on the arguments and on the parameters of the constructor.

The number of Pods that fit on a node one after the other is computed without placing each of them where possible. If a
Pod has one container that requests the same of each of its cards, cards are independent: each has room for a number of
containers, and a Pod takes the first cards that have room left. This requires an order of cards that placements do not
change: a fixed one, or one with the used cards first. For any other order the tasks are placed.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from scheduler.api.objects import ConfigMap, Container, Node
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.reasons import Malformed
from scheduler.api.task import Task, TaskClass
from scheduler.framework.class_view.runs import MAX_RUN
from scheduler.plugins.deviceshare.cards import (
    ALL_CARDS,
    ALL_CORES,
    Card,
    CardPlacement,
    CardRequests,
    Cards,
    ContainerRequest,
    Grant,
    charge,
    mask_of,
)


class Claim(Hashable, Protocol):
    """The request of a class of tasks to a family. Equal claims get equal placements. Each family has its own type."""

    @property
    def description(self) -> str:
        """The request, for messages after ``node(s) had no``: ``2 GPUs with 4000 MiB free``."""

    @property
    def unserved(self) -> str:
        """Why the device plugin of the family cannot serve the Pods, whatever the node, or ""."""


C = TypeVar("C", bound=Claim)


class FamilyInventory(msgspec.Struct, frozen=True):
    """The cards of one node, and what its Pods hold of them."""

    cards: Cards
    """The cards without any usage."""
    names: tuple[str, ...]
    """The ids of the cards in annotations."""
    grants: Mapping[str, Grant] = msgspec.field(default_factory=dict)
    """uid -> what a Pod on the node holds."""
    problems: tuple[Malformed, ...] = ()
    models: tuple[str, ...] = ()
    """The models of the cards, for families in which Pods can select by model."""
    mode: str = ""
    """How the node shares its cards, for families in which Pods can select by it."""
    unhealthy: Mapping[int, str] = msgspec.field(default_factory=dict)
    """Position of a card that the device plugin reports as unhealthy -> its name in messages."""


class DeviceFamily(ABC, Generic[C]):
    """One kind of device."""

    name: str
    """Volcano's name of the device."""
    title: str
    """Plural, for messages: ``vGPUs``."""
    lock: str = ""
    """The annotation that locks a node for its device plugin; "" if there is no lock."""
    config_map_prefix: str = ""
    """Namespace and name of the ConfigMap that describes a node's devices, without the name of the node; "": there is
    none."""

    @property
    @abstractmethod
    def key(self) -> Hashable:
        """Families with equal keys read the same from a node."""

    @abstractmethod
    def claim(self, cls: TaskClass) -> C | None:
        """Returns the request of a class; None if it requests no device of this family."""

    @abstractmethod
    def has(self, node: Node) -> bool:
        """Whether a node has devices of this family."""

    @abstractmethod
    def read(self, node: Node, source: ConfigMap | None, tasks: Sequence[Task]) -> FamilyInventory:
        """Reads the cards of a node that has devices, and what the ``tasks`` on it hold of them, by entries of their
        annotations. ``source``: its ConfigMap, if there is one."""

    @abstractmethod
    def upper_bounds(self, claim: C, card: Card) -> CardRequests:
        """Returns the most that each container of a task with the claim may use of ``card``, and the number of
        cards."""

    def names_cards(self, claim: C) -> bool:
        """Whether the claim accepts or excludes single cards by their ids."""
        return False

    def eligible(self, claim: C, inventory: FamilyInventory) -> int:
        """Returns the mask of the cards of a node that the claim accepts, whether free or not; 0 if there is none."""
        return ALL_CARDS

    @abstractmethod
    def place(self, cards: Cards, claim: C, eligible: int) -> CardPlacement | None:
        """Returns the placement of one task on the cards of a mask; None if it does not fit."""

    def held(self, claim: C, grant: Grant) -> Grant:
        """Returns what a grant takes from the cards as long as the Pod exists."""
        return grant

    def room(self, cards: Cards, claim: C, eligible: int, exclusive: bool) -> int:
        """Returns the number of tasks that ``place`` places one after the other, up to MAX_RUN. ``exclusive``: no two
        tasks share a card."""
        for number in range(MAX_RUN):
            placement = self.place(cards, claim, eligible)
            if placement is None:
                return number
            cards = charge(cards, placement.held)
            if exclusive:
                eligible &= ~mask_of(placement.grant)
        return MAX_RUN

    @abstractmethod
    def annotations(self, task: Task, claim: C, node: Node, inventory: FamilyInventory, grant: Grant) -> dict[str, str]:
        """Returns the annotations of the Pod for the device plugin."""


def limit_of(container: Container, name: str) -> int | None:
    """Returns a container's limit of a resource in whole units, rounded up; None if there is none."""
    limits = (container.resources.limits if container.resources else None) or {}
    return parse_quantity(limits[name]) if name and name in limits else None


def limit_or_request(container: Container, name: str) -> int | None:
    """Returns the limit (``limit_of``), or the request if there is no limit."""
    amount = limit_of(container, name)
    requests = (container.resources.requests if container.resources else None) or {}
    return parse_quantity(requests[name]) if amount is None and name and name in requests else amount


def has_allocatable(node: Node, name: str) -> bool:
    """Whether a node has a positive allocatable amount of a resource."""
    try:
        return parse_quantity((node.status.allocatable or {}).get(name, 0)) > 0
    except QuantityError:  # reported where the amounts are read
        return False


def node_problem(node: Node, key: str, problem: str) -> Malformed:
    """Reports an annotation of a Node that cannot be used."""
    return Malformed("Node", "", node.metadata.name, f"metadata.annotations[{key}]", problem)


def pod_problem(task: Task, key: str, problem: str) -> Malformed:
    """Reports an annotation of a Pod that cannot be used."""
    return Malformed("Pod", task.namespace, task.name, f"metadata.annotations[{key}]", problem)


def card_room(card: Card, memory: int, cores: int) -> int:
    """Returns how many containers with this request fit on a card one after the other, by the rules of ``fits``."""
    slots, all_memory, all_cores, used, used_memory, used_cores, *_ = card
    room = slots - used
    free, free_cores = all_memory - used_memory, all_cores - used_cores
    if room <= 0 or free < memory or free_cores < cores:
        return 0
    if not cores:
        if all_cores and not free_cores:
            return 0
    elif cores == all_cores == ALL_CORES:
        return 0 if used else 1
    elif free_cores < room * cores:
        room = free_cores // cores
    return room if free >= room * memory else free // memory


def pod_room(cards: Cards, request: ContainerRequest, order: Sequence[int], *, exclusive: bool) -> int:
    """Returns how many Pods of one container fit, up to MAX_RUN. ``order``: the eligible cards in the order in which
    they are tried. ``exclusive``: no two of the Pods share a card."""
    if request.percent < 0:
        memory, cores = request.memory, request.cores
        counts = [card_room(cards[i], memory, cores) for i in order]
    else:
        counts = [card_room(cards[i], request.memory_of(cards[i]), request.cores) for i in order]
    if exclusive:
        return min(MAX_RUN, sum(room > 0 for room in counts) // request.number)
    if request.number == 1:
        return min(MAX_RUN, sum(counts))
    placed = 0
    while placed < MAX_RUN:
        first = [i for i, room in enumerate(counts) if room > 0][: request.number]
        if len(first) < request.number:
            break
        times = min(counts[i] for i in first)
        for i in first:
            counts[i] -= times
        placed += times
    return min(MAX_RUN, placed)
