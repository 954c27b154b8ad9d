"""Which GPUs of a node a Pod gets slices of, or instances, by the policy that is configured."""

from functools import lru_cache

from scheduler.plugins.deviceshare.cards import Asked, Cards, Part, Placement, Use, cards_in, charge, fits
from scheduler.plugins.deviceshare.policy import BINPACK, SPREAD, card_score


@lru_cache(maxsize=16384)
def place(cards: Cards, containers: Asked, eligible: int, policy: str, memory_factor: int) -> Placement | None:
    """One container after the other, each on the first cards in the order of the policy that it fits; several may share
    a card."""
    grant: list[tuple[Use, ...]] = []
    score = 0.0
    for share in containers:
        uses: list[Use] = []
        for i in ordered(cards, eligible, policy):
            card = cards[i]
            memory = share.memory_of(card)
            if not fits(card, memory, share.cores):
                continue
            use = Use(i, memory, share.cores)
            if card.layouts is not None:
                taken = tuple((part.name, part.position) for part in card.parts)
                instance = card.layouts.instance(memory * memory_factor, taken)
                if instance is None:
                    continue
                group, position, real = instance
                use = Use(i, real // memory_factor, share.cores, Part(group, position), memory)
            uses.append(use)
            score += card_score(policy, card, use.memory)
            if len(uses) == share.number:
                break
        if len(uses) < share.number:
            return None
        grant.append(tuple(uses))
        cards = charge(cards, (tuple(uses),))
    return Placement(tuple(grant), score)


def ordered(cards: Cards, eligible: int, policy: str) -> list[int]:
    """The cards of a mask in the order in which they are tried: by binpack those with most memory in use, by spread
    those with fewest Pods, else the last first."""
    listed = cards_in(eligible, len(cards))
    if policy == BINPACK:
        return sorted(listed, key=lambda i: -cards[i].used_memory)
    if policy == SPREAD:
        return sorted(listed, key=lambda i: cards[i].used)
    return listed[::-1]
