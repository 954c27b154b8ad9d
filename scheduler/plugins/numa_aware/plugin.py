"""numa-aware: applies the policies of the kubelet's topology manager before a Pod is bound (Volcano's numa-aware
plugin).

Numatopologies list the free cpus of nodes. For Pods that were bound since a Numatopology was written, the plugin
subtracts the cpus that the kubelet will assign. It considers only cpus; the kubelet may still reject a Pod because of
memory or devices.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import ClassVar, Final

import numpy as np

from scheduler.api.job import Job
from scheduler.api.kinds import NUMATOPOLOGY
from scheduler.api.reasons import Malformed
from scheduler.api.task import ALLOCATED_STATUSES, Task, TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import CodedFilter, Filter, PinUse, Score
from scheduler.framework.ledger import Ledger
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin
from scheduler.framework.remedies.gates import Gate, GateKind
from scheduler.framework.remedies.registry import pod_details
from scheduler.framework.session import Session
from scheduler.plugins.numa_aware.columns import (
    NO_ASSIGNMENT,
    AdmissionFilter,
    CpuPlacement,
    NumaScore,
    PlacementColumns,
)
from scheduler.plugins.numa_aware.cpus import (
    RESTRICTED,
    SINGLE,
    CpuDemand,
    Cpus,
    CpuTopology,
    NumatopologyError,
    demand_of,
)

STATIC: Final = "static"
NO_TOPOLOGY: Final = "numa info is empty"
NOT_STATIC: Final = "cpu manager policy isn't static"
NO_CPUS: Final = "cpu allocatable map is empty"


@register_plugin
class NumaAware:
    """Argument ``weight`` (default 1). The Pod's annotation ``volcano.sh/numa-topology-policy`` (``best-effort``,
    ``restricted``, ``single-numa-node``) must equal the policy of the node's kubelet."""

    name: ClassVar[str] = "numa-aware"

    def __init__(self, arguments: Arguments) -> None:
        self._weight = arguments.integer("weight", 1)

    def open(self, session: PluginSession) -> None:
        self._session = session
        self._demand: Callable[[TaskClass], CpuDemand | None] = cache(demand_of)
        self.topologies = self._read_topologies()
        """Row -> the cpus of the node."""
        self.ledger = CpuLedger(self.topologies, self._demand)
        self._placements: Callable[[TaskClass], PlacementColumns] = cache(self._compute_placements)
        self._take_unreported()
        session.add_filter(self._filters, pin=PinUse.IGNORED)
        session.add_score(self._scores)
        session.add_handlers(self.ledger.allocate, self.ledger.deallocate)

    def _read_topologies(self) -> dict[int, CpuTopology]:
        index = self._session.nodes.index
        result = {}
        for name, numatopology in self._session.snapshot.objects[NUMATOPOLOGY].items():
            if name not in index:
                continue
            try:
                result[index[name]] = CpuTopology(numatopology)
            except NumatopologyError as error:
                field, _, problem = str(error).partition(": ")
                self._session.malformed_field(Malformed("Numatopology", "", name, field, problem))
        return result

    def _take_unreported(self) -> None:
        """Takes the cpus of Pods on the nodes that the Numatopology does not list yet."""
        session = self._session
        unreported: list[tuple[float, str, Task, int]] = []
        for job in session.jobs.values() if self.topologies else ():
            for task in (task for status in ALLOCATED_STATUSES for task in job.of(status).values()):
                row = session.nodes.index.get(task.node)
                if row in self.topologies and self._demand(task.cls) and not self._reported(task):
                    unreported.append((task.scheduled_at, task.key, task, row))
        for _, _, task, row in sorted(unreported, key=lambda entry: entry[:2]):
            self.ledger.take(row, task.cls)

    def _reported(self, task: Task) -> bool:
        listed = self._session.snapshot.objects[NUMATOPOLOGY][task.node].spec.pod_allocations or ()
        return any(p.uid == task.uid or (p.namespace, p.name) == (task.namespace, task.name) for p in listed)

    # --- nodes ---
    def _filters(self, cls: TaskClass) -> list[Filter]:
        demand = self._demand(cls)
        if demand is None or not (demand.policy or self.topologies):
            return []
        reasons = [self._rejection(row, demand.policy) for row in range(len(self._session.nodes))]
        texts = list(dict.fromkeys(filter(None, reasons)))
        codes = np.array([texts.index(reason) if reason else -1 for reason in reasons], dtype=np.int32)
        filters: list[Filter] = [CodedFilter(codes, texts, unresolvable=False)] if texts else []
        return [*filters, AdmissionFilter(codes >= 0, self._placements(cls))]

    def _rejection(self, row: int, policy: str) -> str:
        """Why a node rejects Pods with a policy, or "". Pods without a policy can use all nodes."""
        if not policy:
            return ""
        topology = self.topologies.get(row)
        if topology is None:
            return NO_TOPOLOGY
        if topology.cpu_policy != STATIC:
            return NOT_STATIC
        if topology.policy != policy:
            return f"task topology policy[{policy}] is different with node[{topology.policy}]"
        return "" if self.ledger.free[row] else NO_CPUS

    def _scores(self, cls: TaskClass) -> list[Score]:
        demand = self._demand(cls)
        if demand is None or not demand.policy or not self._weight:
            return []
        return [NumaScore(self._placements(cls), self._weight)]

    def _compute_placements(self, cls: TaskClass) -> PlacementColumns:
        return PlacementColumns(
            len(self._session.nodes), self.topologies, lambda row: self.ledger.placement(row, cls), self.ledger.log
        )


