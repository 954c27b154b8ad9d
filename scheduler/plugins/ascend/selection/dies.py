"""Cards of two dies: whole cards, and single dies from cards of which the other die is in use."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from scheduler.plugins.ascend.family import ChipRequest, Choice, Selection
from scheduler.plugins.ascend.masks import groups_of, ids_of

DIES: Final = 2
Penalties = Mapping[int, Mapping[int, int]]
"""Requested chips -> free chips of the node -> penalty."""
NO_HALF_CARD: Final = 16
"""Penalty of taking a single die of a whole card."""


def whole_cards(chips: int) -> Selection:
    """Selects for a request for one chip a die of a card that is half used, if there is one; other requests take whole
    cards. The penalty is the number of chips that stay free."""

    def select(free: int, request: ChipRequest) -> Choice | None:
        left = free.bit_count() - request.chips
        halves, full = _cards(free, chips)
        if request.chips == 1:
            card = next(iter([*halves, *full]), None)
            return None if card is None else Choice(card[:1], left if halves else left + NO_HALF_CARD)
        if DIES * len(full) < request.chips:
            return None
        return Choice(tuple(_joined(full))[: request.chips], left)

    return select


def half_cards_first(chips: int) -> Selection:
    """Dies of half-used cards, then those of whole ones. All nodes are equally good."""

    def select(free: int, request: ChipRequest) -> Choice | None:
        halves, full = _cards(free, chips)
        dies = tuple(_joined([*halves, *full]))
        return Choice(dies[: request.chips], 0) if request.chips <= len(dies) else None

    return select


def one_half_then_whole_cards(chips: int, preferred: Penalties, without_half: Penalties, worst: int) -> Selection:
    """Selects whole cards for an even request; for an odd one a die of a half-used card, if there is one, and whole
    cards.

    ``preferred``: penalties of even requests, and of odd ones that find a half-used card; ``without_half``: of other
    odd requests; ``worst``: the penalty where the tables have none."""

    def select(free: int, request: ChipRequest) -> Choice | None:
        halves, full = _cards(free, chips)
        single = halves[0] if request.chips % DIES and halves else ()
        taken = (*single, *_joined(full))[: request.chips]
        if len(taken) < request.chips:
            return None
        tables = [preferred] if single or not request.chips % DIES else []
        tables += [without_half] if request.chips % DIES else []
        found = (table.get(request.chips, {}).get(free.bit_count()) for table in tables)
        return Choice(taken, next((penalty for penalty in found if penalty is not None), worst))

    return select


def _cards(free: int, chips: int) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Returns the free dies of the cards with one free die, and of those with two."""
    cards = [tuple(ids_of(card)) for card in groups_of(free, DIES, chips)]
    return [card for card in cards if len(card) == 1], [card for card in cards if len(card) == DIES]


def _joined(cards: Iterable[tuple[int, ...]]) -> Iterator[int]:
    for card in cards:
        yield from card
