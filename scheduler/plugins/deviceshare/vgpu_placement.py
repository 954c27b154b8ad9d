"""Chooses the GPUs of a node, or their MIG instances, for a Pod by the configured policy."""

from functools import lru_cache

from scheduler.plugins.deviceshare.cards import (
    BINPACK,
    SPREAD,
    CardPlacement,
    CardRequests,
    Cards,
    CardUse,
    ContainerKind,
    card_score,
    cards_in,
    charge,
)
from scheduler.plugins.deviceshare.containers import held_of
from scheduler.plugins.deviceshare.vgpu_init_placement import InitPlacement, use_of


@lru_cache(maxsize=16384)
def place(
    cards: Cards, containers: CardRequests, eligible: int, policy: str, memory_factor: int
) -> CardPlacement | None:
    """Places one container after the other on the first cards, in the order of the policy, on which it fits. Containers
    may share a card. Init containers are placed after the others."""
    grant: list[tuple[CardUse, ...]] = [()] * len(containers)
    score = 0.0
    used = cards
    for number, request in enumerate(containers):
        if request.kind is ContainerKind.INIT:
            continue
        uses: list[CardUse] = []
        for i in card_order(used, eligible, policy):
            use = use_of(used[i], i, request, memory_factor)
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
        return CardPlacement(tuple(grant), score)
    init = InitPlacement(cards, tuple(grant), card_order(cards, eligible, policy), memory_factor)
    for number, request in enumerate(containers):
        if request.kind is ContainerKind.SIDECAR:
            init.start(grant[number])
        elif request.kind is ContainerKind.INIT:
            found = init.place(request)
            if found is None:
                return None
            score += sum(card_score(policy, cards[use.card], use.memory) for use in found)
            grant[number] = found
    return CardPlacement(tuple(grant), score, held_of(containers, tuple(grant)))


def card_order(cards: Cards, eligible: int, policy: str) -> list[int]:
    """Returns the cards of a mask in the order in which they are tried: most used memory first (binpack), fewest
    containers first (spread), or the last first (no policy)."""
    listed = cards_in(eligible, len(cards))
    if policy == BINPACK:
        return sorted(listed, key=lambda i: -cards[i].used_memory)
    if policy == SPREAD:
        return sorted(listed, key=lambda i: cards[i].used)
    return listed[::-1]
