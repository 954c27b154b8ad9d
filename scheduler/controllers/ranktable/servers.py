"""The entry of a Pod in a rank table: its rank and its chips, read from its annotations."""

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from scheduler.api.names import (
    ASCEND_910_CONFIGURATION,
    HCCL_RANK_INDEX,
    HUAWEI_PREFIX,
    NPU_CONFIGURATION,
    SUPER_POD_RANK,
)
from scheduler.api.objects import Pod, Wire

UNKNOWN_ADDRESS: Final = "-1"
"""What the device plugin writes for a chip whose address it does not know."""
MAX_RANK: Final = 1_000_000
MAX_CHIPS: Final = 64
_CONFIGURATIONS: Final = (ASCEND_910_CONFIGURATION, NPU_CONFIGURATION)


class Chip(NamedTuple):
    """A chip of a Pod, with the strings of the annotation."""

    device_id: str
    device_ip: str
    super_device_id: str


class Server(NamedTuple):
    """A Pod with chips."""

    pod: str
    """Name of the Pod, for messages."""
    uid: str
    rank: int
    """Rank of the Pod among the Pods of the job."""
    host_ip: str
    pod_ip: str
    chips: tuple[Chip, ...]
    """In the order of the annotation."""
    super_pod_rank: str
    """Number of the logical super pod that the scheduler assigned, or ""."""


class ServerError(ValueError):
    """An annotation of a Pod is malformed. ``field`` names it."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


class _Device(msgspec.Struct):
    device_id: str
    device_ip: str
    super_device_id: str = ""


class _Configuration(Wire, rename=None):
    devices: list[_Device]
    host_ip: str = ""
    server_ip: str = ""


_decoder: Final = msgspec.json.Decoder(_Configuration)


def has_chips(pod: Pod) -> bool:
    """Whether the Pod requests chips or parts of chips."""
    for container in pod.spec.containers:
        resources = container.resources
        if resources is None:
            continue
        if _names_chips(resources.limits or ()) or _names_chips(resources.requests or ()):
            return True
    return False


def _names_chips(names: Iterable[str]) -> bool:
    return any(name.startswith(HUAWEI_PREFIX) for name in names)


def read_server(pod: Pod) -> Server | None:
    """Returns the entry of a Pod with chips; None while an annotation or the address of the Pod is missing.
    Raises ServerError."""
    annotations = pod.metadata.annotations or {}
    key = next((key for key in _CONFIGURATIONS if key in annotations), None)
    rank = annotations.get(HCCL_RANK_INDEX)
    if key is None or rank is None or not pod.status.pod_ip:
        return None
    if not (rank.isascii() and rank.isdecimal() and len(rank) < 8 and int(rank) <= MAX_RANK):
        raise ServerError(_field(HCCL_RANK_INDEX), f"{rank[:32]!r} is not a rank from 0 to {MAX_RANK}")
    try:
        configuration = _decoder.decode(annotations[key])
    except (msgspec.DecodeError, RecursionError) as error:
        raise ServerError(_field(key), str(error)[:200]) from None
    chips = tuple(Chip(each.device_id, each.device_ip, each.super_device_id) for each in configuration.devices)
    if not 1 <= len(chips) <= MAX_CHIPS:
        raise ServerError(_field(key), f"{len(chips)} devices, not 1 to {MAX_CHIPS}")
    return Server(
        pod.metadata.name,
        pod.metadata.uid,
        int(rank),
        configuration.host_ip or configuration.server_ip,
        pod.status.pod_ip,
        chips,
        annotations.get(SUPER_POD_RANK, ""),
    )


def _field(annotation: str) -> str:
    return f"metadata.annotations[{annotation}]"
