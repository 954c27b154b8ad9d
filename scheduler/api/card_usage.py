"""What a queue uses of each card, as a text: for the command line, and in the status of the queue for kubectl."""

from collections.abc import Mapping
from typing import Any


def card_summary(cards: object) -> str:
    """The used amount and the quota of each card, with a note on its other amounts:
    ``NVIDIA-H200=3/3 (5 requested),NVIDIA-H800=0/2``; "" if there are none. ``cards``: ``status.cards``, of any
    shape."""
    return ",".join(
        f"{name}={its.get('used')}/{its.get('quota')}" + (f" ({note})" if (note := usage_note(its)) else "")
        for name, its in cards_in(cards).items()
    )


def cards_in(cards: object) -> dict[str, dict[str, Any]]:
    """``status.cards`` by name, without what is no mapping."""
    listed = cards.items() if isinstance(cards, dict) else ()
    return dict(sorted((str(name), its) for name, its in listed if isinstance(its, dict)))


def usage_note(amounts: Mapping[str, object]) -> str:
    """A note on the amounts of a resource besides the used one, such as ``1 inqueue, 5 requested``; "" if there are
    none. ``amounts``: the texts of ``used``, ``inqueue``, ``requested``, ``borrowed`` and ``lent``;
    any may be missing. The requested amount is left out if all of it is in use."""
    noted = {key: amounts.get(key) for key in ("inqueue", "requested", "borrowed", "lent")}
    if noted["requested"] == amounts.get("used"):
        del noted["requested"]
    return ", ".join(f"{amount} {what}" for what, amount in noted.items() if amount not in (None, "", "0"))
