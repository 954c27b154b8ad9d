"""The cards of a holding, and who uses cards: queues and namespaces, with online or offline Pods."""

from collections.abc import Iterator, Mapping

from scheduler.api.names import CPU, MEMORY
from scheduler.framework.figures import CardUser
from scheduler.plugins.capacity_card.discovery import CardInventory
from scheduler.plugins.capacity_card.holdings import Amounts, CardHolding, add

CardSums = dict[CardUser, Amounts]
"""User -> card -> amount in thousandths."""
UsedCards = tuple[tuple[CardUser, tuple[tuple[str, float], ...]], ...]
"""Users with their cards and amounts."""


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


def users_of(holdings: Mapping[str, CardHolding], namespace: str, online: bool, inventory: CardInventory) -> UsedCards:
    """Returns the users of the cards of Pods of a namespace. ``holdings``: charged queue -> what the Pods hold."""
    found = ((queue, tuple(cards_in(holding, inventory))) for queue, holding in holdings.items())
    return tuple((CardUser(queue, namespace, online), cards) for queue, cards in found if cards)


def add_users(sums: CardSums, used: UsedCards, sign: float = 1.0) -> None:
    """Adds the cards of users, or subtracts them (``sign`` -1)."""
    for user, cards in used:
        add(sums.setdefault(user, {}), cards, sign)
