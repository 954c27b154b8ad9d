"""Annotations and data of ConfigMaps whose text is JSON: their formats, and where an invalid one breaks off.

Plugins read a text with its format, and loading an object checks its texts with the same formats, so that a mistake is
reported before a job needs the text.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from scheduler.api.names import (
    ASCEND_910_CONFIGURATION,
    BASE_DEVICE_INFOS,
    CARD_ALTERNATIVES,
    CARD_BORROWING_LIMIT,
    CARD_LENDING_LIMIT,
    CARD_QUOTA,
    CARD_REQUEST,
    CLUSTER_INFO_PREFIX,
    DEVICE_INFO_CONFIGMAP_PREFIX,
    DEVICE_INFO_KEY,
    FAULT_NODES,
    FAULT_SUFFIX,
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
    RESOURCE_STRATEGY_WEIGHT,
    SWITCH_INFO_KEY,
    VNPU_FAILURES,
)
from scheduler.api.objects import ResourceList
from scheduler.api.reasons import IGNORED, field_and_problem

T = TypeVar("T")
EMPTY_LIST: Final = "counts as an empty list"
"""What follows from an invalid list of faults."""
_TOO_DEEP: Final = "not JSON: nested too deeply"


class JsonTextError(ValueError):
    """A text is not JSON, or not of its type. The message says why, with the position or the field."""


class JsonFormat(Generic[T]):
    """JSON of one type."""

    def __init__(self, type_: type[T]) -> None:
        self._decoder = msgspec.json.Decoder(type_)

    def decode(self, text: str) -> T:
        """Parses a text. Raises JsonTextError."""
        try:
            return self._decoder.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise JsonTextError(json_problem(text) or _type_problem(error)) from None

    def problem(self, text: str) -> str:
        """Returns why a text cannot be used; "" if it can."""
        try:
            self.decode(text)
        except JsonTextError as error:
            return str(error)
        return ""


class RegisteredNpu(msgspec.Struct):
    """An NPU in the register of a node. Without the field ``health`` it is healthy."""

    id: str
    index: int = 0
    count: int = 0
    devmem: int = 0
    devcore: int = 0
    health: bool = True
    custominfo: dict[str, Any] | None = None


class ChipFault(msgspec.Struct):
    """A fault of a chip in the list of a device plugin."""

    npu_name: str = ""
    fault_handling: str = ""


class VnpuFailure(msgspec.Struct, frozen=True, omit_defaults=True):
    """A chip on which virtual NPUs of a job could not be created."""

    node: str
    chip: Annotated[int, msgspec.Meta(ge=-1, lt=64)]
    """-1: the chip is not known."""
    time: Annotated[int, msgspec.Meta(ge=0, lt=2**33)]
    """When the last one failed, in Unix seconds."""
    times: Annotated[int, msgspec.Meta(ge=1, lt=10**6)] = 1
    """How often one failed."""
    pods: tuple[str, ...] = ()
    """The uids of the Pods that failed there, as long as they exist."""


VNPU_FAILURES_FORMAT: Final[JsonFormat[list[VnpuFailure]]] = JsonFormat(list[VnpuFailure])
_OBJECT: Final = JsonFormat(dict[str, Any])
_OBJECTS: Final = JsonFormat(list[dict[str, Any]])
BASE_DEVICES: Final = _OBJECT
"""Name of a chip -> its address and ids, which are not checked."""
CHIP_FAULTS: Final[JsonFormat[list[ChipFault] | None]] = JsonFormat(list[ChipFault] | None)  # type: ignore[arg-type]
HAMI_NPUS: Final = JsonFormat(list[RegisteredNpu])
NODE_GROUP_LIMITS: Final = JsonFormat(dict[str, ResourceList | None])
"""Name of a group of nodes -> what a queue may use there."""
STRATEGY_WEIGHTS: Final = JsonFormat(dict[str, Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]])
"""Resource -> weight in the score of nodes."""

_ANNOTATIONS: Final[Mapping[str, JsonFormat[Any]]] = {
    CARD_QUOTA: _OBJECT,
    CARD_BORROWING_LIMIT: _OBJECT,
    CARD_LENDING_LIMIT: _OBJECT,
    CARD_REQUEST: _OBJECT,
    CARD_ALTERNATIVES: _OBJECTS,
    NODEGROUP_RESOURCE_LIMITS: NODE_GROUP_LIMITS,
    RESOURCE_STRATEGY_WEIGHT: STRATEGY_WEIGHTS,
    BASE_DEVICE_INFOS: BASE_DEVICES,
    ASCEND_910_CONFIGURATION: _OBJECT,
    NPU_CONFIGURATION: _OBJECT,
    VNPU_FAILURES: VNPU_FAILURES_FORMAT,
}
_CONFIG_MAPS: Final = (
    (DEVICE_INFO_CONFIGMAP_PREFIX, (DEVICE_INFO_KEY, SWITCH_INFO_KEY)),
    (NODE_INFO_PREFIX, (NODE_INFO_KEY,)),
    (RESET_CONFIG_PREFIX, (RESET_CONFIG_KEY,)),
    (RANK_TABLE_PREFIX, (RANK_TABLE,)),
    (RESCHEDULING_STATE, (FAULT_NODES, REMAINING_RETRIES, RESCHEDULING_RESTARTS)),
    (RESCHEDULING_HISTORY, (RESCHEDULING_RECORDS,)),
)
"""The beginnings of the names of ConfigMaps, and the keys of their data that are JSON. Readers check the types."""
_SOME_FAULTS: Final = re.compile(rf'{FAULT_SUFFIX}"\s*:\s*(?!"(\[\])?")')
"""The beginning of a list of faults that is not empty; a list is JSON as a text."""


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


def _type_problem(error: Exception) -> str:
    field, problem = field_and_problem(error)
    return f"{problem} (at {field})" if field else problem


def is_json_annotation(key: str) -> bool:
    """Whether the program reads annotations with the key as JSON."""
    return key in _ANNOTATIONS or key.startswith(HAMI_REGISTER_PREFIX)


def annotation_problems(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields key and problem of each annotation that the program reads as JSON and cannot."""
    for key in annotations:
        format_ = HAMI_NPUS if key.startswith(HAMI_REGISTER_PREFIX) else _ANNOTATIONS.get(key)
        problem = format_.problem(annotations[key]) if format_ is not None else ""
        if problem:
            yield key, problem


