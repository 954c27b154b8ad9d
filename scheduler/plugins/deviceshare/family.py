"""What a family of devices has to tell: who asks, what a node has, where a Pod would go, what its device plugin reads.

Everything else (books, columns, undoing, evictions) is the same for all families. A family is made anew for each
session; its answers depend on nothing but what they are given and how it was made.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from scheduler.api.objects import ConfigMap, Container, Node
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.reasons import Malformed
from scheduler.api.task import Task, TaskClass
from scheduler.plugins.deviceshare.cards import Asked, Card, Cards, Grant, Placement


class Claim(Hashable, Protocol):
    """What the tasks of a class ask of a family. Equal claims get equal places. Each family has its own."""

    @property
    def words(self) -> str:
        """What is asked for, after ``node(s) had no``: ``2 GPUs with 4000 MiB free``."""


C = TypeVar("C", bound=Claim)


@dataclass(frozen=True, slots=True)
class Inventory:
    """The cards of one node, and what Pods there have of them."""

    cards: Cards
    """As if no Pod were there."""
    names: tuple[str, ...]
    """Of the cards, as annotations name them."""
    grants: Mapping[str, Grant] = field(default_factory=dict)
    """uid -> what a Pod on the node has."""
    problems: tuple[Malformed, ...] = ()
    models: tuple[str, ...] = ()
    """Of the cards, where Pods can choose by it."""
    mode: str = ""
    """How cards are shared there, where Pods can choose by it."""


class Family(Protocol[C]):
    """One kind of device."""

    name: str
    """As Volcano calls the device."""
    title: str
    """Plural, for messages: ``vGPUs``."""
    lock: str
    """The annotation by which its device plugin has a node locked; "" if it does not."""

    @property
    def key(self) -> Hashable:
        """Two families of one key read nodes alike."""

    def claim(self, cls: TaskClass) -> C | None:
        """What tasks of the class ask for; None: nothing of this family."""

    def has(self, node: Node) -> bool:
        """Whether a node has devices of this family."""

    def source(self, node: str, config_maps: Mapping[str, ConfigMap]) -> ConfigMap | None:
        """The ConfigMap that tells of a node's devices, if there is one."""

    def read(self, node: Node, source: ConfigMap | None, tasks: Sequence[Task]) -> Inventory:
        """The cards of a node that has some, and what ``tasks``, which are there, have of them."""

    def most(self, claim: C, card: Card) -> Asked:
        """What each container of a task with the claim may have of a card, and of how many cards."""

    def eligible(self, claim: C, inventory: Inventory) -> int:
        """The mask of the cards of a node that the claim is content with, apart from what is free; 0: it is no node for
        it."""

    def place(self, cards: Cards, claim: C, eligible: int) -> Placement | None:
        """Where one task would go among the cards of a mask; None: nowhere."""

    def room(self, cards: Cards, claim: C, eligible: int, apart: bool) -> int:
        """How many tasks ``place`` would place one after the other, up to LONGEST. ``apart``: no two share a card."""

    def annotations(self, task: Task, claim: C, node: Node, inventory: Inventory, grant: Grant) -> dict[str, str]:
        """What the device plugin is told on the Pod."""


def asked(container: Container, name: str) -> int | None:
    """What a container's limits say of a resource, in whole units, fractions counting as one; None: nothing."""
    limits = (container.resources.limits if container.resources else None) or {}
    return parse_quantity(limits[name]) if name and name in limits else None


def asked_or_requested(container: Container, name: str) -> int | None:
    """As ``asked``; the requests hold where the limits say nothing."""
    amount = asked(container, name)
    requests = (container.resources.requests if container.resources else None) or {}
    return parse_quantity(requests[name]) if amount is None and name and name in requests else amount


def reports(node: Node, name: str) -> bool:
    """Whether a node has any of a resource to give."""
    try:
        return parse_quantity((node.status.allocatable or {}).get(name, 0)) > 0
    except QuantityError:  # told of where amounts are read
        return False


def node_problem(node: Node, key: str, problem: str) -> Malformed:
    """An annotation of a Node that cannot be used."""
    return Malformed("Node", "", node.metadata.name, f"metadata.annotations[{key}]", problem)


def pod_problem(task: Task, key: str, problem: str) -> Malformed:
    """An annotation of a Pod that cannot be used."""
    return Malformed("Pod", task.namespace, task.name, f"metadata.annotations[{key}]", problem)
