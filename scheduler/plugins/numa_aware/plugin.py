"""The plugin: the kubelet's topology manager, asked before it can refuse (Volcano's numa-aware plugin).

Numatopologies say which cpus are free. Cpus of Pods that were bound since are taken off in the same way as the kubelet
will do it. Only cpus are looked at; the kubelet may still refuse for the sake of memory or devices.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from scheduler.api.job import Job
from scheduler.api.reasons import Malformed
from scheduler.api.task import ALLOCATED_STATUSES, Task, TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import CodedFilter, Filter, Score
from scheduler.framework.extension import NODE_ORDER, PREDICATE
from scheduler.framework.registry import register_plugin
from scheduler.framework.session import Session
from scheduler.plugins.numa_aware.columns import NOTHING, AdmissionFilter, NumaScore, Placement, PlacementColumns
from scheduler.plugins.numa_aware.cpus import Cpus, CpuTopology, TopologyError
from scheduler.plugins.numa_aware.demand import RESTRICTED, SINGLE, Demand, demand_of

NO_TOPOLOGY: Final = "numa info is empty"
NOT_STATIC: Final = "cpu manager policy isn't static"
NO_CPUS: Final = "cpu allocatable map is empty"
STATIC: Final = "static"


@register_plugin
class NumaAware:
    """Argument ``weight`` (default 1). The Pod's annotation ``volcano.sh/numa-topology-policy`` (``best-effort``,
    ``restricted``, ``single-numa-node``) must be the policy of its node's kubelet."""

    name: ClassVar[str] = "numa-aware"

    def __init__(self, arguments: Arguments) -> None:
        self._weight = arguments.integer("weight", 1)

    def open(self, session: Session) -> None:
        self._session = session
        self._demands: dict[int, Demand | None] = {}
        self._nodes: dict[int, CpuTopology] = {}
        """Row -> its cpus."""
        self._free: dict[int, Cpus] = {}
        self._held: dict[str, Cpus] = {}
        """uid -> what a task placed in this session was given."""
        self._log: list[int] = []
        """Rows in the order in which their free cpus changed."""
        self._columns: dict[int, PlacementColumns] = {}
        self._read_topologies()
        self._take_unreported()
        session.add(PREDICATE, self._filters)
        session.add(NODE_ORDER, self._scores)
        session.add_handlers(self._allocated, self._deallocated)

    def _read_topologies(self) -> None:
        index = self._session.nodes.index
        for name, numatopology in self._session.snapshot.numa.items():
            if name not in index:
                continue
            try:
                topology = CpuTopology(numatopology)
            except TopologyError as error:
                field, _, problem = str(error).partition(": ")
                self._session.malformed_field(Malformed("Numatopology", "", name, field, problem))
                continue
            self._nodes[index[name]] = topology
            self._free[index[name]] = topology.free

    def _take_unreported(self) -> None:
        """Take off what Pods on the nodes have that the Numatopology does not list yet."""
        session = self._session
        waiting: list[tuple[float, str, Task, int]] = []
        for job in session.jobs.values() if self._nodes else ():
            for task in (task for status in ALLOCATED_STATUSES for task in job.of(status).values()):
                row = session.nodes.index.get(task.node)
                if row in self._nodes and self._demand(task.cls) and not self._reported(task):
                    waiting.append((task.scheduled_at, task.key, task, row))
        for _, _, task, row in sorted(waiting, key=lambda entry: entry[:2]):
            self._free[row] -= self._placement(row, task.cls).cpus

    def _reported(self, task: Task) -> bool:
        listed = self._session.snapshot.numa[task.node].spec.pod_allocations or ()
        return any(p.uid == task.uid or (p.namespace, p.name) == (task.namespace, task.name) for p in listed)

    # --- nodes ---
    def _filters(self, cls: TaskClass, job: Job) -> list[Filter]:
        demand = self._demand(cls)
        if demand is None or not (demand.policy or self._nodes):
            return []
        reasons = [self._why_not(row, demand.policy) for row in range(len(self._session.nodes))]
        texts = list(dict.fromkeys(filter(None, reasons)))
        codes = np.array([texts.index(reason) if reason else -1 for reason in reasons], dtype=np.int32)
        filters: list[Filter] = [CodedFilter(codes, texts, unresolvable=False)] if texts else []
        return [*filters, AdmissionFilter(codes >= 0, self._placements(cls))]

    def _why_not(self, row: int, policy: str) -> str:
        """Why a node is not for Pods of a policy, or ""; those without one may have any."""
        if not policy:
            return ""
        topology = self._nodes.get(row)
        if topology is None:
            return NO_TOPOLOGY
        if topology.cpu_policy != STATIC:
            return NOT_STATIC
        if topology.policy != policy:
            return f"task topology policy[{policy}] is different with node[{topology.policy}]"
        return "" if self._free[row] else NO_CPUS

    def _scores(self, cls: TaskClass, job: Job) -> list[Score]:
        demand = self._demand(cls)
        if demand is None or not demand.policy or not self._weight:
            return []
        return [NumaScore(self._placements(cls), self._weight)]

    def _demand(self, cls: TaskClass) -> Demand | None:
        if cls.id not in self._demands:
            self._demands[cls.id] = demand_of(cls)
        return self._demands[cls.id]

    def _placements(self, cls: TaskClass) -> PlacementColumns:
        columns = self._columns.get(cls.id)
        if columns is None:
            columns = PlacementColumns(
                len(self._session.nodes), self._nodes, lambda row: self._placement(row, cls), self._log
            )
            self._columns[cls.id] = columns
        return columns

    def _placement(self, row: int, cls: TaskClass) -> Placement:
        """What a task of the class would get on a node now."""
        topology, demand = self._nodes.get(row), self._demand(cls)
        if topology is None or demand is None or topology.cpu_policy != STATIC or topology.policy in ("", "none"):
            return NOTHING
        return _place(topology, self._free[row], demand)

    # --- books ---
    def _allocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        for task, row in zip(tasks, rows, strict=True):
            cpus = self._placement(row, task.cls).cpus
            if cpus:
                self._held[task.uid] = cpus
                self._free[row] -= cpus
                self._log.append(row)

    def _deallocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        for task, row in zip(tasks, rows, strict=True):
            cpus = self._held.pop(task.uid, None)
            if cpus:
                self._free[row] |= cpus
                self._log.append(row)


def _place(topology: CpuTopology, free: Cpus, demand: Demand) -> Placement:
    """What the containers of a Pod would get one after the other, by the policy of the node."""
    taken: Cpus = frozenset()
    for name, number in demand.containers:
        if not number:
            continue
        choice = topology.choose(free - taken, number)
        strict = topology.policy in (RESTRICTED, SINGLE)
        if strict and not (choice.preferred and (topology.policy == RESTRICTED or len(choice.nodes) == 1)):
            return Placement(frozenset(), 0, refused=name)
        taken |= topology.assign(free - taken, choice, number)
    return Placement(taken, len(topology.per_numa(taken)))
