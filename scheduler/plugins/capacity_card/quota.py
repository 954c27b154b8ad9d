"""The annotations in which people name and count cards: on queues, PodGroups and Pods.

``volcano.sh/card.quota`` (queue) and ``volcano.sh/card.request`` (PodGroup) are JSON objects of whole numbers,
``volcano.sh/card.name`` (Pod) is one name or several joined by ``|``, the preferred one first; a request may join names
likewise. What cannot be used is set aside entry by entry; a text that is no JSON object gives nothing at all. The key
``volcano.sh/card.card``, which one sentence of the design uses for ``card.name``, is not looked at.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from scheduler.api.names import CPU, MEMORY

MILLI: Final = 1000
"""Cards are counted in thousandths, as every extended resource is."""
MOST_CARDS: Final = 10**9
MOST_NAMES: Final = 64
SEPARATOR: Final = "|"
_NAME: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._/*+:]{0,252}")
_RESERVED: Final = frozenset((CPU, MEMORY))
Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CardNames:
    """A list of names as somebody wrote it, less what is no name."""

    names: Names
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CardCounts:
    """Cards and how many of them, in thousandths."""

    amounts: Mapping[Names, float]
    problems: tuple[str, ...] = ()
    readable: bool = True
    """False: the text is not a JSON object, nothing is known of what was meant."""


NOTHING: Final = CardCounts(MappingProxyType({}))


@lru_cache(maxsize=4096)
def parse_names(text: str) -> CardNames:
    """``A`` or ``A|B``: distinct names in the order written."""
    names: dict[str, None] = {}
    problems = []
    for part in text.split(SEPARATOR)[: MOST_NAMES + 1]:
        name = part.strip()
        problem = _wrong_name(name)
        if problem is None and name in names:
            problem = f"{name!r} is named twice"
        if problem is not None:
            problems.append(problem)
        elif len(names) == MOST_NAMES:
            problems.append(f"more than {MOST_NAMES} names")
        else:
            names[name] = None
    return CardNames(tuple(names), tuple(dict.fromkeys(problems)))


def parse_quota(text: str | None) -> CardCounts:
    """How many cards of each model a queue may have; every key is one name."""
    return NOTHING if text is None else _parse_counts(text, False)


def parse_request(text: str | None) -> CardCounts:
    """How many cards of each model, or of several (``A|B``), a job will ask for."""
    return NOTHING if text is None else _parse_counts(text, True)


@lru_cache(maxsize=16384)
def _parse_counts(text: str, alternatives: bool) -> CardCounts:
    try:
        pairs = json.loads(text, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return CardCounts({}, (f"{text[:64]!r} is not JSON",), readable=False)
    if not isinstance(pairs, _Pairs):
        return CardCounts({}, (f"{text[:64]!r} is not a JSON object of cards and numbers",), readable=False)
    amounts: dict[Names, float] = {}
    problems: list[str] = []
    ambiguous: set[Names] = set()
    for key, value in pairs:
        listed = parse_names(key) if alternatives else CardNames((key,), _as_problems(_wrong_name(key)))
        problem = listed.problems[0] if listed.problems else _wrong_count(value)
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
    """The members of a JSON object in order, repeated keys included."""


def _as_problems(problem: str | None) -> tuple[str, ...]:
    return () if problem is None else (problem,)


def _wrong_name(name: str) -> str | None:
    """What keeps a text from naming a card, or None."""
    if not name:
        return "empty name of a card"
    if _NAME.fullmatch(name) is None or name in _RESERVED:
        return f"{name[:64]!r} is not the name of a card"
    return None


def _wrong_count(value: object) -> str | None:
    """What keeps a JSON value from being a number of cards, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"a {type(value).__name__} is not a number"
    if not 0 <= value <= MOST_CARDS:  # NaN is neither
        return f"{str(value)[:64]} is not a number of cards from 0 to {MOST_CARDS}"
    return None if value == int(value) else f"{value} is not a whole number"
