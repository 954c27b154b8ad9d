"""The containers of a Pod in the order in which the kubelet allocates their devices, and what they hold at once.

The kubelet allocates devices for the init containers first, then for the other containers, each time in the order of
the Pod's spec. Annotations that list devices by container follow this order. Init containers end before the containers
after them start, so that these may use the same part of a card; sidecars keep what they have.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import add
from typing import Final, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from scheduler.api.objects import ConfigMap, Container, Node, PodSpec
from scheduler.api.pod_amounts import effective_total, is_sidecar
from scheduler.api.reasons import Malformed
from scheduler.api.task import Task
from scheduler.framework.remedies.adjustments import join_names
from scheduler.plugins.deviceshare.cards import (
    WHOLE_PERCENT,
    Card,
    CardRequests,
    CardUse,
    ContainerKind,
    ContainerRequest,
    Grant,
)
from scheduler.plugins.deviceshare.family import (
    Claim,
    DeviceFamily,
    FamilyInventory,
    limit_of,
    limit_or_request,
    node_problem,
    pod_problem,
)
from scheduler.plugins.deviceshare.wire import WireError, parse_uses

A = TypeVar("A")
_DESCRIBED: Final = 4
"""The containers whose requests a message has."""
_Amounts = tuple[int, int, int]
"""Slots, memory and cores."""


class _Granted(msgspec.Struct, frozen=True):
    """What one container uses, in the form in which ``effective_total`` reads containers."""

    uses: tuple[CardUse, ...]
    restart_policy: str | None


def in_allocation_order(spec: PodSpec) -> Iterator[tuple[Container, ContainerKind]]:
    """Yields the containers of a Pod in the order in which the kubelet allocates their devices."""
    for container in spec.init_containers or ():
        yield container, ContainerKind.SIDECAR if is_sidecar(container) else ContainerKind.INIT
    for container in spec.containers:
        yield container, ContainerKind.APP


def requests_of(spec: PodSpec, request: Callable[[Container], ContainerRequest | None]) -> CardRequests:
    """Returns the requests of the containers that request cards, in the order in which the kubelet allocates their
    devices. ``request``: returns the request of one container; None if it requests no card."""
    found = ((request(container), kind) for container, kind in in_allocation_order(spec))
    return tuple(card_request._replace(kind=kind) for card_request, kind in found if card_request is not None)


def card_request(
    container: Container, number: str, memory: str, cores: str, percentage: str = ""
) -> ContainerRequest | None:
    """Returns the request of a container for cards; None if it requests none. The parameters are the names of the
    resources that count the cards, and the memory and cores of each. Without a memory, it requests all of it."""
    cards = limit_of(container, number)
    if cards == 0 or (cards is None and limit_of(container, memory) is None):
        return None
    amount, percent = limit_or_request(container, memory) or 0, limit_or_request(container, percentage)
    if percent is None:
        percent = -1 if amount else WHOLE_PERCENT
    return ContainerRequest(1 if cards is None else cards, amount, limit_or_request(container, cores) or 0, percent)


def peak_limit(spec: PodSpec, name: str) -> int:
    """Returns the most of a resource that the containers of a Pod use at once, by their limits, in whole units."""
    return effective_total(spec.containers, spec.init_containers, lambda c: limit_of(c, name) or 0, 0, add, max)


def unserved_init_containers(spec: PodSpec, name: str) -> str:
    """Returns why a device plugin that ignores init containers cannot serve a Pod that requests a resource, or ""."""
    init_containers = {container.name: limit_of(container, name) for container in spec.init_containers or ()}
    asking = join_names([f"init container {other} for {amount}" for other, amount in init_containers.items() if amount])
    return f"the device plugin of {name} serves no init containers; the Pod asks in {asking}" if asking else ""


def description_of(requests: CardRequests, describe: Callable[[ContainerRequest], str]) -> str:
    """Returns the requests of a Pod, for messages: those of the first containers with cards."""
    parts = [describe(request) for request in requests[:_DESCRIBED]]
    if len(requests) > _DESCRIBED:
        parts.append(f"cards for {len(requests) - _DESCRIBED} more containers")
    return " and ".join(parts)


def peak(
    requests: CardRequests,
    grant: Grant,
    amount: Callable[[tuple[CardUse, ...]], A],
    zero: A,
    add: Callable[[A, A], A],
    maximum: Callable[[A, A], A],
) -> A:
    """Returns the most that the containers of a Pod use at once, as Kubernetes computes the request of a Pod.
    ``amount``: returns the amount of what one container uses; ``add`` and ``maximum`` combine amounts."""
    started: list[_Granted] = []
    running: list[_Granted] = []
    for request, uses in zip(requests, grant, strict=False):
        policy = "Always" if request.kind is ContainerKind.SIDECAR else None
        (running if request.kind is ContainerKind.APP else started).append(_Granted(uses, policy))
    return effective_total(running, started, lambda granted: amount(granted.uses), zero, add, maximum)


def held_of(requests: CardRequests, grant: Grant) -> Grant:
    """Returns what a grant takes from the cards as long as the Pod exists: of each card the most that containers use at
    once.

    Different partitions of a card count together, because a partition exists whether it is in use or not. Without
    ordinary init containers this is the grant.
    """
    if all(request.kind is not ContainerKind.INIT for request in requests):
        return grant
    nothing: Mapping[int, _Amounts] = {}
    amounts = peak(requests, grant, _by_card, nothing, _sum, _maximum)
    uses: list[CardUse] = []
    for card, (slots, memory, cores) in sorted(amounts.items()):
        parts = {use.part: use for each in grant for use in each if use.card == card and use.part is not None}
        if parts:
            first, *others = parts.values()
            uses.append(first._replace(cores=cores, slots=slots))
            uses += [use._replace(cores=0, slots=0) for use in others]
        else:
            uses.append(CardUse(card, memory, cores, slots=slots))
    return (tuple(uses),)


def _by_card(uses: tuple[CardUse, ...]) -> Mapping[int, _Amounts]:
    amounts: dict[int, _Amounts] = {}
    for use in uses:
        slots, memory, cores = amounts.get(use.card, (0, 0, 0))
        amounts[use.card] = slots + use.slots, memory + use.memory, cores + use.cores
    return amounts


def _sum(left: Mapping[int, _Amounts], right: Mapping[int, _Amounts]) -> Mapping[int, _Amounts]:
    return _combined(left, right, lambda a, b: (a[0] + b[0], a[1] + b[1], a[2] + b[2]))


def _maximum(left: Mapping[int, _Amounts], right: Mapping[int, _Amounts]) -> Mapping[int, _Amounts]:
    return _combined(left, right, lambda a, b: (max(a[0], b[0]), max(a[1], b[1]), max(a[2], b[2])))


def _combined(
    left: Mapping[int, _Amounts], right: Mapping[int, _Amounts], combine: Callable[[_Amounts, _Amounts], _Amounts]
) -> Mapping[int, _Amounts]:
    none = (0, 0, 0)
    return {card: combine(left.get(card, none), right.get(card, none)) for card in {**left, **right}}


def aligned(requests: CardRequests, listed: Grant) -> Grant:
    """Returns one entry for each request from the entries of an annotation, in which containers without devices are
    left out.

    Volcano lists no init containers. If there are as many entries as containers of the other kinds, they are theirs.
    """
    apps = [number for number, request in enumerate(requests) if request.kind is ContainerKind.APP]
    if not len(listed) == len(apps) < len(requests):
        return listed
    of_apps = dict(zip(apps, listed, strict=True))
    return tuple(of_apps.get(number, ()) for number in range(len(requests)))


class ContainerClaim(Claim, Protocol):
    """A request of single containers."""

    @property
    def containers(self) -> CardRequests:
        """The requests of the containers."""


CC = TypeVar("CC", bound=ContainerClaim)


class ContainerFamily(DeviceFamily[CC]):
    """A family whose device plugin registers the cards of a node in an annotation of the Node, and whose Pods have an
    annotation that lists the cards of each container."""

    register_key: str
    """The annotation of Nodes."""
    held_key: str
    """The annotation of Pods."""

    @abstractmethod
    def _registered(self, text: str) -> FamilyInventory:
        """Parses the annotation of a Node: its cards without any usage. Raises WireError."""

    def _use(
        self, register: FamilyInventory, places: Mapping[str, int], name: str, memory: int, cores: int
    ) -> CardUse | None:
        """Returns the use of a card from an entry in the annotation of a Pod; None if the node does not have the card.
        ``places``: name of a card of the node -> its position."""
        return CardUse(places[name], memory, cores) if name in places else None

    def read(self, node: Node, source: ConfigMap | None, tasks: Sequence[Task]) -> FamilyInventory:
        try:
            register = self._registered((node.metadata.annotations or {}).get(self.register_key, ""))
        except WireError as error:
            return FamilyInventory((), (), problems=(node_problem(node, self.register_key, str(error)),))
        problems: list[Malformed] = []
        places = {name: i for i, name in enumerate(register.names)}
        grants: dict[str, Grant] = {}
        for task in tasks:
            if self.held_key in task.annotations:
                try:
                    listed = parse_uses(task.annotations[self.held_key])
                except WireError as error:
                    problems.append(pod_problem(task, self.held_key, str(error)))
                    continue
                grants[task.uid] = tuple(
                    tuple(use for entry in entries if (use := self._use(register, places, *entry)) is not None)
                    for entries in listed
                )
        return replace(register, grants=grants, problems=tuple(problems))

    def upper_bounds(self, claim: CC, card: Card) -> CardRequests:
        return tuple(request._replace(memory=request.memory_of(card)) for request in claim.containers)

    def held(self, claim: CC, grant: Grant) -> Grant:
        return held_of(claim.containers, grant)
