"""Validation of the card annotations on queues, PodGroups and Pods.

Admission refuses a malformed annotation; once the object is stored, the scheduler can only ignore it with a Warning.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from scheduler.api.cards import SEPARATOR, CardCounts, cards_of_pod, parse_quota, parse_request
from scheduler.api.names import CARD_BORROWING_LIMIT, CARD_LENDING_LIMIT, CARD_QUOTA, CARD_REQUEST

_COUNTS_REMEDY: Final = 'write a JSON object of cards and how many of each, such as {"NVIDIA-H200": 2}'
_NAMES_REMEDY: Final = f"write the name of a card, or several joined by {SEPARATOR} with the preferred one first"
QUOTA_ANNOTATIONS: Final = (CARD_QUOTA, CARD_BORROWING_LIMIT, CARD_LENDING_LIMIT)
Annotations = Mapping[str, str] | None


def quota_problems(annotations: Annotations) -> Iterator[str]:
    """The problems of a queue's card quota, and of its limits of borrowing and lending. A queue without a quota is
    valid and may use no cards."""
    for key in QUOTA_ANNOTATIONS:
        yield from _problems(key, parse_quota((annotations or {}).get(key)).problems, _COUNTS_REMEDY)


def raised_quota(new: Annotations, old: Annotations) -> dict[str, float]:
    """Card -> the number in a queue's new quota, in thousandths, if it is greater than in the old one."""
    numbers, before = (parse_quota((each or {}).get(CARD_QUOTA)).amounts for each in (new, old))
    return {names[0]: number for names, number in numbers.items() if number > before.get(names, 0.0)}


def request_problems(annotations: Annotations) -> Iterator[str]:
    """The problems of a PodGroup's card request."""
    text = (annotations or {}).get(CARD_REQUEST)
    request = parse_request(text)
    yield from _problems(CARD_REQUEST, (*request.problems, *_empty_request_problems(text, request)), _COUNTS_REMEDY)


def name_problems(annotations: Annotations) -> Iterator[str]:
    """The problems of the card names that a Pod accepts."""
    key, listed = cards_of_pod(annotations or {})
    yield from _problems(key, listed.problems, _NAMES_REMEDY)


def _empty_request_problems(text: str | None, request: CardCounts) -> Iterator[str]:
    for names, amount in request.amounts.items():
        if not amount:
            yield f"{SEPARATOR.join(names)[:64]!r}: 0 is not a number of cards to ask for"
    if text is not None and request.readable and not request.amounts and not request.problems:
        yield "no card is named"


def _problems(key: str, problems: tuple[str, ...], remedy: str) -> Iterator[str]:
    for problem in problems:
        yield f"metadata.annotations[{key}]: {problem}: {remedy}"
