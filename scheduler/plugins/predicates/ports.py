"""Host ports: two Pods on one node cannot have the same port of the same address."""

from collections.abc import Iterable

import numpy as np

from scheduler.api.node import Rows
from scheduler.api.objects import PodSpec
from scheduler.api.task import TaskClass
from scheduler.framework.columns import Counts, Filter, Scope
from scheduler.framework.session import Session
from scheduler.plugins.pod_counts import PodCounts
from scheduler.plugins.selectors import Mask

TAKEN = "node(s) didn't have free ports for the requested pod ports"
ANY_ADDRESS = "0.0.0.0"
Port = tuple[str, str, int]
"""(address, protocol, number)."""


def host_ports(spec: PodSpec) -> frozenset[Port]:
    """The ports of the node that a Pod takes."""
    containers = [*spec.containers, *(c for c in spec.init_containers or () if c.restart_policy == "Always")]
    return frozenset(
        (port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)
        for container in containers
        for port in container.ports or ()
        if port.host_port > 0
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
        self._ports = ports
        self._counts = counts
        self._cls = cls
        self._version = -1
        self._free: Mask = np.zeros(0, dtype=bool)

    def room(self, rows: Rows) -> Counts:
        if self._version != self._counts.version:
            self._version = self._counts.version
            wanted = self._ports.of(self._cls)
            self._free = self._counts.rows_of(lambda cls: clash(wanted, self._ports.of(cls))) == 0
        return self._free[rows].astype(np.int64)

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return ((TAKEN, len(rows)),)
