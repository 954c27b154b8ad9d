"""Details for explain: the most exclusive cpus that are free on one NUMA node."""

from collections.abc import Iterator

from scheduler.api.job import Job
from scheduler.api.task import Task
from scheduler.framework.remedies.gates import Gate, GateKind
from scheduler.framework.remedies.registry import pod_details
from scheduler.framework.session import Session
from scheduler.plugins.numa_aware.demand import demand_of
from scheduler.plugins.numa_aware.plugin import NumaAware


@pod_details(NumaAware)
def numa_nodes(session: Session, plugin: NumaAware, task: Task, job: Job, reasons: set[str]) -> Iterator[Gate]:
    """For a Pod with exclusive cpus: the largest number of free cpus on one NUMA node."""
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
