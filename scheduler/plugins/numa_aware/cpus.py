"""The logical cpus of a node: which NUMA node, socket and core each is on, which are free, and which the kubelet's cpu
manager would take.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from scheduler.api.names import CPU
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.scheduling import CpuDetail, Numatopology

Cpus = frozenset[int]
_MOST: Final = 65_536
"""Cpu ids beyond are taken for a slip."""
_MOST_NUMA: Final = 16
"""NUMA nodes of a machine; what is tried grows with 2 to the power of it."""


class TopologyError(ValueError):
    """A Numatopology cannot be used; the message names the field."""


def parse_cpus(text: str) -> Cpus:
    """``0-3,8`` as a set of ids. Raises TopologyError."""
    result: set[int] = set()
    for part in filter(None, text.split(",")):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(first + last) > 10:
            raise TopologyError(f"spec.numares[cpu].allocatable: not a list of cpus: {text!r:.66}")
        low, high = int(first), int(last or first)
        if not low <= high < _MOST:
            raise TopologyError(f"spec.numares[cpu].allocatable: not a list of cpus: {text!r:.66}")
        result.update(range(low, high + 1))
    return frozenset(result)


@dataclass(frozen=True, slots=True)
class Choice:
    """The NUMA nodes for one container."""

    nodes: tuple[int, ...]
    preferred: bool
    """No fewer would do, even if they were idle."""


class CpuTopology:
    """The cpus of one node."""

    def __init__(self, numatopology: Numatopology) -> None:
        """Raises TopologyError."""
        spec = numatopology.spec
        self._cpus: dict[int, CpuDetail] = {}
        for key, detail in (spec.cpu_detail or {}).items():
            if not key.isdecimal() or len(key) > 5:
                raise TopologyError(f"spec.cpuDetail: not a cpu: {key!r:.66}")
            self._cpus[int(key)] = detail
        self.numa_nodes = sorted({detail.numa for detail in self._cpus.values()})
        if len(self.numa_nodes) > _MOST_NUMA:
            raise TopologyError(f"spec.cpuDetail: {len(self.numa_nodes)} NUMA nodes, more than {_MOST_NUMA}")
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
            raise TopologyError(f"spec.resReserved[cpu]: {error}") from None
        self.free: Cpus = (listed & self._cpus.keys()) - self.take(frozenset(self._cpus), reserved)
        """What the node reports as free, less what is reserved for the system."""

    def per_numa(self, cpus: Iterable[int]) -> Mapping[int, int]:
        """NUMA node -> number of the cpus there."""
        return Counter(self._cpus[cpu].numa for cpu in cpus)

    def choose(self, free: Cpus, number: int) -> Choice:
        """The fewest NUMA nodes that have so many free cpus, of equally many those with the lowest ids; all of them,
        and not preferred, if there are not enough at all."""
        available = self.per_numa(free)
        enough = len(self.numa_nodes)  # how many NUMA nodes it takes on an idle machine
        for size in range(1, len(self.numa_nodes) + 1):
            masks = list(combinations(self.numa_nodes, size))
            if size < enough and any(sum(self._capacity[n] for n in mask) >= number for mask in masks):
                enough = size
            fitting = [mask for mask in masks if sum(available.get(n, 0) for n in mask) >= number]
            if fitting:
                return Choice(min(fitting, key=lambda mask: mask[::-1]), preferred=size == enough)
        return Choice(tuple(self.numa_nodes), preferred=False)

    def assign(self, free: Cpus, choice: Choice, number: int) -> Cpus:
        """So many cpus, of the NUMA nodes chosen as far as they go; none if there are not so many at all."""
        if len(free) < number:
            return frozenset()
        aligned = frozenset(cpu for cpu in free if self._cpus[cpu].numa in choice.nodes)
        taken = self.take(aligned, min(number, len(aligned)))
        return taken | self.take(free - taken, number - len(taken))

    def take(self, free: Cpus, number: int) -> Cpus:
        """Whole sockets first, then whole cores, then single cpus, close to what is taken already (as the kubelet's cpu
        manager packs them). As many as there are if they are fewer."""
        left, taken = set(free), set[int]()
        for groups in (self._sockets, self._cores):
            whole = [members for members in groups if members <= left]
            beside = Counter(self._socket(members) for members in whole)
            for members in sorted(whole, key=lambda members: beside[self._socket(members)]):
                if len(members) <= number - len(taken):
                    taken |= members
                    left -= members
        near = Counter(self._cpus[cpu].socket for cpu in taken)
        sockets = Counter(self._cpus[cpu].socket for cpu in left)
        cores = Counter(self._core(cpu) for cpu in left)

        def order(cpu: int) -> tuple[int, ...]:
            socket, core = self._core(cpu)
            return (-near[socket], sockets[socket], cores[socket, core], socket, core, cpu)

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
