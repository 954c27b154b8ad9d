"""Chooses the GPUs of a node, or their MIG instances, for a Pod by the configured policy."""

from functools import lru_cache

from scheduler.plugins.deviceshare.cards import (
    BINPACK,
    SPREAD,
    CardRequests,
    Cards,
    Part,
    Placement,
    Use,
    card_score,
    cards_in,
    charge,
    fits,
)


@lru_cache(maxsize=16384)
def place(cards: Cards, containers: CardRequests, eligible: int, policy: str, memory_factor: int) -> Placement | None:
    """Places one container after the other on the first cards, in the order of the policy, on which it fits. Containers
    may share a card."""
    grant: list[tuple[Use, ...]] = []
    score = 0.0
    for request in containers:
        uses: list[Use] = []
        for i in card_order(cards, eligible, policy):
            card = cards[i]
            memory = request.memory_of(card)
            if not fits(card, memory, request.cores):
                continue
            use = Use(i, memory, request.cores)
            if card.layouts is not None:
                taken = tuple((part.name, part.position) for part in card.parts)
                instance = card.layouts.instance(memory * memory_factor, taken)
                if instance is None:
                    continue
                group, position, real = instance
                use = Use(i, real // memory_factor, request.cores, Part(group, position), memory)
            uses.append(use)
            score += card_score(policy, card, use.memory)
            if len(uses) == request.number:
                break
        if len(uses) < request.number:
            return None
        grant.append(tuple(uses))
        cards = charge(cards, (tuple(uses),))
    return Placement(tuple(grant), score)


def card_order(cards: Cards, eligible: int, policy: str) -> list[int]:
    """Returns the cards of a mask in the order in which they are tried: most used memory first (binpack), fewest
    containers first (spread), or the last first (no policy)."""
    listed = cards_in(eligible, len(cards))
    if policy == BINPACK:
        return sorted(listed, key=lambda i: -cards[i].used_memory)
    if policy == SPREAD:
        return sorted(listed, key=lambda i: cards[i].used)
    return listed[::-1]
