"""Runs scheduling cycles on a cluster in memory, with the sessions and controllers of a real one, in simulated time."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import partial

from msgspec.structs import replace

from scheduler.api.decisions import Evict
from scheduler.api.snapshot import Snapshot
from scheduler.api.usage import NodeUsage
from scheduler.cache import ClusterCache
from scheduler.cluster.manifests import Manifest
from scheduler.cluster.memory.cluster import MemoryCluster
from scheduler.cluster.memory.disruption_budgets import DisruptionBudgets
from scheduler.cluster.memory.emptied import remaining
from scheduler.cluster.memory.fork import branch, fork
from scheduler.cluster.memory.operator import MemoryOperator
from scheduler.cluster.memory.quotas import NamespaceQuotas
from scheduler.cluster.memory.resource_claims import sync_claims
from scheduler.cluster.memory.unkept_texts import refusing_unkept
from scheduler.cluster.memory.what_if import apply_changes
from scheduler.cluster.memory.workloads import Workloads
from scheduler.controllers.catalogue import make_controllers
from scheduler.framework import registry
from scheduler.framework.configuration import Configuration
from scheduler.framework.cycle import Outcome, run_cycle
from scheduler.framework.external_calls import NO_EXTERNAL_CALLS, ExternalCalls
from scheduler.framework.session import Session

MAX_CYCLES = 20
DEFAULT_START = datetime(2020, 1, 1, 12, tzinfo=UTC)
"""The start of a simulation at noon, since plugin arguments that restrict the hours usually include the daytime."""


class KubeletBehaviour(Enum):
    """The behaviour of kubelets between cycles."""

    RUN = "run"
    """Bound Pods run; evicted Pods are removed at the end of the next cycle."""
    NONE = "none"
    """Bound Pods stay Pending on their node; evicted Pods stay terminating."""


@dataclass(slots=True)
class SimulationReport:
    """The result of a simulation."""

    cluster: MemoryCluster
    last: Outcome | None
    """The outcome of the last cycle, with the reasons why tasks are pending."""
    cycles: int
    scheduler_names: tuple[str, ...]


class Simulation:
    """A cluster in memory with its scheduler and controllers, run cycle by cycle."""

    def __init__(
        self,
        manifests: Sequence[Manifest],
        configuration: Configuration,
        scheduler_names: Sequence[str],
        *,
        kubelet: KubeletBehaviour = KubeletBehaviour.RUN,
        start: datetime | None = None,
        lenient: bool = False,
        more: bool = False,
        external_calls: ExternalCalls = NO_EXTERNAL_CALLS,
    ) -> None:
        """``start``: the initial time of the cluster's clock; None: DEFAULT_START, or the latest time that the objects
        tell. Raises ManifestError.

        ``lenient``, ``more``: as in ``MemoryCluster.load``. ``external_calls``: sends the requests of plugins to
        external programs.
        """
        self.configuration = configuration
        self._external_calls = external_calls
        self.scheduler_names = tuple(scheduler_names)
        self.cluster = MemoryCluster(
            ClusterCache(scheduler_names),
            scheduler_names,
            start=start or DEFAULT_START,
            follows_statuses=start is None,
            features=configuration.features,
        )
        self.last: Outcome | None = None
        self.cycles = 0
        self.cluster_changed = False
        """Whether the last cycle changed more than conditions, counts, messages and Events."""
        self.checks_external_plugins = True
        """Whether a plugin that is not built in gets a LookupError for labels and annotations of Pods that no plugin
        names in ``cache_requirements``. The check reads all Pods in each cycle."""
        self.evictions: list[Evict] = []
        """All evictions, in order."""
        self._operator = MemoryOperator(self.cluster, partial(make_controllers, scheduler_names=scheduler_names))
        self._workloads = Workloads(self.cluster.server)
        self._budgets = DisruptionBudgets(self.cluster.server)
        self._quotas = NamespaceQuotas(self.cluster.server)
        self._kubelet = kubelet
        self.cluster.configure(configuration)
        self.cluster.load(manifests, lenient=lenient, more=more)
        self.cluster.server.set_pod_validator(self._quotas.refusal)

    def run_controllers(self) -> bool:
        """Runs all controllers except the scheduler. Returns whether anything changed."""
        changed = self.cluster.delete_lost_pods()
        changed |= self._workloads.run()
        changed |= self._operator.run()
        changed |= sync_claims(self.cluster.server)
        changed |= self._budgets.run()
        return self._quotas.sync() or changed

    def cycle(
        self, session: Callable[..., Session] = Session, *, stop_when: Callable[[Outcome], bool] | None = None
    ) -> bool:
        """Runs a cycle with a session of the given type. Returns whether anything changed.

        ``stop_when``: if it returns True for the outcome, the decisions are not carried out. Events about malformed
        fields are recorded in any case.
        """
        cluster = self.cluster
        changed = self.run_controllers()
        snapshot = self.snapshot()
        checked = self.checks_external_plugins and registry.any_external(self.configuration)
        with refusing_unkept(snapshot, cluster.server) if checked else nullcontext():
            outcome = run_cycle(snapshot, self.configuration, make_session=session, external_calls=self._external_calls)
        self.last = outcome
        self.evictions += outcome.decisions.evictions
        if stop_when is not None and stop_when(outcome):
            cluster.record_malformed(cluster.cache.take_malformed() + outcome.malformed)
            return False
        cluster.cache.assume(outcome.decisions)
        malformed = cluster.cache.take_malformed() + outcome.malformed
        with cluster.server.batched():  # a Pod that is bound and starts causes one notification
            acted, reported = cluster.carry_out(outcome.decisions, malformed)
            self.cluster_changed = changed or acted
            if self._kubelet is KubeletBehaviour.RUN:
                self.cluster_changed |= cluster.run_kubelet()
        cluster.tick()
        self.cycles += 1
        return self.cluster_changed or reported

    def snapshot(self) -> Snapshot:
        """The snapshot that a session would get now."""
        self.cluster.configure(self.configuration)
        return self.cluster.cache.snapshot(self.cluster.now)

    def run(self, cycles: int | None = None, *, progress: Callable[[int], None] | None = None) -> SimulationReport:
        """Runs ``cycles`` cycles, or (None) until one changes nothing, at most 20. Can be called again to continue.

        Pods that terminate are gone after two cycles if kubelets run.
        """
        runs_pods = self._kubelet is KubeletBehaviour.RUN
        if runs_pods:
            self.cluster.end_terminating_pods()
        for done in range(1, (MAX_CYCLES if cycles is None else cycles) + 1):
            changed = self.cycle()
            if progress is not None:
                progress(done)
            if cycles is None and not changed and not (runs_pods and self.cluster.has_terminating_pods):
                break
        self._workloads.run()
        self._operator.run()
        return SimulationReport(self.cluster, self.last, self.cycles, self.scheduler_names)

    def take_usage(self, usages: Mapping[str, NodeUsage]) -> None:
        """Sets the usage of nodes by name. Its times are seconds relative to the cluster's clock (0 or negative)."""
        now = self.cluster.now
        self.cluster.cache.take_usage({n: replace(u, moment=now + u.moment) for n, u in usages.items()})

    def change(self, manifests: Sequence[Manifest]) -> None:
        """Changes objects as ``what_if`` describes. Controllers retry then what failed. Raises ManifestError."""
        apply_changes(self.cluster, manifests)
        self._operator.retry_failed()

    def fork(self) -> "Simulation":
        """Returns an independent copy in the current state."""
        return fork(self, (self._external_calls,))

    def without_workloads(self) -> "Simulation":
        """Returns the cluster as it is when all workloads have ended (``emptied``)."""
        server = self.cluster.server
        made = Simulation(
            list(remaining(server)), self.configuration, self.scheduler_names, start=server.clock, lenient=True,
            external_calls=self._external_calls,
        )  # fmt: skip
        made.checks_external_plugins = False
        return made

    def branch(self) -> "Simulation":
        """Returns a copy in a fraction of the time.

        This simulation must not change while its branches are in use, and branches must run one after the other.
        """
        return branch(self, (self._external_calls,))


def simulate(
    manifests: Sequence[Manifest],
    configuration: Configuration,
    scheduler_names: Sequence[str],
    *,
    cycles: int | None = None,
    kubelet: KubeletBehaviour = KubeletBehaviour.RUN,
    progress: Callable[[int], None] | None = None,
    usage: Mapping[str, NodeUsage] | None = None,
) -> SimulationReport:
    """Runs ``cycles`` cycles, or (None) until one changes nothing, at most 20. Raises ManifestError.

    ``usage``: the usage of nodes as for ``take_usage``.
    """
    simulation = Simulation(manifests, configuration, scheduler_names, kubelet=kubelet)
    simulation.take_usage(usage or {})
    return simulation.run(cycles, progress=progress)
