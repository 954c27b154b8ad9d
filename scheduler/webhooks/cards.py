"""Annotations in which people name and count cards: malformed ones are refused at the door, where the scheduler could
only set them aside."""

from collections.abc import Iterator, Mapping
from typing import Final

from scheduler.api.names import CARD_NAME, CARD_QUOTA, CARD_REQUEST
from scheduler.plugins.capacity_card.quota import SEPARATOR, CardCounts, parse_names, parse_quota, parse_request

_COUNTS: Final = 'write a JSON object of cards and how many of each, such as {"NVIDIA-H200": 2}'
_NAMES: Final = f"write the name of a card, or several joined by {SEPARATOR} with the preferred one first"
Annotations = Mapping[str, str] | None


def quota_problems(annotations: Annotations) -> Iterator[str]:
    """Of a queue. No card at all is fine: such a queue uses none."""
    quota = parse_quota((annotations or {}).get(CARD_QUOTA))
    yield from _problems(CARD_QUOTA, quota.problems, _COUNTS)


def request_problems(annotations: Annotations) -> Iterator[str]:
    """Of a PodGroup."""
    text = (annotations or {}).get(CARD_REQUEST)
    request = parse_request(text)
    yield from _problems(CARD_REQUEST, (*request.problems, *_nothing_asked(text, request)), _COUNTS)


def name_problems(annotations: Annotations) -> Iterator[str]:
    """Of a Pod."""
    text = (annotations or {}).get(CARD_NAME)
    yield from _problems(CARD_NAME, () if text is None else parse_names(text).problems, _NAMES)


def _nothing_asked(text: str | None, request: CardCounts) -> Iterator[str]:
    for names, amount in request.amounts.items():
        if not amount:
            yield f"{SEPARATOR.join(names)[:64]!r}: 0 is not a number of cards to ask for"
    if text is not None and request.readable and not request.amounts and not request.problems:
        yield "no card is named"


def _problems(key: str, problems: tuple[str, ...], remedy: str) -> Iterator[str]:
    for problem in problems:
        yield f"metadata.annotations[{key}]: {problem}: {remedy}"
