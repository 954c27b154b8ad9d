"""The rank table: the JSON document ``hccl.json`` of Ascend's collective communication library.

Version 1.0 lists the servers, which are the Pods with chips. Version 1.2 also says which servers share a logical super
pod. The rank of a chip is the rank of its Pod times the number of chips per Pod, plus its position.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from scheduler.api.names import SCHEDULE_POLICY, SP_BLOCK, SUPER_POD_AFFINITY, SUPER_POD_SOFT
from scheduler.controllers.ranktable.servers import UNKNOWN_ADDRESS, Server

PLAIN: Final = "1.0"
SUPER_PODS: Final = "1.2"
INITIALIZING: Final = "initializing"
COMPLETED: Final = "completed"
_SUPER_POD_POLICIES: Final = frozenset({"chip2-node16-sp", "chip2-node8-sp"})
_SUPER_POD_SERVERS: Final = ("module-a3-", "-super-pod")
_SHOWN: Final = 5


class Layout(NamedTuple):
    """What the settings of a job say about its rank table."""

    version: str
    block_chips: int = 0
    """Chips of a logical super pod; 0: all chips of the job are in one."""
    soft: bool = False
    """The scheduler chose the logical super pods, and wrote them onto the Pods."""


class TableError(ValueError):
    """The entries of the Pods do not form a rank table."""


def layout_of(labels: Mapping[str, str], annotations: Mapping[str, str], selectors: Sequence[str]) -> Layout:
    """``selectors``: the values of ``accelerator-type`` in the node selectors of the Pods."""
    if SCHEDULE_POLICY in annotations:
        super_pods = annotations[SCHEDULE_POLICY] in _SUPER_POD_POLICIES
    else:
        prefix, suffix = _SUPER_POD_SERVERS
        super_pods = SP_BLOCK in annotations or any(s.startswith(prefix) and s.endswith(suffix) for s in selectors)
    if not super_pods:
        return Layout(PLAIN)
    return Layout(SUPER_PODS, block_chips(annotations), labels.get(SUPER_POD_AFFINITY) == SUPER_POD_SOFT)


def block_chips(annotations: Mapping[str, str]) -> int:
    """Chips of a logical super pod; 0 if the job has none, or if the annotation is malformed."""
    block = annotations.get(SP_BLOCK, "")
    return int(block) if _is_number(block) else 0


def initializing(layout: Layout) -> str:
    """The document while Pods are missing."""
    return _text({"status": INITIALIZING, "version": layout.version})


def completed(servers: Sequence[Server], layout: Layout, *, own_nodes: bool) -> str:
    """The document of a job whose Pods all have chips and addresses. ``own_nodes``: every Pod of the job has a node of
    its own, so that servers are named by the address of the host, otherwise by the uid of the Pod. Raises TableError
    if two chips have one rank, or if a chip that needs an address has none."""
    ordered = sorted(servers, key=lambda server: server.rank * len(server.chips))
    _check_ranks(ordered)
    document: dict[str, Any] = {
        "status": COMPLETED,
        "version": layout.version,
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


def _server(server: Server, layout: Layout, own_nodes: bool) -> dict[str, Any]:
    devices = []
    for position, chip in enumerate(server.chips):
        device = {"device_id": chip.device_id, "device_ip": chip.device_ip}
        if layout.version == SUPER_PODS:
            device["super_device_id"] = chip.super_device_id
        devices.append(device | {"rank_id": str(server.rank * len(server.chips) + position)})
    return {
        "server_id": _name(server, own_nodes),
        "host_ip": server.host_ip,
        "container_ip": server.pod_ip,
        "device": devices,
    }


def _name(server: Server, own_nodes: bool) -> str:
    return server.host_ip if own_nodes and server.host_ip else server.uid


def _super_pods(servers: Sequence[Server], layout: Layout) -> dict[str, list[Server]]:
    """Number of each logical super pod -> its servers, in the order of the numbers."""
    if layout.soft:
        numbered = [server for server in servers if _is_number(server.super_pod_rank)]
        if len(numbered) == len(servers):
            groups: dict[str, list[Server]] = {}
            for server in sorted(servers, key=lambda server: int(server.super_pod_rank)):
                groups.setdefault(str(int(server.super_pod_rank)), []).append(server)
            return groups
    size = max(1, layout.block_chips // len(servers[0].chips)) if layout.block_chips and servers else len(servers)
    return {str(start // size): list(servers[start : start + size]) for start in range(0, len(servers), max(1, size))}


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 8


def _check_ranks(servers: Sequence[Server]) -> None:
    owner: dict[int, str] = {}
    for server in servers:
        for position in range(len(server.chips)):
            rank = server.rank * len(server.chips) + position
            other = owner.setdefault(rank, server.pod)
            if other != server.pod:
                raise TableError(f"Pods {other} and {server.pod} both have chip rank {rank}")


def _check_addresses(servers: Sequence[Server]) -> None:
    unknown = [s.pod for s in servers if any(chip.device_ip in ("", UNKNOWN_ADDRESS) for chip in s.chips)]
    if unknown:
        more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        raise TableError(f"chips of {len(unknown)} Pods have no address: {', '.join(unknown[:_SHOWN])}{more}")


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"))
