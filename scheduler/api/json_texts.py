"""Annotations whose text is JSON, and where an invalid one breaks off."""

import json
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from scheduler.api.names import (
    ASCEND_910_CONFIGURATION,
    BASE_DEVICE_INFOS,
    CARD_BORROWING_LIMIT,
    CARD_LENDING_LIMIT,
    CARD_QUOTA,
    CARD_REQUEST,
    HAMI_REGISTER_PREFIX,
    NODEGROUP_RESOURCE_LIMITS,
    NPU_CONFIGURATION,
)

_ANNOTATIONS: Final = frozenset(
    {
        CARD_QUOTA,
        CARD_BORROWING_LIMIT,
        CARD_LENDING_LIMIT,
        CARD_REQUEST,
        NODEGROUP_RESOURCE_LIMITS,
        BASE_DEVICE_INFOS,
        ASCEND_910_CONFIGURATION,
        NPU_CONFIGURATION,
    }
)


def json_problem(text: str) -> str:
    """Returns why a text is not JSON, with the position: ``not JSON: expecting ',' delimiter (line 1, column 20)``;
    "" if it is."""
    try:
        msgspec.json.decode(text)  # much faster, but with fewer positions
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _found_by_python(text)
    return ""


def _found_by_python(text: str) -> str:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        problem = f"{error.msg[:1].lower()}{error.msg[1:]} (line {error.lineno}, column {error.colno})"
        cut = "; the text ends there" if not text[error.pos :].strip() else ""
        return f"not JSON: {problem}{cut}"
    except RecursionError:
        return "not JSON: nested too deeply"
    except ValueError as error:
        return f"not JSON: {error}"
    return "not JSON"  # such as NaN, which Python accepts


def annotation_problems(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields key and problem of each annotation that the program reads as JSON and cannot."""
    for key in annotations:
        if key in _ANNOTATIONS or key.startswith(HAMI_REGISTER_PREFIX):
            problem = json_problem(annotations[key])
            if problem:
                yield key, problem
