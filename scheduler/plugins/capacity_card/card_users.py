"""The cards of a holding, and who uses cards: queues and namespaces, with online or offline Pods."""

from collections.abc import Iterable, Iterator

from scheduler.api.names import CPU, MEMORY
from scheduler.framework.figures import CardUser
from scheduler.plugins.capacity_card.discovery import CardInventory
from scheduler.plugins.capacity_card.holdings import Amounts, CardHolding, add

CardSums = dict[CardUser, Amounts]
"""User -> card -> amount in thousandths."""


def only_cards(amounts: Amounts) -> Amounts:
    """Returns the amounts of cards, without cpu and memory."""
    return {name: amount for name, amount in amounts.items() if name not in (CPU, MEMORY)}


def cards_in(holding: CardHolding, inventory: CardInventory) -> Iterator[tuple[str, float]]:
    """Yields the cards that Pods hold, terminating ones too, and their amounts. If a card is not known, every card that
    it may be counts; if none is known, the resource."""
    yield from only_cards(holding.allocated).items()
    yield from only_cards(holding.releasing).items()
    for possible, amount in holding.uncertain.items():
        for card in possible.cards or inventory.by_resource.get(possible.resource) or (possible.resource,):
            yield card, amount


def online_cards(sums: CardSums) -> dict[str, Amounts]:
    """Returns queue -> the cards that its online Pods hold."""
    found: dict[str, Amounts] = {}
    for user, cards in sums.items():
        if user.online:
            add(found.setdefault(user.queue, {}), cards.items())
    return found


def add_users(sums: CardSums, users: Iterable[tuple[CardUser, CardHolding]], inventory: CardInventory) -> None:
    """Adds the cards that users hold."""
    for user, holding in users:
        cards = list(cards_in(holding, inventory))
        if cards:
            add(sums.setdefault(user, {}), cards)
