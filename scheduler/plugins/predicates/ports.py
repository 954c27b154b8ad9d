"""The filter for host ports: two Pods on one node cannot use the same port of the same address."""

from collections.abc import Iterable

import numpy as np

from scheduler.api.node import Rows
from scheduler.api.objects import PodSpec
from scheduler.api.pod_rules import is_sidecar
from scheduler.api.task import TaskClass
from scheduler.framework.columns import Counts, Filter, Scope
from scheduler.framework.session import Session
from scheduler.plugins.support.pod_counts import PodCounts

TAKEN = "node(s) didn't have free ports for the requested pod ports"
ANY_ADDRESS = "0.0.0.0"
Port = tuple[str, str, int]
"""(address, protocol, number)."""


def host_ports(spec: PodSpec) -> frozenset[Port]:
    """The host ports that a Pod uses. On the host network, these are all of its container ports."""
    containers = [*spec.containers, *(c for c in spec.init_containers or () if is_sidecar(c))]
    return frozenset(
        (port.host_ip or ANY_ADDRESS, port.protocol or "TCP", number)
        for container in containers
        for port in container.ports or ()
        if (number := port.host_port or (port.container_port if spec.host_network else 0)) > 0
    )


def conflict(left: frozenset[Port], right: frozenset[Port]) -> bool:
    """Whether two sets have a port in common: the same protocol and number, and the same address or 0.0.0.0 in one."""
    return any(a[1:] == b[1:] and (a[0] == b[0] or ANY_ADDRESS in (a[0], b[0])) for a in left for b in right)


class HostPorts:
    """The host ports of a session's classes."""

    def __init__(self, session: Session, counts: PodCounts) -> None:
        self._session = session
        self._counts = counts
        self._ports: dict[int, frozenset[Port]] = {}

    def of(self, cls: TaskClass) -> frozenset[Port]:
        ports = self._ports.get(cls.id)
        if ports is None:
            ports = self._ports[cls.id] = host_ports(cls.spec)
        return ports

    def filters(self, cls: TaskClass) -> list[Filter]:
        return [PortFilter(self, self._counts, cls)] if self.of(cls) else []


class PortFilter:
    """Rejects nodes on which a Pod uses one of the ports; a node admits one task of the class."""

    scope = Scope.NODE
    unresolvable = False

    def __init__(self, ports: HostPorts, counts: PodCounts, cls: TaskClass) -> None:
        own = ports.of(cls)
        self._users = counts.count_per_node(lambda other: float(conflict(own, ports.of(other))))

    def room(self, rows: Rows) -> Counts:
        room: Counts = (self._users.at_nodes(rows) == 0).astype(np.int64)
        return room

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return ((TAKEN, len(rows)),)
