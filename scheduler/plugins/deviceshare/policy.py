"""The policies by which cards are preferred: used cards (binpack), idle cards (spread), or no preference ("")."""

from typing import Final

from scheduler.plugins.deviceshare.cards import Card

BINPACK: Final = "binpack"
SPREAD: Final = "spread"
FULL: Final = 100.0


def card_score(policy: str, card: Card, memory: int) -> float:
    """Returns the score of allocating ``memory`` on a card, 0 to 100."""
    if policy == BINPACK:
        return FULL * (card.used_memory + memory) / card.memory if card.memory else 0.0
    if policy == SPREAD:
        return 0.0 if card.used else FULL
    return 0.0
