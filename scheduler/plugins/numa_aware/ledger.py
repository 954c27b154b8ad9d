"""The free cpus of all nodes in one session, and the cpus of each task."""

from collections.abc import Callable, Mapping
from typing import Final

from scheduler.api.job import Job
from scheduler.api.task import Task, TaskClass
from scheduler.framework.ledger import Ledger
from scheduler.plugins.numa_aware.columns import NO_ASSIGNMENT, Placement
from scheduler.plugins.numa_aware.cpus import Cpus, CpuTopology
from scheduler.plugins.numa_aware.demand import RESTRICTED, SINGLE, Demand

STATIC: Final = "static"


class CpuLedger(Ledger[None]):
    """The cpus of an evicted task are not free until its Pod has terminated."""

    def __init__(self, nodes: Mapping[int, CpuTopology], demand: Callable[[TaskClass], Demand | None]) -> None:
        """``nodes``: row -> the cpus of the node, for nodes with a Numatopology."""
        super().__init__()
        self._nodes = nodes
        self._demand = demand
        self.free: dict[int, Cpus] = {row: topology.free for row, topology in nodes.items()}
        self.log: list[int] = []
        """Rows in the order in which their free cpus changed."""
        self._taken: dict[str, Cpus] = {}
        """uid -> the cpus of a task placed in this session."""

    def placement(self, row: int, cls: TaskClass) -> Placement:
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


def _place(topology: CpuTopology, free: Cpus, demand: Demand) -> Placement:
    """The cpus that the containers of a Pod would get one after the other, under the policy of the node."""
    taken: Cpus = frozenset()
    for name, number in demand.containers:
        if not number:
            continue
        assignment = topology.choose(free - taken, number)
        strict = topology.policy in (RESTRICTED, SINGLE)
        if strict and not (assignment.preferred and (topology.policy == RESTRICTED or len(assignment.nodes) == 1)):
            return Placement(frozenset(), 0, rejected=name)
        taken |= topology.assign(free - taken, assignment, number)
    return Placement(taken, len(topology.per_numa(taken)))
