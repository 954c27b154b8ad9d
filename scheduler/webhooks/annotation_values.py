"""Annotations whose value is a number, a duration or a boolean, and what is wrong with one that is none.

The scheduler reads them when a job needs them, which may be long after the object was written, and only with the plugin
that defines them.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from scheduler.api.names import (
    COOLDOWN_TIME,
    PREEMPTABLE,
    SLA_WAITING_TIME,
    SLA_WAITING_TIME_PLAIN,
    SP_BLOCK,
    TRUE,
)
from scheduler.api.times import DurationError, parse_duration

LABELS_WITH_VALUES: Final = (COOLDOWN_TIME, PREEMPTABLE)
"""Labels that count if there is no annotation with the key, or before it."""
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def has_value(key: str) -> bool:
    """Whether annotations with the key have a number, a duration or a boolean."""
    return key in _PROBLEMS


def value_problems(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields key and problem of each value that cannot be used."""
    for key, text in annotations.items():
        problem = _PROBLEMS[key](text) if key in _PROBLEMS else ""
        if problem:
            yield key, problem


def _of_duration(text: str) -> str:
    try:
        parse_duration(text)
    except DurationError as error:
        return str(error)
    return ""


def _of_boolean(text: str) -> str:
    return "" if text in TRUE or text in _FALSE else f"{text[:64]!r} is neither true nor false, and counts as false"


def _of_positive(text: str) -> str:
    if text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 0:
        return ""
    return f"{text[:64]!r} is not a positive number"


_PROBLEMS: Final[Mapping[str, Callable[[str], str]]] = {
    COOLDOWN_TIME: _of_duration,
    SLA_WAITING_TIME: _of_duration,
    SLA_WAITING_TIME_PLAIN: _of_duration,
    PREEMPTABLE: _of_boolean,
    SP_BLOCK: _of_positive,
}
