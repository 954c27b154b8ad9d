"""Finds numbers in a message that do not explain a refusal, for tests of messages."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from scheduler.api.quantity import parse_quantity

_AMOUNT: Final = r"([0-9][0-9.]*[A-Za-z]*)"
_RULES: Final[list[tuple[str, Callable[..., bool]]]] = [
    (rf"asked {_AMOUNT}, most free(?: on one [\w-]+)? {_AMOUNT}", lambda asked, free: free < asked),
    (
        rf"had {_AMOUNT} of {_AMOUNT} chips free, (?:all )?{_AMOUNT} are needed",
        lambda free, chips, needed: free < needed <= chips,
    ),
    (rf"total would be <{_AMOUNT}>, but capability is <{_AMOUNT}>", lambda total, limit: total > limit),
    (
        rf"asked {_AMOUNT}, (?:used|in use|reserved) {_AMOUNT}, limit {_AMOUNT}",
        lambda asked, used, limit: asked + used > limit,
    ),
]
"""A pattern -> whether its numbers are a reason to refuse."""


def contradictions(text: str) -> Iterator[str]:
    """Yields the parts of a message whose numbers would allow what the message refuses."""
    for pattern, refuses in _RULES:
        for match in re.finditer(pattern, text):
            if not refuses(*(parse_quantity(amount) for amount in match.groups())):
                yield match[0]
