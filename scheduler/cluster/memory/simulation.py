"""Cycle after cycle over a cluster in memory: the same sessions and controllers as on a real one, in simulated time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from scheduler.cache import ClusterCache
from scheduler.cluster.manifests import Manifest
from scheduler.cluster.memory.cluster import MemoryCluster
from scheduler.cluster.memory.operator import MemoryOperator
from scheduler.cluster.memory.quotas import count_usage
from scheduler.cluster.memory.workloads import make_pods
from scheduler.controllers.catalogue import make_controllers
from scheduler.framework.configuration import Configuration
from scheduler.framework.cycle import Outcome, run_cycle

MOST_CYCLES = 20
NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
"""When a simulation begins: in the middle of a day, as most hours that plugins are given in their arguments suppose."""


class Kubelet(Enum):
    """What happens to Pods between cycles."""

    RUN = "run"
    """Bound Pods run; evicted Pods are gone at the end of the next cycle."""
    NONE = "none"
    """Bound Pods stay Pending on their node; evicted Pods stay there, terminating."""


@dataclass(slots=True)
class Report:
    """What a simulation came to."""

    cluster: MemoryCluster
    last: Outcome | None
    """The last cycle, which says why things wait."""
    cycles: int


def simulate(
    manifests: Sequence[Manifest],
    configuration: Configuration,
    scheduler_names: Sequence[str],
    *,
    cycles: int | None = None,
    kubelet: Kubelet = Kubelet.RUN,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Run ``cycles`` cycles, or (None) until one changes nothing, at most 20. Raises ManifestError."""
    cluster = MemoryCluster(ClusterCache(scheduler_names), scheduler_names, start=NOON)
    operator = MemoryOperator(cluster, lambda store: make_controllers(store, scheduler_names))
    cluster.load(manifests)
    outcome: Outcome | None = None
    done = 0
    while done < (MOST_CYCLES if cycles is None else cycles):
        changed = make_pods(cluster.server)
        changed |= operator.run()
        changed |= count_usage(cluster.server)
        outcome = run_cycle(cluster.cache.snapshot(cluster.now), configuration)
        cluster.cache.assume(outcome.decisions)
        malformed = cluster.cache.take_malformed() + outcome.malformed
        changed |= cluster.carry_out(outcome.decisions, malformed)
        if kubelet is Kubelet.RUN:
            changed |= cluster.run_kubelet()
        cluster.tick()
        done += 1
        if progress is not None:
            progress(done)
        if cycles is None and not changed:
            break
    make_pods(cluster.server)
    operator.run()
    return Report(cluster, outcome, done)
