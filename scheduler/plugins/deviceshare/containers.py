"""The containers of a Pod in the order in which the kubelet allocates their devices, and what they hold at once.

The kubelet allocates devices for the init containers first, then for the other containers, each time in the order of
the Pod's spec. Annotations that list devices by container follow this order. Init containers end before the containers
after them start, so that these may use the same part of a card; sidecars keep what they have.
"""

from collections.abc import Callable, Iterator, Mapping
from operator import add
from typing import Final, TypeVar

import msgspec

from scheduler.api.objects import Container, PodSpec
from scheduler.api.pod_amounts import effective_total, is_sidecar
from scheduler.framework.remedies.adjustments import join_names
from scheduler.plugins.deviceshare.cards import CardRequests, CardUse, ContainerKind, ContainerRequest, Grant
from scheduler.plugins.deviceshare.family import limit_of

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
    devices. ``request``: of one container; None if it requests no card."""
    found = ((request(container), kind) for container, kind in in_allocation_order(spec))
    return tuple(card_request._replace(kind=kind) for card_request, kind in found if card_request is not None)


def peak_limit(spec: PodSpec, name: str) -> int:
    """Returns the most of a resource that the containers of a Pod use at once, by their limits, in whole units."""
    return effective_total(spec.containers, spec.init_containers, lambda c: limit_of(c, name) or 0, 0, add, max)


def unserved_init_containers(spec: PodSpec, name: str) -> str:
    """Why a device plugin that ignores init containers cannot serve a Pod that requests a resource, or ""."""
    init_containers = {container.name: limit_of(container, name) for container in spec.init_containers or ()}
    asking = join_names([f"init container {other} for {amount}" for other, amount in init_containers.items() if amount])
    return f"the device plugin of {name} serves no init containers; the Pod asks in {asking}" if asking else ""


def description_of(requests: CardRequests, describe: Callable[[ContainerRequest], str]) -> str:
    """The requests of a Pod, for messages: those of the first containers with cards."""
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
    """The most that the containers of a Pod use at once, as Kubernetes computes the request of a Pod. ``amount``: of
    what one container uses; ``add`` and ``maximum`` combine amounts."""
    started: list[_Granted] = []
    running: list[_Granted] = []
    for request, uses in zip(requests, grant, strict=False):
        policy = "Always" if request.kind is ContainerKind.SIDECAR else None
        (running if request.kind is ContainerKind.APP else started).append(_Granted(uses, policy))
    return effective_total(running, started, lambda granted: amount(granted.uses), zero, add, maximum)


def held_of(requests: CardRequests, grant: Grant) -> Grant:
    """What a grant takes from the cards as long as the Pod exists: of each card the most that containers use at once.

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
