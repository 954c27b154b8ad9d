"""The algorithms that choose chips of a node: pure functions of the free chips and a request, with tables as data.

An algorithm takes any free chips, those of one group (ring, card, half, mesh), or whole cards of two dies. An algorithm
that a single family uses is in the file of the family.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from scheduler.plugins.ascend.family import ChipRequest, Choice, Selection
from scheduler.plugins.ascend.masks import groups_of, ids_of

Priorities = Mapping[int, Sequence[int]]
"""Number of requested chips -> numbers of free chips of a group, best first."""


def any_chips(chips: int) -> Selection:
    """Selects the lowest ids. A node with fewer free chips is better."""

    def choose(free: int, request: ChipRequest) -> Choice | None:
        number = free.bit_count()
        return Choice(tuple(ids_of(free)[: request.chips]), number) if request.chips <= number else None

    return Selection(choose, chips + 1, any_ids=True)


def fullest_groups_first(size: int, chips: int) -> Selection:
    """Selects any chips, those of the groups with the fewest free chips first, lowest ids first, in this order in the
    annotation. A node with fewer free chips is better."""

    def choose(free: int, request: ChipRequest) -> Choice | None:
        number = free.bit_count()
        if request.chips > number:
            return None
        groups = sorted((ids_of(group) for group in groups_of(free, size, chips)), key=len)
        return Choice(tuple([chip for group in groups for chip in group][: request.chips]), number)

    return Selection(choose, chips + 1)


def one_group(size: int, chips: int, priorities: Priorities) -> Selection:
    """Selects all chips from one group of ``size`` chips: the first free count of the request's priorities that a group
    has, then the lowest group. The penalty is the position of the group's free count among the
    priorities of the request; requests without priorities fit nowhere."""

    def choose(free: int, request: ChipRequest) -> Choice | None:
        groups = groups_of(free, size, chips)
        for penalty, count in enumerate(priorities.get(request.chips, ())):
            for group in groups:
                if group.bit_count() == count:
                    return Choice(tuple(ids_of(group)[: request.chips]), penalty)
        return None

    return Selection(choose, max(map(len, priorities.values())))


def one_or_more_groups(size: int, chips: int) -> Selection:
    """Selects fewer than ``size`` chips from the group that keeps the fewest free; a multiple of ``size`` takes whole
    groups. The penalty is the number of other groups that would do as well, then the number of chips that stay free.
    Other requests take any chips, and their penalty is the number of chips that stay free."""

    def choose(free: int, request: ChipRequest) -> Choice | None:
        left = free.bit_count() - request.chips
        if request.chips > size and request.chips % size:
            return None if left < 0 else Choice(tuple(ids_of(free)[: request.chips]), left)
        least = min(request.chips, size)
        fitting = [ids_of(group) for group in groups_of(free, size, chips) if group.bit_count() >= least]
        surplus = len(fitting) - max(request.chips // size, 1)
        if surplus < 0:
            return None
        taken = [chip for group in sorted(fitting, key=len) for chip in group]
        return Choice(tuple(taken[: request.chips]), surplus * chips + left)

    return Selection(choose, chips * (chips // size) + chips)


def least_left(size: int) -> Priorities:
    """Returns priorities for every request up to ``size``: the fewer chips the group keeps free, the better."""
    return {chips: range(chips, size + 1) for chips in range(1, size + 1)}


INFERENCE_CARD: Final[Priorities] = {1: (1, 3, 2, 4), 2: (2, 3, 4), 3: (3, 4), 4: (4,)}
"""Priorities of a card of four chips."""


DIES: Final = 2
Penalties = Mapping[int, Mapping[int, int]]
"""Requested chips -> free chips of the node -> penalty."""
NO_HALF_CARD: Final = 16
"""Penalty of taking a single die of a whole card."""


def whole_cards(chips: int) -> Selection:
    """Selects for a request for one chip a die of a card that is half used, if there is one; other requests take whole
    cards. The penalty is the number of chips that stay free."""

    def choose(free: int, request: ChipRequest) -> Choice | None:
        left = free.bit_count() - request.chips
        halves, full = _cards(free, chips)
        if request.chips == 1:
            card = next(iter([*halves, *full]), None)
            return None if card is None else Choice(card[:1], left if halves else left + NO_HALF_CARD)
        if DIES * len(full) < request.chips:
            return None
        return Choice(tuple(_joined(full))[: request.chips], left)

    return Selection(choose, chips + NO_HALF_CARD)


def half_cards_first(chips: int) -> Selection:
    """Dies of half-used cards, then those of whole ones. All nodes are equally good."""

    def choose(free: int, request: ChipRequest) -> Choice | None:
        halves, full = _cards(free, chips)
        dies = tuple(_joined([*halves, *full]))
        return Choice(dies[: request.chips], 0) if request.chips <= len(dies) else None

    return Selection(choose, 1)


def one_half_then_whole_cards(chips: int, preferred: Penalties, without_half: Penalties, worst: int) -> Selection:
    """Selects whole cards for an even request; for an odd one a die of a half-used card, if there is one, and whole
    cards.

    ``preferred``: penalties of even requests, and of odd ones that find a half-used card; ``without_half``: penalties
    of other odd requests; ``worst``: the penalty where the tables have none."""

    def choose(free: int, request: ChipRequest) -> Choice | None:
        halves, full = _cards(free, chips)
        single = halves[0] if request.chips % DIES and halves else ()
        taken = (*single, *_joined(full))[: request.chips]
        if len(taken) < request.chips:
            return None
        tables = [preferred] if single or not request.chips % DIES else []
        tables += [without_half] if request.chips % DIES else []
        found = (table.get(request.chips, {}).get(free.bit_count()) for table in tables)
        return Choice(taken, next((penalty for penalty in found if penalty is not None), worst))

    return Selection(choose, worst + 1)


def _cards(free: int, chips: int) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Returns the free dies of the cards with one free die, and of those with two."""
    cards = [tuple(ids_of(card)) for card in groups_of(free, DIES, chips)]
    return [card for card in cards if len(card) == 1], [card for card in cards if len(card) == DIES]


def _joined(cards: Iterable[tuple[int, ...]]) -> Iterator[int]:
    for card in cards:
        yield from card
