"""Parses the device info ConfigMaps that the Ascend device plugin publishes."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.api.json_texts import BASE_DEVICES, CHIP_FAULTS, JsonTextError, json_problem
from scheduler.api.text_cache import OF_NODES, cache_texts

_MAX_ID: Final = 2**31
_MILLISECONDS: Final = 10**11
"""Update times from this value on are not in seconds and are ignored."""


SUB_HEALTH_FAULT: Final = "SubHealthFault"


class DeviceInfoError(ValueError):
    """The text is not valid device information. The message says why."""


class DeviceInfo(NamedTuple):
    """The content of a device info ConfigMap."""

    lists: dict[str, Any]
    """The ``DeviceList``. Its values are not validated yet."""
    published: float
    """The ``UpdateTime``, in seconds since the epoch; 0 if it is missing or invalid."""
    super_pod: int | None
    """The ``SuperPodID``; None if it is missing or invalid."""


def device_info(text: str) -> DeviceInfo:
    """Parses a device info ConfigMap: of one node (wrapped in ``DeviceInfo``) or aggregated (not wrapped). Raises
    DeviceInfoError."""
    root = json_object(text)
    inner = root.get("DeviceInfo", root)
    lists = inner.get("DeviceList") if isinstance(inner, dict) else None
    if not isinstance(lists, dict):
        raise DeviceInfoError("has no object DeviceList")
    published = inner.get("UpdateTime")
    super_pod = root.get("SuperPodID")
    return DeviceInfo(
        lists,
        float(published) if type(published) is int and 0 < published < _MILLISECONDS else 0.0,
        super_pod if type(super_pod) is int and abs(super_pod) < _MAX_ID else None,
    )


@cache_texts(8192, OF_NODES)
def base_devices(text: str) -> Mapping[str, Any]:
    """Parses the annotation ``baseDeviceInfos`` of a Node: name of a chip -> its address and ids, which are not
    validated yet. Raises DeviceInfoError."""
    if not text:
        raise DeviceInfoError("is missing or empty")
    try:
        return BASE_DEVICES.decode(text)
    except JsonTextError as error:
        raise DeviceInfoError(str(error)) from None


def sub_healthy_chips(text: object) -> list[str]:
    """Parses a list of faults (``huawei.com/Ascend910-Fault``): the names of the chips of sub-health faults. Raises
    DeviceInfoError."""
    if text in ("", "[]"):
        return []
    if not isinstance(text, str):
        raise DeviceInfoError(f"a JSON array as text is wanted, not {type(text).__name__}")
    try:
        faults = CHIP_FAULTS.decode(text) or []
    except JsonTextError as error:
        raise DeviceInfoError(str(error)) from None
    return [fault.npu_name for fault in faults if fault.fault_handling == SUB_HEALTH_FAULT]


def json_object(text: str) -> dict[str, Any]:
    """Parses a JSON object. Raises DeviceInfoError."""
    if not text:
        raise DeviceInfoError("is missing or empty")
    try:
        root = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise DeviceInfoError(json_problem(text) or f"not JSON: {error}") from None
    if not isinstance(root, dict):
        raise DeviceInfoError(f"a JSON object is wanted, not {type(root).__name__}")
    return root
