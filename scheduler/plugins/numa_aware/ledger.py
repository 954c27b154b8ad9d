"""The free cpus of all nodes in one session, and which task took which."""

from collections.abc import Callable, Mapping
from typing import Final

from scheduler.api.job import Job
from scheduler.api.task import Task, TaskClass
from scheduler.framework.ledger import Ledger
from scheduler.plugins.numa_aware.columns import NOTHING, Placement
from scheduler.plugins.numa_aware.cpus import Cpus, CpuTopology
from scheduler.plugins.numa_aware.demand import RESTRICTED, SINGLE, Demand

STATIC: Final = "static"


class CpuLedger(Ledger[None]):
    """Cpus of a task that is evicted are not free while its Pod is there."""

    def __init__(self, nodes: Mapping[int, CpuTopology], demand: Callable[[TaskClass], Demand | None]) -> None:
        """``nodes``: row -> its cpus, where they are known."""
        super().__init__()
        self._nodes = nodes
        self._demand = demand
        self.free: dict[int, Cpus] = {row: topology.free for row, topology in nodes.items()}
        self.log: list[int] = []
        """Rows in the order in which their free cpus changed."""
        self._held: dict[str, Cpus] = {}
        """uid -> what a task placed in this session was given."""

    def placement(self, row: int, cls: TaskClass) -> Placement:
        """What a task of the class would get on a node now."""
        topology, demand = self._nodes.get(row), self._demand(cls)
        if topology is None or demand is None or topology.cpu_policy != STATIC or topology.policy in ("", "none"):
            return NOTHING
        return _place(topology, self.free[row], demand)

    def hold(self, row: int, cls: TaskClass) -> Cpus:
        """A task is on a node that does not report it yet; the cpus taken off for it."""
        cpus = self.placement(row, cls).cpus
        if cpus:
            self.free[row] -= cpus
            self.log.append(row)
        return cpus

    # --- placements ---
    def concerns(self, cls: TaskClass) -> bool:
        return self._demand(cls) is not None

    def _take(self, job: Job, task: Task, row: int, *, pipelined: bool) -> None:
        self._held[task.uid] = self.hold(row, task.cls)

    def _give_back(self, task: Task, row: int) -> None:
        cpus = self._held.pop(task.uid)
        if cpus:
            self.free[row] |= cpus
            self.log.append(row)

    def _evict(self, task: Task, row: int) -> None:
        pass

    def _spare(self, row: int, held: None) -> None:
        pass


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
