"""The interface of a family of devices: requests of Pods, cards of nodes, placement, and annotations.

Everything else (ledger, columns, undo, evictions) is common to all families. Each session creates its families. The
results of their methods depend only on the arguments and on the parameters of the constructor.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from scheduler.api.objects import ConfigMap, Container, Node
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.reasons import Malformed
from scheduler.api.task import Task, TaskClass
from scheduler.plugins.deviceshare.cards import Card, CardPlacement, CardRequests, Cards, Grant


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


class DeviceFamily(Protocol[C]):
    """One kind of device."""

    name: str
    """Volcano's name of the device."""
    title: str
    """Plural, for messages: ``vGPUs``."""
    lock: str
    """The annotation that locks a node for its device plugin; "" if there is no lock."""
    config_map_prefix: str
    """Namespace and name of the ConfigMap that describes a node's devices, without the name of the node; "": there is
    none."""

    @property
    def key(self) -> Hashable:
        """Families with equal keys read the same from a node."""

    def claim(self, cls: TaskClass) -> C | None:
        """The request of a class; None if it requests no device of this family."""

    def has(self, node: Node) -> bool:
        """Whether a node has devices of this family."""

    def read(self, node: Node, source: ConfigMap | None, tasks: Sequence[Task]) -> FamilyInventory:
        """Reads the cards of a node that has devices, and what the ``tasks`` on it hold of them, by entries of their
        annotations. ``source``: its ConfigMap, if there is one."""

    def upper_bounds(self, claim: C, card: Card) -> CardRequests:
        """The most that each container of a task with the claim may use of ``card``, and the number of cards."""

    def names_cards(self, claim: C) -> bool:
        """Whether the claim accepts or excludes single cards by their ids."""

    def eligible(self, claim: C, inventory: FamilyInventory) -> int:
        """The mask of the cards of a node that the claim accepts, whether free or not; 0 if there is none."""

    def place(self, cards: Cards, claim: C, eligible: int) -> CardPlacement | None:
        """The placement of one task on the cards of a mask; None if it does not fit."""

    def held(self, claim: C, grant: Grant) -> Grant:
        """What a grant takes from the cards as long as the Pod exists."""

    def room(self, cards: Cards, claim: C, eligible: int, exclusive: bool) -> int:
        """The number of tasks that ``place`` places one after the other, up to MAX_RUN. ``exclusive``: no two tasks
        share a card."""

    def annotations(self, task: Task, claim: C, node: Node, inventory: FamilyInventory, grant: Grant) -> dict[str, str]:
        """The annotations of the Pod for the device plugin."""


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
    """An annotation of a Node that cannot be used."""
    return Malformed("Node", "", node.metadata.name, f"metadata.annotations[{key}]", problem)


def pod_problem(task: Task, key: str, problem: str) -> Malformed:
    """An annotation of a Pod that cannot be used."""
    return Malformed("Pod", task.namespace, task.name, f"metadata.annotations[{key}]", problem)
