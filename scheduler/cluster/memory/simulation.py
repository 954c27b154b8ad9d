"""Cycle after cycle over a cluster in memory: the same sessions and controllers as on a real one, in simulated time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from functools import partial

from scheduler.api.decisions import Evict
from scheduler.api.snapshot import Snapshot
from scheduler.api.usage import NodeUsage
from scheduler.cache import ClusterCache
from scheduler.cluster.manifests import Manifest
from scheduler.cluster.memory.cluster import MemoryCluster
from scheduler.cluster.memory.disruption_budgets import DisruptionBudgets
from scheduler.cluster.memory.fork import branch, fork
from scheduler.cluster.memory.operator import MemoryOperator
from scheduler.cluster.memory.quotas import count_usage
from scheduler.cluster.memory.resource_claims import keep_claims
from scheduler.cluster.memory.what_if import apply_changes
from scheduler.cluster.memory.workloads import Workloads
from scheduler.controllers.catalogue import make_controllers
from scheduler.framework.configuration import Configuration
from scheduler.framework.cycle import Outcome, run_cycle
from scheduler.framework.external_calls import NO_EXTERNAL_CALLS, ExternalCalls
from scheduler.framework.session import Session

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


class Simulation:
    """A cluster in memory with its scheduler and its controllers, a cycle at a time."""

    def __init__(
        self,
        manifests: Sequence[Manifest],
        configuration: Configuration,
        scheduler_names: Sequence[str],
        *,
        kubelet: Kubelet = Kubelet.RUN,
        start: datetime = NOON,
        lenient: bool = False,
        external_calls: ExternalCalls = NO_EXTERNAL_CALLS,
    ) -> None:
        """``start``: the time on the cluster's clock. ``lenient``: objects that cannot be used are told of in Events,
        as those of a real cluster are. ``external_calls``: answers plugins that ask other programs. Raises
        ManifestError."""
        self.configuration = configuration
        self._external_calls = external_calls
        self.scheduler_names = tuple(scheduler_names)
        self.cluster = MemoryCluster(
            ClusterCache(scheduler_names), scheduler_names, start=start, features=configuration.features
        )
        self.last: Outcome | None = None
        self.cycles = 0
        self.acted = False
        """Whether the last cycle changed more than what only informs: conditions, counts, messages, Events."""
        self.evictions: list[Evict] = []
        """All there were, the first first."""
        self._operator = MemoryOperator(self.cluster, partial(make_controllers, scheduler_names=scheduler_names))
        self._workloads = Workloads(self.cluster.server)
        self._budgets = DisruptionBudgets(self.cluster.server)
        self._kubelet = kubelet
        self.cluster.cache.configure(configuration)
        self.cluster.load(manifests, lenient=lenient)

    def prepare(self) -> bool:
        """Let everybody but the scheduler do what they have to do; whether anything changed."""
        changed = self._workloads.run()
        changed |= self._operator.run()
        changed |= keep_claims(self.cluster.server)
        changed |= self._budgets.run()
        return count_usage(self.cluster.server) or changed

    def cycle(
        self, session: Callable[..., Session] = Session, *, enough: Callable[[Outcome], bool] | None = None
    ) -> bool:
        """One cycle, of a session of that type; whether anything changed. ``enough``: whether what was decided is all
        one wants to know, so that it need not be carried out."""
        cluster = self.cluster
        changed = self.prepare()
        outcome = run_cycle(
            self.snapshot(), self.configuration, make_session=session, external_calls=self._external_calls
        )
        self.last = outcome
        self.evictions += outcome.decisions.evictions
        if enough is not None and enough(outcome):
            return False
        cluster.cache.assume(outcome.decisions)
        malformed = cluster.cache.take_malformed() + outcome.malformed
        with cluster.server.together():  # a Pod is bound and begins to run: one change for those who watch
            acted, told = cluster.carry_out(outcome.decisions, malformed)
            self.acted = changed or acted
            if self._kubelet is Kubelet.RUN:
                self.acted |= cluster.run_kubelet()
        cluster.tick()
        self.cycles += 1
        return self.acted or told

    def snapshot(self) -> Snapshot:
        """What a session would see now."""
        self.cluster.cache.configure(self.configuration)
        return self.cluster.cache.snapshot(self.cluster.now)

    def run(self, cycles: int | None = None, *, progress: Callable[[int], None] | None = None) -> Report:
        """Run ``cycles`` cycles, or (None) until one changes nothing, at most 20. May be called again: it goes on."""
        for done in range(1, (MOST_CYCLES if cycles is None else cycles) + 1):
            changed = self.cycle()
            if progress is not None:
                progress(done)
            if cycles is None and not changed:
                break
        self._workloads.run()
        self._operator.run()
        return Report(self.cluster, self.last, self.cycles)

    def take_usage(self, usages: Mapping[str, NodeUsage]) -> None:
        """How busy nodes are, by name; the moments in seconds from now on the cluster's clock (0 and less)."""
        now = self.cluster.now
        self.cluster.cache.take_usage({n: replace(u, moment=now + u.moment) for n, u in usages.items()})

    def change(self, manifests: Sequence[Manifest]) -> None:
        """Change objects in between, as ``what_if`` tells. Raises ManifestError."""
        apply_changes(self.cluster, manifests)

    def fork(self) -> "Simulation":
        """An independent copy that goes on from here."""
        return fork(self, (self._external_calls,))

    def branch(self) -> "Simulation":
        """The same in a fraction of the time, of a simulation that is put aside for good: it does not change as long as
        its branches are in use, and these run one after the other."""
        return branch(self, (self._external_calls,))


def simulate(
    manifests: Sequence[Manifest],
    configuration: Configuration,
    scheduler_names: Sequence[str],
    *,
    cycles: int | None = None,
    kubelet: Kubelet = Kubelet.RUN,
    progress: Callable[[int], None] | None = None,
    usage: Mapping[str, NodeUsage] | None = None,
) -> Report:
    """Run ``cycles`` cycles, or (None) until one changes nothing, at most 20. ``usage``: how busy nodes are, as
    ``take_usage`` wants it. Raises ManifestError."""
    simulation = Simulation(manifests, configuration, scheduler_names, kubelet=kubelet)
    simulation.take_usage(usage or {})
    return simulation.run(cycles, progress=progress)
