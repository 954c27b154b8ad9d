"""The part of a rank table of version 2.0: the ranks, each with its connections on the levels of the network.

Levels 0 (within a server) and 1 (within a super pod) are those that the device plugin reports for a chip. Of the
levels between super pods, a table has one: level 3 for RoCE, level 2 for UBoE or UBG.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from scheduler.controllers.ranktable.servers import Chip, NetElement, Server, TableError

ROCE, UBOE, UBG = "ROCE", "UBOE", "UBG"
_SCALE_OUT: Final[Mapping[str, Sequence[str]]] = {"": (ROCE, UBOE, UBG), ROCE: (ROCE,), UBOE: (UBOE, UBG)}
"""Network that a job asks for -> types of ports, the best first."""
_LEVELS: Final[Mapping[str, int]] = {ROCE: 3, UBOE: 2, UBG: 2}
"""Type of ports -> level of the network."""
_WITHIN: Final = (0, 1)


def rank_list(servers: Sequence[Server], scale_out: str) -> list[dict[str, Any]]:
    """The ranks, in their order. ``scale_out``: the network that the job asks for, or "". Raises TableError if there is
    no such network, or if the id of a chip is no number."""
    if scale_out not in _SCALE_OUT:
        raise TableError(f"label scaleout-type is {scale_out[:32]!r}, not {ROCE} or {UBOE}")
    ports = _ports(servers, scale_out)
    return [
        _rank(server, server.rank * len(server.chips) + position, chip, ports, scale_out)
        for server in servers
        for position, chip in enumerate(server.chips)
    ]


def _ports(servers: Iterable[Server], scale_out: str) -> str:
    """The type of ports that the ranks communicate by between super pods; "" if no chip has one that fits."""
    known = {type for server in servers for chip in server.chips for level in chip.levels for type in level.info}
    return next((type for type in _SCALE_OUT[scale_out] if type in known), "")


def _rank(server: Server, rank: int, chip: Chip, ports: str, scale_out: str) -> dict[str, Any]:
    if not (chip.device_id.isascii() and chip.device_id.isdecimal() and len(chip.device_id) < 8):
        raise TableError(f"Pod {server.pod}: device_id {chip.device_id[:32]!r} is no number")
    number = int(chip.device_id)
    found = [element for level in _WITHIN if (element := _within(chip, level)) is not None]
    between = _LEVELS.get(ports or scale_out)
    if between is not None:
        found.append(_between(chip, between, ports))
    rank_entry: dict[str, Any] = {"rank_id": rank, "local_id": number, "device_id": number}
    return rank_entry | ({"level_list": msgspec.to_builtins(found)} if found else {})


def _within(chip: Chip, level: int) -> NetElement | None:
    return next((each.info[min(each.info)] for each in chip.levels if each.level == level and each.info), None)


def _between(chip: Chip, level: int, ports: str) -> NetElement:
    """A chip without a connection has an empty one."""
    found = (each.info[ports] for each in chip.levels if each.level == level and ports in each.info)
    return next(found, NetElement(level, "CLUSTER1", "CLOS", "", []))
