"""Whether a target that waits gets its nodes when the Pods that terminate are gone, though no session pipelines it.

Examples are the Pods of a job that restarts, which its controller creates again afterwards.
"""

from scheduler.cluster.memory import Simulation
from scheduler.explain.explanation import NotFoundError
from scheduler.explain.target import find_target, goal_of


def gets_nodes_afterwards(simulation: Simulation, kind: str, namespace: str, name: str) -> bool:
    """Runs a copy of the cluster without the Pods that terminate until nothing changes. ``kind``: as in
    ``find_target``."""
    later = simulation.branch()
    later.cluster.end_terminating_pods()
    if not later.cluster.has_terminating_pods:
        return False
    later.run()
    try:
        found = find_target(later.cluster, kind, namespace, name)
    except NotFoundError:
        return False
    job = later.snapshot().jobs.get(found.job)
    return job is not None and goal_of(later.cluster, found, job).met_now(job)
