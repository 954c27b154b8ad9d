"""Annotations and data of ConfigMaps whose text is JSON, and where an invalid one breaks off."""

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
    CLUSTER_INFO_PREFIX,
    DEVICE_INFO_CONFIGMAP_PREFIX,
    DEVICE_INFO_KEY,
    FAULT_NODES,
    HAMI_REGISTER_PREFIX,
    NODE_INFO_KEY,
    NODE_INFO_PREFIX,
    NODEGROUP_RESOURCE_LIMITS,
    NPU_CONFIGURATION,
    RANK_TABLE,
    RANK_TABLE_PREFIX,
    REMAINING_RETRIES,
    RESCHEDULING_HISTORY,
    RESCHEDULING_RECORDS,
    RESCHEDULING_RESTARTS,
    RESCHEDULING_STATE,
    RESET_CONFIG_KEY,
    RESET_CONFIG_PREFIX,
    SWITCH_INFO_KEY,
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
_CONFIG_MAPS: Final = (
    (DEVICE_INFO_CONFIGMAP_PREFIX, (DEVICE_INFO_KEY, SWITCH_INFO_KEY)),
    (NODE_INFO_PREFIX, (NODE_INFO_KEY,)),
    (RESET_CONFIG_PREFIX, (RESET_CONFIG_KEY,)),
    (RANK_TABLE_PREFIX, (RANK_TABLE,)),
    (RESCHEDULING_STATE, (FAULT_NODES, REMAINING_RETRIES, RESCHEDULING_RESTARTS)),
    (RESCHEDULING_HISTORY, (RESCHEDULING_RECORDS,)),
)
"""The beginnings of the names of ConfigMaps, and the keys of their data that are JSON."""
_TOO_DEEP: Final = "not JSON: nested too deeply"


def json_problem(text: str) -> str:
    """Returns why a text is not JSON, with the position: ``not JSON: expecting ',' delimiter (line 1, column 20)``;
    "" if it is."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)  # much faster, but with fewer positions
    except RecursionError:
        return _TOO_DEEP
    except (msgspec.DecodeError, UnicodeError):
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
        return _TOO_DEEP
    except ValueError as error:
        return f"not JSON: {error}"
    return "not JSON"  # such as NaN, which Python accepts


def is_json_annotation(key: str) -> bool:
    """Whether the program reads annotations with the key as JSON."""
    return key in _ANNOTATIONS or key.startswith(HAMI_REGISTER_PREFIX)


def annotation_problems(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields key and problem of each annotation that the program reads as JSON and cannot."""
    for key in annotations:
        if is_json_annotation(key):
            problem = json_problem(annotations[key])
            if problem:
                yield key, problem


def config_map_problems(name: str, data: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields key and problem of each text of a ConfigMap that the program reads as JSON and cannot. An empty text means
    that there is nothing to report. ``name``: of the ConfigMap."""
    for key in _json_keys(name):
        text = data.get(key, "")
        problem = json_problem(text) if text else ""
        if problem:
            yield key, problem


def _json_keys(name: str) -> tuple[str, ...]:
    """The keys of a ConfigMap whose texts are JSON."""
    if name.startswith(CLUSTER_INFO_PREFIX):
        return (name,)
    return next((keys for prefix, keys in _CONFIG_MAPS if name.startswith(prefix)), ())
