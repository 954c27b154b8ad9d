"""The rank table: the JSON document ``hccl.json`` of Ascend's collective communication library.

Version 1.0 lists the servers, which are the Pods with chips. Version 1.2 also says which servers share a logical super
pod. Version 2.0 lists the ranks with their networks. The rank of a chip is the rank of its Pod times the number of
chips per Pod, plus its position.

Levels 0 (within a server) and 1 (within a super pod) of the network are those that the device plugin reports for a
chip. Of the levels between super pods, a table has one: level 3 for RoCE, level 2 for UBoE or UBG.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from scheduler.controllers.ranktable.servers import UNKNOWN_ADDRESS, NetElement, RankedChip, RankedServer, TableError
from scheduler.controllers.ranktable.workloads import NETWORK_LEVELS, PLAIN, SUPER_PODS, Layout, is_number

INITIALIZING: Final = "initializing"
COMPLETED: Final = "completed"
_SHOWN: Final = 5


def initializing(layout: Layout) -> str:
    """The document while Pods are missing."""
    return _text({"status": INITIALIZING, "version": layout.version})


def completed(servers: Sequence[RankedServer], layout: Layout, *, own_nodes: bool) -> str:
    """The document of a job whose Pods all have chips and addresses. ``own_nodes``: every Pod of the job has a node of
    its own, so that servers are named by the address of the host, otherwise by the uid of the Pod. Raises TableError
    if two chips have one rank, or if a chip that needs an address has none."""
    ordered = sorted(servers, key=lambda server: server.rank * len(server.chips))
    _check_ranks(ordered)
    head: dict[str, Any] = {"status": COMPLETED, "version": layout.version}
    if layout.version == NETWORK_LEVELS:
        ranks = rank_list(ordered, layout.scale_out)
        return _text(head | {"rank_count": len(ranks), "rank_list": ranks})
    document = head | {
        "server_count": str(len(ordered)),
        "server_list": [_server(server, layout, own_nodes) for server in ordered],
    }
    super_pods = 1
    if layout.version == SUPER_PODS:
        groups = _super_pods(ordered, layout)
        super_pods = len(groups)
        document["super_pod_list"] = [
            {"super_pod_id": number, "server_list": [{"server_id": _name(server, own_nodes)} for server in members]}
            for number, members in groups.items()
        ]
    if layout.version == PLAIN or super_pods > 1:
        _check_addresses(ordered)
    return _text(document)


def _server(server: RankedServer, layout: Layout, own_nodes: bool) -> dict[str, Any]:
    devices = []
    for position, chip in enumerate(server.chips):
        device = {"device_id": chip.device_id, "device_ip": chip.device_ip}
        if layout.version == SUPER_PODS and chip.super_device_id:
            device["super_device_id"] = chip.super_device_id
        devices.append(device | {"rank_id": str(server.rank * len(server.chips) + position)})
    model = {"hardware_type": server.hardware_type} if layout.mindie and server.hardware_type else {}
    return {
        "server_id": _name(server, own_nodes),
        "host_ip": server.host_ip,
        "container_ip": server.pod_ip,
        **model,
        "device": devices,
    }


def _name(server: RankedServer, own_nodes: bool) -> str:
    return server.host_ip if own_nodes and server.host_ip else server.uid


def _super_pods(servers: Sequence[RankedServer], layout: Layout) -> dict[str, list[RankedServer]]:
    """Number of each super pod -> its servers, in the order of the numbers. They are logical ones, but for MindIE."""
    if layout.soft and all(is_number(server.super_pod_rank) for server in servers):
        return _grouped(servers, lambda server: int(server.super_pod_rank))
    if layout.mindie and not layout.soft and all(is_number(server.super_pod_id) for server in servers):
        return _grouped(servers, lambda server: int(server.super_pod_id))
    size = max(1, layout.block_chips // len(servers[0].chips)) if layout.block_chips and servers else len(servers)
    return {str(start // size): list(servers[start : start + size]) for start in range(0, len(servers), max(1, size))}


def _grouped(servers: Sequence[RankedServer], number: Callable[[RankedServer], int]) -> dict[str, list[RankedServer]]:
    groups: dict[str, list[RankedServer]] = {}
    for server in sorted(servers, key=number):
        groups.setdefault(str(number(server)), []).append(server)
    return groups


def irregularities(servers: Sequence[RankedServer], own_nodes: bool) -> Iterator[str]:
    """Texts about unusual entries of a complete table, which is written nevertheless, as by the Ascend operator."""
    owner: dict[str, str] = {}
    for server in servers:
        name = _name(server, own_nodes)
        other = owner.setdefault(name, server.pod)
        if other != server.pod:
            yield f"Pods {other} and {server.pod} both have the server_id {name[:64]}"
            break
    ranks = sorted(server.rank for server in servers)
    if ranks != list(range(len(ranks))):
        yield f"the ranks of the {len(ranks)} Pods with chips are {ranks[0]} to {ranks[-1]}, not 0 to {len(ranks) - 1}"


def _check_ranks(servers: Sequence[RankedServer]) -> None:
    owner: dict[int, str] = {}
    for server in servers:
        for position in range(len(server.chips)):
            rank = server.rank * len(server.chips) + position
            other = owner.setdefault(rank, server.pod)
            if other != server.pod:
                raise TableError(f"Pods {other} and {server.pod} both have chip rank {rank}")


def _check_addresses(servers: Sequence[RankedServer]) -> None:
    unknown = [s.pod for s in servers if any(chip.device_ip in ("", UNKNOWN_ADDRESS) for chip in s.chips)]
    if unknown:
        more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        raise TableError(f"chips of {len(unknown)} Pods have no address: {', '.join(unknown[:_SHOWN])}{more}")


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"))


ROCE, UBOE, UBG = "ROCE", "UBOE", "UBG"
_SCALE_OUT: Final[Mapping[str, Sequence[str]]] = {"": (ROCE, UBOE, UBG), ROCE: (ROCE,), UBOE: (UBOE, UBG)}
"""Network that a job asks for -> types of ports, the best first."""
_LEVELS: Final[Mapping[str, int]] = {ROCE: 3, UBOE: 2, UBG: 2}
"""Type of ports -> level of the network."""
_WITHIN: Final = (0, 1)


def rank_list(servers: Sequence[RankedServer], scale_out: str) -> list[dict[str, Any]]:
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


def _ports(servers: Iterable[RankedServer], scale_out: str) -> str:
    """The type of ports that the ranks communicate by between super pods; "" if no chip has one that fits."""
    known = {type for server in servers for chip in server.chips for level in chip.levels for type in level.info}
    return next((type for type in _SCALE_OUT[scale_out] if type in known), "")


def _rank(server: RankedServer, rank: int, chip: RankedChip, ports: str, scale_out: str) -> dict[str, Any]:
    if not (chip.device_id.isascii() and chip.device_id.isdecimal() and len(chip.device_id) < 8):
        raise TableError(f"Pod {server.pod}: device_id {chip.device_id[:32]!r} is no number")
    number = int(chip.device_id)
    found = [element for level in _WITHIN if (element := _within(chip, level)) is not None]
    between = _LEVELS.get(ports or scale_out)
    if between is not None:
        found.append(_between(chip, between, ports))
    rank_entry: dict[str, Any] = {"rank_id": rank, "local_id": number, "device_id": number}
    return rank_entry | ({"level_list": msgspec.to_builtins(found)} if found else {})


def _within(chip: RankedChip, level: int) -> NetElement | None:
    return next((each.info[min(each.info)] for each in chip.levels if each.level == level and each.info), None)


def _between(chip: RankedChip, level: int, ports: str) -> NetElement:
    """A chip without a connection has an empty one."""
    found = (each.info[ports] for each in chip.levels if each.level == level and ports in each.info)
    return next(found, NetElement(level, "CLUSTER1", "CLOS", "", []))
