"""The logical cpus of a node: their NUMA nodes, sockets and cores, which are free, and which the kubelet's cpu manager
would assign; and what a Pod requires of them: a policy, and exclusive cpus if the Pod is Guaranteed.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Final

import msgspec

from scheduler.api.names import CPU, NUMA_TOPOLOGY_POLICY
from scheduler.api.objects import Container
from scheduler.api.pod_amounts import Qos, qos_of
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.scheduling import CpuDetail, Numatopology
from scheduler.api.task import TaskClass

Cpus = frozenset[int]
_MAX_CPUS: Final = 65_536
"""Cpu ids from this value on are invalid."""
_MAX_NUMA_NODES: Final = 16
"""Maximum number of NUMA nodes; the number of combinations is 2 to the power of it."""


class NumatopologyError(ValueError):
    """A Numatopology is invalid; the message names the field."""


def parse_cpus(text: str) -> Cpus:
    """Parses a list of cpus such as ``0-3,8``. Raises NumatopologyError."""
    result: set[int] = set()
    for part in filter(None, text.split(",")):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(first + last) > 10:
            raise NumatopologyError(f"spec.numares[cpu].allocatable: not a list of cpus: {text!r:.66}")
        low, high = int(first), int(last or first)
        if not low <= high < _MAX_CPUS:
            raise NumatopologyError(f"spec.numares[cpu].allocatable: not a list of cpus: {text!r:.66}")
        result.update(range(low, high + 1))
    return frozenset(result)


class NumaAssignment(msgspec.Struct, frozen=True):
    """The NUMA nodes for one container."""

    nodes: tuple[int, ...]
    preferred: bool
    """Whether the number of NUMA nodes is the minimum on an idle machine."""


class CpuTopology:
    """The cpus of one node."""

    def __init__(self, numatopology: Numatopology) -> None:
        """Reads a Numatopology. Raises NumatopologyError."""
        spec = numatopology.spec
        self._cpus: dict[int, CpuDetail] = {}
        for key, detail in (spec.cpu_detail or {}).items():
            if not key.isdecimal() or len(key) > 5:
                raise NumatopologyError(f"spec.cpuDetail: not a cpu: {key!r:.66}")
            self._cpus[int(key)] = detail
        self.numa_nodes = sorted({detail.numa for detail in self._cpus.values()})
        if len(self.numa_nodes) > _MAX_NUMA_NODES:
            raise NumatopologyError(f"spec.cpuDetail: {len(self.numa_nodes)} NUMA nodes, more than {_MAX_NUMA_NODES}")
        self._capacity = self.per_numa(self._cpus)
        self._sockets, self._cores = self._groups(cores=False), self._groups(cores=True)
        policies = spec.policies or {}
        self.cpu_policy = policies.get("CPUManagerPolicy", "")
        self.policy = policies.get("TopologyManagerPolicy", "")
        resource = (spec.numares or {}).get(CPU)
        listed = parse_cpus(resource.allocatable) if resource else frozenset()
        try:
            reserved = math.ceil(parse_quantity((spec.res_reserved or {}).get(CPU, 0), 1000) / 1000)
        except QuantityError as error:
            raise NumatopologyError(f"spec.resReserved[cpu]: {error}") from None
        self.free: Cpus = (listed & self._cpus.keys()) - self.take(frozenset(self._cpus), reserved)
        """The cpus that the node reports as free, less those reserved for the system."""

    def per_numa(self, cpus: Iterable[int]) -> Mapping[int, int]:
        """Returns NUMA node -> number of the cpus on it."""
        return Counter(self._cpus[cpu].numa for cpu in cpus)

    def choose(self, free: Cpus, number: int) -> NumaAssignment:
        """Chooses the smallest set of NUMA nodes with ``number`` free cpus; among equal sizes, the one with the lowest
        ids. Without enough free cpus it chooses all NUMA nodes, not preferred."""
        available = self.per_numa(free)
        minimum = len(self.numa_nodes)  # the number of NUMA nodes needed on an idle machine
        for size in range(1, len(self.numa_nodes) + 1):
            masks = list(combinations(self.numa_nodes, size))
            if size < minimum and any(sum(self._capacity[n] for n in mask) >= number for mask in masks):
                minimum = size
            fitting = [mask for mask in masks if sum(available.get(n, 0) for n in mask) >= number]
            if fitting:
                return NumaAssignment(min(fitting, key=lambda mask: mask[::-1]), preferred=size == minimum)
        return NumaAssignment(tuple(self.numa_nodes), preferred=False)

    def assign(self, free: Cpus, assignment: NumaAssignment, number: int) -> Cpus:
        """Assigns ``number`` cpus, first from the chosen NUMA nodes and then from others; none without enough free
        cpus."""
        if len(free) < number:
            return frozenset()
        aligned = frozenset(cpu for cpu in free if self._cpus[cpu].numa in assignment.nodes)
        taken = self.take(aligned, min(number, len(aligned)))
        return taken | self.take(free - taken, number - len(taken))

    def take(self, free: Cpus, number: int) -> Cpus:
        """Takes whole sockets first, then whole cores, then single cpus close to those taken (as the kubelet's cpu
        manager packs them). Takes all cpus if there are fewer than ``number``."""
        left, taken = set(free), set[int]()
        for groups in (self._sockets, self._cores):
            whole = [members for members in groups if members <= left]
            beside = Counter(self._socket(members) for members in whole)
            for members in sorted(whole, key=lambda members: beside[self._socket(members)]):
                if len(members) <= number - len(taken):
                    taken |= members
                    left -= members
        taken_per_socket = Counter(self._cpus[cpu].socket for cpu in taken)
        sockets = Counter(self._cpus[cpu].socket for cpu in left)
        cores = Counter(self._core(cpu) for cpu in left)

        def order(cpu: int) -> tuple[int, ...]:
            socket, core = self._core(cpu)
            return (-taken_per_socket[socket], sockets[socket], cores[socket, core], socket, core, cpu)

        taken.update(sorted(left, key=order)[: max(number - len(taken), 0)])
        return frozenset(taken)

    def _core(self, cpu: int) -> tuple[int, int]:
        return (self._cpus[cpu].socket, self._cpus[cpu].core)

    def _socket(self, members: Cpus) -> int:
        """The socket of a group of cpus."""
        return self._cpus[next(iter(members))].socket

    def _groups(self, cores: bool) -> list[Cpus]:
        """The cpus of each core, or of each socket, in the order of ids."""
        groups: dict[tuple[int, ...], set[int]] = {}
        for cpu in self._cpus:
            groups.setdefault(self._core(cpu)[: 1 + cores], set()).add(cpu)
        return [frozenset(groups[key]) for key in sorted(groups)]


RESTRICTED: Final = "restricted"
SINGLE: Final = "single-numa-node"


class CpuDemand(msgspec.Struct, frozen=True):
    """The NUMA requirements of one class of Pods."""

    policy: str
    """The topology policy, or ""."""
    containers: tuple[tuple[str, int], ...]
    """Name and number of exclusive cpus of each container; 0 for a container that shares cpus."""


def demand_of(cls: TaskClass) -> CpuDemand | None:
    """The requirements of a class; None for Pods that are not Guaranteed, which have no exclusive cpus."""
    if qos_of(cls.spec) is not Qos.GUARANTEED:
        return None
    policy = cls.annotations.get(NUMA_TOPOLOGY_POLICY, "")
    return CpuDemand("" if policy == "none" else policy, tuple((c.name, _whole_cpus(c)) for c in cls.spec.containers))


def _whole_cpus(container: Container) -> int:
    limits = (container.resources and container.resources.limits) or {}
    milli = parse_quantity(limits.get(CPU, 0), 1000)
    return 0 if milli % 1000 else milli // 1000
