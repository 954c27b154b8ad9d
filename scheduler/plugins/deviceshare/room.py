"""The number of Pods that fit on a node one after the other, computed without placing each of them where possible.

If a Pod has one container that requests the same of each of its cards, cards are independent: each has room for a
number of containers, and a Pod takes the first cards that have room left. This requires an order of cards that
placements do not change: a fixed one, or one with the used cards first. For any other order the tasks are placed.
"""

from collections.abc import Sequence

from scheduler.framework.class_view.runs import MAX_RUN
from scheduler.plugins.deviceshare.cards import ALL_CORES, Card, Cards, ContainerRequest, charge, mask_of
from scheduler.plugins.deviceshare.family import C, DeviceFamily


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


def room_by_placement(family: DeviceFamily[C], cards: Cards, claim: C, eligible: int, exclusive: bool) -> int:
    """Computes ``DeviceFamily.room`` by placing one task after the other."""
    for number in range(MAX_RUN):
        placement = family.place(cards, claim, eligible)
        if placement is None:
            return number
        cards = charge(cards, placement.held)
        if exclusive:
            eligible &= ~mask_of(placement.grant)
    return MAX_RUN
