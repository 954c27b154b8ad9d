"""Chooses the GPUs of a node, or their MIG instances, for a Pod by the configured policy.

Init containers, which end before the containers after them start, are placed last. An init container gets, where
possible, a part of what the Pod holds anyway.
"""

from collections.abc import Sequence
from functools import lru_cache

from scheduler.plugins.deviceshare.cards import (
    BINPACK,
    SPREAD,
    Card,
    CardPlacement,
    CardRequests,
    Cards,
    CardUse,
    ContainerKind,
    ContainerRequest,
    Grant,
    Part,
    card_score,
    cards_in,
    charge,
    charged,
    fits,
    max_usage,
)
from scheduler.plugins.deviceshare.containers import held_of


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


class InitPlacement:
    """Places the init containers of one Pod, one after the other, on the cards of one node."""

    def __init__(self, cards: Cards, grant: Grant, order: Sequence[int], memory_factor: int) -> None:
        """``grant``: what the other containers use; ``order``: the eligible cards in the order of the policy."""
        self._order = order
        self._memory_factor = memory_factor
        self._running = list(cards)
        """The cards with the sidecars that have started."""
        self._held = list(charge(cards, grant))
        """The cards with the most that the Pod uses at once."""
        self._own = {use.card for uses in grant for use in uses}
        """The cards of which the Pod has a part."""
        self._instances = [use for uses in grant for use in uses if use.part is not None]
        """The MIG instances of the Pod, without those of the sidecars that have started."""

    def start(self, uses: Sequence[CardUse]) -> None:
        """Starts a sidecar: it runs beside the init containers that are placed after this."""
        for use in uses:
            self._running[use.card] = charged(self._running[use.card], use)
        busy = {(use.card, use.part) for use in uses}
        self._instances = [use for use in self._instances if (use.card, use.part) not in busy]

    def place(self, request: ContainerRequest) -> tuple[CardUse, ...] | None:
        """Returns what an init container uses: of the cards of which the Pod holds no more because of it, and then of
        others in the order of the policy. None if it does not fit."""
        found: dict[int, CardUse] = {}
        for choose in (self._of_what_is_held, self._of_what_is_free):
            for i in self._order:
                if len(found) < request.number and i not in found:
                    use = choose(i, request)
                    if use is not None:
                        found[i] = use
        if len(found) < request.number:
            return None
        for i, use in found.items():
            self._hold(i, use)
        return tuple(found.values())

    def _of_what_is_held(self, i: int, request: ContainerRequest) -> CardUse | None:
        """Returns what the container uses of a card, if the Pod then holds no more of it than without the container."""
        running, held = self._running[i], self._held[i]
        if i not in self._own:
            return None
        if running.layouts is not None:
            return self._smallest_instance(i, request)
        use = use_of(running, i, request, self._memory_factor)
        return use if use is not None and max_usage((held,), (charged(running, use),)) == (held,) else None

    def _smallest_instance(self, i: int, request: ContainerRequest) -> CardUse | None:
        """Returns the smallest of the Pod's own MIG instances of a card that fits the container."""
        card, memory = self._running[i], request.memory_of(self._running[i])
        fitting = [use for use in self._instances if use.card == i and use.memory >= memory]
        smallest = min(fitting, key=lambda use: use.memory, default=None)
        if smallest is None or not fits(card, smallest.memory, request.cores):
            return None
        return smallest._replace(cores=request.cores, requested_memory=memory)

    def _of_what_is_free(self, i: int, request: ContainerRequest) -> CardUse | None:
        """Returns what the container uses of a card; None if it does not fit. Instances that the Pod holds are not
        free."""
        card = self._running[i] if self._running[i].layouts is None else self._held[i]
        return use_of(card, i, request, self._memory_factor)

    def _hold(self, i: int, use: CardUse) -> None:
        held = self._held[i]
        (larger,) = max_usage((held,), (charged(self._running[i], use),))
        if use.part is not None and use.part not in held.parts:  # an instance exists whether it is in use or not
            larger = larger._replace(used_memory=held.used_memory + use.memory)
            self._instances.append(use)
        self._held[i] = larger
        self._own.add(i)


def use_of(card: Card, i: int, request: ContainerRequest, memory_factor: int) -> CardUse | None:
    """Returns what a container uses of the card at index ``i``; None if it does not fit."""
    memory = request.memory_of(card)
    if not fits(card, memory, request.cores):
        return None
    if card.layouts is None:
        return CardUse(i, memory, request.cores)
    taken = tuple((part.name, part.position) for part in card.parts)
    instance = card.layouts.instance(memory * memory_factor, taken)
    if instance is None:
        return None
    group, position, real = instance
    return CardUse(i, real // memory_factor, request.cores, Part(group, position), memory)
