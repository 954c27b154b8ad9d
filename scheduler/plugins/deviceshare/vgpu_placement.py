"""Chooses the GPUs of a node, or their MIG instances, for a Pod by the configured policy."""

from collections.abc import Sequence
from functools import lru_cache

from scheduler.plugins.deviceshare.cards import (
    BINPACK,
    SPREAD,
    Card,
    CardRequest,
    CardRequests,
    Cards,
    ContainerKind,
    Grant,
    Part,
    Placement,
    Use,
    card_score,
    cards_in,
    charge,
    fits,
)
from scheduler.plugins.deviceshare.containers import held_of


@lru_cache(maxsize=16384)
def place(cards: Cards, containers: CardRequests, eligible: int, policy: str, memory_factor: int) -> Placement | None:
    """Places one container after the other on the first cards, in the order of the policy, on which it fits. Containers
    may share a card.

    Init containers, which end before the others start, are placed last: rather on what the Pod holds anyway.
    """
    grant: list[tuple[Use, ...]] = [()] * len(containers)
    score = 0.0
    used = cards
    for number, request in enumerate(containers):
        if request.kind is ContainerKind.INIT:
            continue
        uses: list[Use] = []
        for i in card_order(used, eligible, policy):
            use = _use(used, i, request, memory_factor)
            if use is None:
                continue
            uses.append(use)
            score += card_score(policy, used[i], use.memory)
            if len(uses) == request.number:
                break
        if len(uses) < request.number:
            return None
        grant[number] = tuple(uses)
        used = charge(used, (tuple(uses),))
    if all(request.kind is not ContainerKind.INIT for request in containers):
        return Placement(tuple(grant), score)
    order = card_order(cards, eligible, policy)
    for number, request in enumerate(containers):
        if request.kind is ContainerKind.INIT:
            chosen = _uses_of_init_container(cards, containers, tuple(grant), number, order, memory_factor)
            if chosen is None:
                return None
            grant[number] = chosen
            score += sum(card_score(policy, cards[use.card], use.memory) for use in chosen)
    return Placement(tuple(grant), score, held_of(containers, tuple(grant)))


def _use(cards: Cards, i: int, request: CardRequest, memory_factor: int) -> Use | None:
    """What a container uses of a card; None if it does not fit."""
    card = cards[i]
    memory = request.memory_of(card)
    if not fits(card, memory, request.cores):
        return None
    if card.layouts is None:
        return Use(i, memory, request.cores)
    taken = tuple((part.name, part.position) for part in card.parts)
    instance = card.layouts.instance(memory * memory_factor, taken)
    if instance is None:
        return None
    group, position, real = instance
    return Use(i, real // memory_factor, request.cores, Part(group, position), memory)


def _uses_of_init_container(
    cards: Cards, containers: CardRequests, grant: Grant, number: int, order: list[int], memory_factor: int
) -> tuple[Use, ...] | None:
    """What the init container at index ``number`` uses of the cards, beside the sidecars before it: those cards first
    of which the Pod needs no more than without it, then in the given order. None if it does not fit. ``grant``: of the
    containers that are placed, without those."""
    request = containers[number]
    sidecars = tuple(
        uses for other, uses in zip(containers[:number], grant, strict=False) if other.kind is ContainerKind.SIDECAR
    )
    before, held = charge(cards, sidecars), charge(cards, held_of(containers, grant))
    busy = {(use.card, use.part) for uses in sidecars for use in uses}
    own = [use for uses in grant for use in uses if use.part is not None and (use.card, use.part) not in busy]
    found: list[tuple[bool, Use]] = []
    for i in order:
        instance = _smallest_instance(before[i], request, [use for use in own if use.card == i])
        if instance is not None:
            found.append((False, instance))
            continue
        use = _use(before if cards[i].layouts is None else held, i, request, memory_factor)
        if use is not None:
            found.append((_grows(held[i], charge(before, ((use,),))[i]), use))
    uses = tuple(use for _, use in sorted(found, key=lambda entry: entry[0])[: request.number])
    return uses if len(uses) == request.number else None


def _smallest_instance(card: Card, request: CardRequest, own: Sequence[Use]) -> Use | None:
    """The smallest of the Pod's own MIG instances on a card that fits a container."""
    memory = request.memory_of(card)
    fitting = [use for use in own if use.memory >= memory and fits(card, use.memory, request.cores)]
    smallest = min(fitting, key=lambda use: use.memory, default=None)
    return None if smallest is None else smallest._replace(cores=request.cores, requested_memory=memory)


def _grows(held: Card, needed: Card) -> bool:
    """Whether more of a card is needed than the Pod holds of it."""
    return needed.used > held.used or needed.used_memory > held.used_memory or needed.used_cores > held.used_cores


def card_order(cards: Cards, eligible: int, policy: str) -> list[int]:
    """Returns the cards of a mask in the order in which they are tried: most used memory first (binpack), fewest
    containers first (spread), or the last first (no policy)."""
    listed = cards_in(eligible, len(cards))
    if policy == BINPACK:
        return sorted(listed, key=lambda i: -cards[i].used_memory)
    if policy == SPREAD:
        return sorted(listed, key=lambda i: cards[i].used)
    return listed[::-1]
