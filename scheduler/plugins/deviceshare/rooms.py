"""How many Pods fit on a node one after the other, if possible without placing each of them.

As long as a Pod is one container that asks for the same of each of its cards, cards do not depend on each other: each
has room for a number of containers, and a Pod takes the first cards that have room left. This needs an order that does
not change by placing: a fixed one, or one in which cards in use come first. For any other, tasks have to be placed.
"""

from collections.abc import Sequence

from scheduler.framework.runs import LONGEST
from scheduler.plugins.deviceshare.cards import ALL_CORES, Card, Cards, Share, charge, mask_of
from scheduler.plugins.deviceshare.family import C, Family


def card_room(card: Card, memory: int, cores: int) -> int:
    """How many containers may have so much of a card, one after the other (see ``fits``)."""
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


def pod_room(cards: Cards, share: Share, order: Sequence[int], *, apart: bool) -> int:
    """How many Pods of one container fit, up to LONGEST. ``order``: in which the cards in question are tried.
    ``apart``: no two of the Pods share a card."""
    if share.percent < 0:
        memory, cores = share.memory, share.cores
        rooms = [card_room(cards[i], memory, cores) for i in order]
    else:
        rooms = [card_room(cards[i], share.memory_of(cards[i]), share.cores) for i in order]
    if apart:
        return min(LONGEST, sum(room > 0 for room in rooms) // share.number)
    if share.number == 1:
        return min(LONGEST, sum(rooms))
    placed = 0
    while placed < LONGEST:
        first = [i for i, room in enumerate(rooms) if room > 0][: share.number]
        if len(first) < share.number:
            break
        times = min(rooms[i] for i in first)
        for i in first:
            rooms[i] -= times
        placed += times
    return min(LONGEST, placed)


def try_room(family: Family[C], cards: Cards, claim: C, eligible: int, apart: bool) -> int:
    """``room`` by placing one task after the other."""
    for number in range(LONGEST):
        placement = family.place(cards, claim, eligible)
        if placement is None:
            return number
        cards = charge(cards, placement.grant)
        if apart:
            eligible &= ~mask_of(placement.grant)
    return LONGEST
