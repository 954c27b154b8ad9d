"""The entry of a Pod in a rank table: its rank and its chips, read from its annotations."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler.api.json_texts import json_problem
from scheduler.api.names import (
    ASCEND_910_CONFIGURATION,
    HARDWARE_TYPE,
    HCCL_RANK_INDEX,
    HUAWEI_PREFIX,
    NPU_CONFIGURATION,
    SUPER_POD_ID,
    SUPER_POD_RANK,
)
from scheduler.api.objects import Pod, Wire
from scheduler.api.quantity import QuantityError, parse_amount

UNKNOWN_ADDRESS: Final = "-1"
"""The text that the device plugin writes for a chip whose address is unknown."""
MAX_RANK: Final = 1_000_000
MAX_CHIPS: Final = 64
MAX_CHARACTERS: Final = 262_144
"""Length of the annotation with the chips. The API server accepts no more for all annotations of an object."""
_CONFIGURATIONS: Final = (ASCEND_910_CONFIGURATION, NPU_CONFIGURATION)


class RankAddress(msgspec.Struct):
    """An address of a chip on one level of the network."""

    addr_type: str
    addr: str
    ports: list[str] | None
    plane_id: str


class NetElement(msgspec.Struct):
    """How a chip is connected on one level of the network: an entry of ``level_list``, as the device plugin wrote
    it."""

    net_layer: int
    net_instance_id: str
    net_type: str
    net_attr: str
    rank_addr_list: list[RankAddress] | None


class NetLevel(msgspec.Struct):
    """The connections of a chip on one level of the network."""

    level: int
    info: dict[str, NetElement]
    """Type of the ports (ROCE, UBOE, UBG ...) -> the network element."""


class RankedChip(NamedTuple):
    """A chip of a Pod, with the strings of the annotation."""

    device_id: str
    device_ip: str
    super_device_id: str
    levels: Sequence[NetLevel] = ()


class RankedServer(NamedTuple):
    """A Pod with chips."""

    pod: str
    """Name of the Pod, for messages."""
    uid: str
    rank: int
    """Rank of the Pod among the Pods of the job."""
    host_ip: str
    pod_ip: str
    chips: tuple[RankedChip, ...]
    """The chips in the order of the annotation."""
    super_pod_rank: str
    """Number of the logical super pod that the scheduler assigned, or ""."""
    super_pod_id: str = ""
    """Number of the super pod of the node, or ""."""
    hardware_type: str = ""
    """Model of the server, or ""."""


class ServerError(ValueError):
    """An annotation of a Pod is malformed. ``field`` names it."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


class TableError(ValueError):
    """The entries of the Pods do not form a rank table."""


class _Device(msgspec.Struct):
    device_id: str
    device_ip: str = ""
    super_device_id: str = ""
    level_list: list[NetLevel] | None = msgspec.field(default=None, name="levelList")


class _Configuration(Wire, rename=None):
    devices: list[_Device]
    host_ip: str = ""
    server_ip: str = ""


_decoder: Final = msgspec.json.Decoder(_Configuration)


def requested_chips(pod: Pod) -> dict[str, int]:
    """Resource -> amount of the chips or parts of chips that the Pod requests. A malformed amount counts as 0."""
    chips: dict[str, int] = {}
    for container in pod.spec.containers:
        resources = container.resources
        if resources is None:
            continue
        for name, quantity in {**(resources.limits or {}), **(resources.requests or {})}.items():
            if name.startswith(HUAWEI_PREFIX):
                chips[name] = chips.get(name, 0) + _units(quantity)
    return chips


def _units(quantity: str | int | float) -> int:
    try:
        return parse_amount(quantity).nano // 10**9
    except QuantityError:
        return 0


def read_server(pod: Pod) -> RankedServer | None:
    """Returns the entry of a Pod with chips; None while an annotation or the address of the Pod is missing.
    Raises ServerError."""
    annotations = pod.metadata.annotations or {}
    key = next((key for key in _CONFIGURATIONS if key in annotations), None)
    rank = annotations.get(HCCL_RANK_INDEX)
    if key is None or rank is None or not pod.status.pod_ip:
        return None
    if not (rank.isascii() and rank.isdecimal() and len(rank) < 8 and int(rank) <= MAX_RANK):
        raise ServerError(_field(HCCL_RANK_INDEX), f"{rank[:32]!r} is not a rank from 0 to {MAX_RANK}")
    if len(annotations[key]) > MAX_CHARACTERS:
        raise ServerError(_field(key), f"{len(annotations[key])} characters, more than {MAX_CHARACTERS}")
    try:
        configuration = _decoder.decode(annotations[key])
    except (msgspec.DecodeError, RecursionError) as error:
        raise ServerError(_field(key), json_problem(annotations[key]) or str(error)[:200]) from None
    chips = tuple(
        RankedChip(each.device_id, each.device_ip, each.super_device_id, each.level_list or ())
        for each in configuration.devices
    )
    if not 1 <= len(chips) <= MAX_CHIPS:
        raise ServerError(_field(key), f"{len(chips)} devices, not 1 to {MAX_CHIPS}")
    return RankedServer(
        pod.metadata.name,
        pod.metadata.uid,
        int(rank),
        configuration.host_ip or configuration.server_ip,
        pod.status.pod_ip,
        chips,
        annotations.get(SUPER_POD_RANK, ""),
        annotations.get(SUPER_POD_ID, ""),
        annotations.get(HARDWARE_TYPE, ""),
    )


def _field(annotation: str) -> str:
    return f"metadata.annotations[{annotation}]"
