"""Parses the annotations that name and count cards: on queues, PodGroups and Pods.

``volcano.sh/card.quota`` (queue) and ``volcano.sh/card.request`` (PodGroup) are JSON objects of whole numbers,
``volcano.sh/card.name`` (Pod) is one name or several joined by ``|``, the preferred one first; the keys of a request
may join names too. Invalid entries are ignored; if the text is not a JSON object, all of it is. A Pod may name its
cards in ``volcano.sh/card.card`` instead, as the design does once.
"""

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from scheduler.api.json_texts import json_problem
from scheduler.api.messages import type_of
from scheduler.api.names import CARD_CARD, CARD_NAME, CPU, MEMORY
from scheduler.api.text_cache import cache_texts

MILLI: Final = 1000
"""Cards are counted in thousandths, like all extended resources."""
MAX_CARDS: Final = 10**9
MAX_NAMES: Final = 64
SEPARATOR: Final = "|"
_NAME: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._/*+:]{0,252}")
ASCEND_VENDOR: Final = "Huawei"
_VENDORS: Final = (
    *((start, "NVIDIA") for start in ("nvidia-", "tesla-", "geforce-", "quadro-")),
    ("ascend", ASCEND_VENDOR),
    ("ppu-", "PPU"),
)
"""Beginnings of the names of cards, in lower case."""
_RESERVED: Final = frozenset((CPU, MEMORY))
Names = tuple[str, ...]


class CardNames(msgspec.Struct, frozen=True):
    """The valid names of a list, and the problems found in it."""

    names: Names
    problems: tuple[str, ...] = ()


class CardCounts(msgspec.Struct, frozen=True):
    """Numbers of cards, in thousandths."""

    amounts: Mapping[Names, float]
    problems: tuple[str, ...] = ()
    readable: bool = True
    """Whether the text is a JSON object."""


NO_NAMES: Final = CardNames(())
NO_CARDS: Final = CardCounts(MappingProxyType({}))


@cache_texts(4096)
def parse_names(text: str) -> CardNames:
    """Parses ``A`` or ``A|B`` into distinct names, in order."""
    names: dict[str, None] = {}
    problems = []
    for card_request in text.split(SEPARATOR)[: MAX_NAMES + 1]:
        name = card_request.strip()
        problem = _name_problem(name)
        if problem is None and name in names:
            problem = f"{name!r} is named twice"
        if problem is not None:
            problems.append(problem)
        elif len(names) == MAX_NAMES:
            problems.append(f"more than {MAX_NAMES} names")
        else:
            names[name] = None
    return CardNames(tuple(names), tuple(dict.fromkeys(problems)))


def is_card_name(text: str) -> bool:
    """Whether a text may be the name of a card."""
    return _NAME.fullmatch(text) is not None and text not in _RESERVED


def cards_of_pod(annotations: Mapping[str, str]) -> tuple[str, CardNames]:
    """Returns the annotation in which a Pod names its cards, and the names. Without ``card.name``, ``card.card``
    counts."""
    name, card = annotations.get(CARD_NAME), annotations.get(CARD_CARD)
    key, text = (CARD_CARD, card) if name is None and card is not None else (CARD_NAME, name)
    listed = NO_NAMES if text is None else parse_names(text)
    if name is not None and card is not None and parse_names(card).names != listed.names:
        problem = f"{card[:64]!r} in {CARD_CARD} names other cards, and is ignored"
        return key, CardNames(listed.names, (*listed.problems, problem))
    return key, listed


def vendor_of(name: str) -> str:
    """Returns the vendor of a card by the beginning of its name; "" if it says nothing. Cards of different vendors are
    different resources."""
    lowered = name.lower()
    return next((vendor for start, vendor in _VENDORS if lowered.startswith(start)), "")


def parse_quota(text: str | None) -> CardCounts:
    """Parses the number of cards of each model that a queue may use; every key is one name."""
    return NO_CARDS if text is None else _parse_counts(text, False)


def parse_request(text: str | None) -> CardCounts:
    """Parses the number of cards of each model, or of alternatives (``A|B``), that a job will request."""
    return NO_CARDS if text is None else _parse_counts(text, True)


@cache_texts(16384)
def _parse_counts(text: str, alternatives: bool) -> CardCounts:
    try:
        pairs = json.loads(text, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return CardCounts({}, (f"{text[:64]!r} is {json_problem(text) or 'not JSON'}",), readable=False)
    if not isinstance(pairs, _Pairs):
        return CardCounts({}, (f"{text[:64]!r} is not a JSON object of cards and numbers",), readable=False)
    amounts: dict[Names, float] = {}
    problems: list[str] = []
    ambiguous: set[Names] = set()
    for key, value in pairs:
        listed = parse_names(key) if alternatives else CardNames((key,), _as_problems(_name_problem(key)))
        problem = listed.problems[0] if listed.problems else _count_problem(value)
        names = listed.names
        if names in amounts or names in ambiguous:
            problem = f"{key[:64]!r} is given twice"
            ambiguous.add(names)
            amounts.pop(names, None)
        if problem is None:
            amounts[names] = float(int(value) * MILLI)
        else:
            problems.append(problem if repr(key[:64]) in problem else f"{key[:64]!r}: {problem}")
    return CardCounts(amounts, tuple(problems))


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object in order, including repeated keys."""


def _as_problems(problem: str | None) -> tuple[str, ...]:
    return () if problem is None else (problem,)


def _name_problem(name: str) -> str | None:
    """Returns why a text is not a valid name of a card, or None."""
    if not name:
        return "empty name of a card"
    if not is_card_name(name):
        return f"{name[:64]!r} is not the name of a card"
    return None


def _count_problem(value: object) -> str | None:
    """Returns why a JSON value is not a valid number of cards, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{type_of(value)} is not a number"
    if not 0 <= value <= MAX_CARDS:  # this excludes NaN
        return f"{str(value)[:64]} is not a number of cards from 0 to {MAX_CARDS}"
    return None if value == int(value) else f"{value} is not a whole number"