class CpuLedger(Ledger[None]):
    """The free cpus of all nodes in one session, and the cpus of each task. The cpus of an evicted task are not free
    until its Pod has terminated."""

    def __init__(self, nodes: Mapping[int, CpuTopology], demand: Callable[[TaskClass], CpuDemand | None]) -> None:
        """``nodes``: row -> the cpus of the node, for nodes with a Numatopology."""
        super().__init__()
        self._nodes = nodes
        self._demand = demand
        self.free: dict[int, Cpus] = {row: topology.free for row, topology in nodes.items()}
        self.log: list[int] = []
        """Rows in the order in which their free cpus changed."""
        self._taken: dict[str, Cpus] = {}
        """uid -> the cpus of a task placed in this session."""

    def placement(self, row: int, cls: TaskClass) -> CpuPlacement:
        """The cpus that a task of the class would get on a node."""
        topology, demand = self._nodes.get(row), self._demand(cls)
        if topology is None or demand is None or topology.cpu_policy != STATIC or topology.policy in ("", "none"):
            return NO_ASSIGNMENT
        return _place(topology, self.free[row], demand)

    def take(self, row: int, cls: TaskClass) -> Cpus:
        """Takes the cpus of a task of the class on a node, and returns them."""
        cpus = self.placement(row, cls).cpus
        if cpus:
            self.free[row] -= cpus
            self.log.append(row)
        return cpus

    # --- placements ---
    def concerns(self, cls: TaskClass) -> bool:
        return self._demand(cls) is not None

    def _take(self, job: Job, task: Task, row: int, *, pipelined: bool) -> None:
        self._taken[task.uid] = self.take(row, task.cls)

    def _release(self, task: Task, row: int) -> None:
        cpus = self._taken.pop(task.uid)
        if cpus:
            self.free[row] |= cpus
            self.log.append(row)

    def _evict(self, task: Task, row: int) -> None:
        pass

    def _restore(self, row: int, held: None) -> None:
        pass


def _place(topology: CpuTopology, free: Cpus, demand: CpuDemand) -> CpuPlacement:
    """The cpus that the containers of a Pod would get one after the other, under the policy of the node."""
    taken: Cpus = frozenset()
    for name, number in demand.containers:
        if not number:
            continue
        assignment = topology.choose(free - taken, number)
        strict = topology.policy in (RESTRICTED, SINGLE)
        if strict and not (assignment.preferred and (topology.policy == RESTRICTED or len(assignment.nodes) == 1)):
            return CpuPlacement(frozenset(), 0, rejected=name)
        taken |= topology.assign(free - taken, assignment, number)
    return CpuPlacement(taken, len(topology.per_numa(taken)))


@pod_details(NumaAware)
def numa_nodes(session: Session, plugin: NumaAware, task: Task, job: Job, reasons: set[str]) -> Iterator[Gate]:
    """Yields, for a Pod with exclusive cpus, the largest number of free cpus on one NUMA node."""
    demand = demand_of(task.cls)
    if demand is None or not plugin.topologies or not any("numa" in reason for reason in reasons):
        return
    free = {
        row: max(topology.per_numa(plugin.ledger.free[row]).values(), default=0)
        for row, topology in plugin.topologies.items()
    }
    row = max(free, key=lambda row: (free[row], -row))
    asked = ", ".join(f"{name} {number}" for name, number in demand.containers)
    most = f"at most {free[row]} are free on one NUMA node (of {session.nodes.names[row]})"
    yield Gate(GateKind.NODES, f"{task.name} requests exclusive cpus (by container: {asked}); {most}", NumaAware.name)
