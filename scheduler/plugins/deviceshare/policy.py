"""Which cards a Pod is better placed on: full ones (binpack) or idle ones (spread), or it does not matter ("")."""

from typing import Final

from scheduler.plugins.deviceshare.cards import Card

BINPACK: Final = "binpack"
SPREAD: Final = "spread"
FULL: Final = 100.0


def card_score(policy: str, card: Card, memory: int) -> float:
    """How good it is to take so much memory of a card, up to 100."""
    if policy == BINPACK:
        return FULL * (card.used_memory + memory) / card.memory if card.memory else 0.0
    if policy == SPREAD:
        return 0.0 if card.used else FULL
    return 0.0
