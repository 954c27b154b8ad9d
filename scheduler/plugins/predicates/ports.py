"""Host ports: two Pods on one node cannot have the same port of the same address."""

from collections.abc import Iterable

import numpy as np

from scheduler.api.containers import is_sidecar
from scheduler.api.node import Rows
from scheduler.api.objects import PodSpec
from scheduler.api.task import TaskClass
from scheduler.framework.columns import Counts, Filter, Scope
from scheduler.framework.session import Session
from scheduler.plugins.pod_counts import PodCounts

TAKEN = "node(s) didn't have free ports for the requested pod ports"
ANY_ADDRESS = "0.0.0.0"
Port = tuple[str, str, int]
"""(address, protocol, number)."""


def host_ports(spec: PodSpec) -> frozenset[Port]:
    """The ports of the node that a Pod takes; on the host's network that is every port it names."""
    containers = [*spec.containers, *(c for c in spec.init_containers or () if is_sidecar(c))]
    return frozenset(
        (port.host_ip or ANY_ADDRESS, port.protocol or "TCP", number)
        for container in containers
        for port in container.ports or ()
        if (number := port.host_port or (port.container_port if spec.host_network else 0)) > 0
    )


def clash(left: frozenset[Port], right: frozenset[Port]) -> bool:
    """Whether two sets of ports share one: same protocol and number, same address or one of them any address."""
    return any(a[1:] == b[1:] and (a[0] == b[0] or ANY_ADDRESS in (a[0], b[0])) for a in left for b in right)


class HostPorts:
    """The predicate for one session."""

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
    """One more Pod of the class per node, and only where no other has one of its ports."""

    scope = Scope.NODE
    unresolvable = False

    def __init__(self, ports: HostPorts, counts: PodCounts, cls: TaskClass) -> None:
        wanted = ports.of(cls)
        self._holders = counts.count_per_node(lambda other: float(clash(wanted, ports.of(other))))

    def room(self, rows: Rows) -> Counts:
        room: Counts = (self._holders.at_nodes(rows) == 0).astype(np.int64)
        return room

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return ((TAKEN, len(rows)),)