class TextProblem(NamedTuple):
    """A text of a ConfigMap that cannot be used."""

    field: str
    """Such as ``data[NodeInfo]``."""
    problem: str
    consequence: str = IGNORED


def config_map_problems(name: str, data: Mapping[str, str]) -> Iterator[TextProblem]:
    """Yields the problem of each text of a ConfigMap that the program reads as JSON and cannot. An empty text means
    that there is nothing to report. ``name``: of the ConfigMap."""
    for key in _json_keys(name):
        text = data.get(key, "")
        problem = json_problem(text) if text else ""
        if problem:
            yield TextProblem(f"data[{key}]", problem)
        elif _SOME_FAULTS.search(text):
            for path, problem in _fault_problems(name, text):
                yield TextProblem(f"data[{key}]{path}", problem, EMPTY_LIST)


class _DeviceLists(msgspec.Struct):
    DeviceList: dict[str, Any] = {}


class _DeviceInfo(_DeviceLists):
    DeviceInfo: _DeviceLists | None = None


_DEVICE_INFO: Final = JsonFormat(_DeviceInfo)
_DEVICE_INFOS: Final = JsonFormat(dict[str, _DeviceInfo])


def _fault_problems(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Yields path and problem of each list of faults in the report of a device plugin, or of ClusterD on all nodes. A
    text of another type is left to its reader."""
    with suppress(JsonTextError):
        if name.startswith(CLUSTER_INFO_PREFIX):
            for node, info in _DEVICE_INFOS.decode(text).items():
                yield from _of_lists(info, f"[{node}]")
        else:
            yield from _of_lists(_DEVICE_INFO.decode(text), "")


def _of_lists(info: _DeviceInfo, path: str) -> Iterator[tuple[str, str]]:
    for key, text in (info.DeviceInfo or info).DeviceList.items():
        if key.endswith(FAULT_SUFFIX) and isinstance(text, str) and text:
            problem = CHIP_FAULTS.problem(text)
            if problem:
                yield f"{path}[{key}]", problem


def _json_keys(name: str) -> tuple[str, ...]:
    """The keys of a ConfigMap whose texts are JSON."""
    if name.startswith(CLUSTER_INFO_PREFIX):
        return (name,)
    return next((keys for prefix, keys in _CONFIG_MAPS if name.startswith(prefix)), ())
