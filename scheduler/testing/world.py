"""A cluster in memory that is scheduled a cycle at a time, for tests of plugins and actions."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import scheduler.actions
import scheduler.plugins  # noqa: F401  both register what they hold
from scheduler.api.decisions import Decisions
from scheduler.api.names import SCHEDULING_API_VERSION
from scheduler.api.snapshot import Snapshot
from scheduler.cache import ClusterCache
from scheduler.cluster.memory import MemoryCluster, Simulation
from scheduler.cluster.memory.unkept_texts import refuse_unkept
from scheduler.explain import explain
from scheduler.framework import registry
from scheduler.framework.configuration import Configuration, PluginOption
from scheduler.framework.cycle import Outcome, open_session, run_cycle
from scheduler.framework.extension import FLAGS
from scheduler.framework.session import Session
from scheduler.testing.objects import NAME, Raw, manifests


def only(*flags: str) -> dict[str, bool]:
    """The flags of a plugin. All others are off."""
    return {flag: flag in flags for flag in FLAGS}


def configuration(
    *tiers: Mapping[str, Mapping[str, bool]] | Sequence[str],
    actions: str = "enqueue, allocate, backfill",
    arguments: Mapping[str, Mapping[str, Any]] | None = None,
) -> Configuration:
    """Tiers as plugin names, or as plugin names with their flags; ``arguments`` by plugin."""
    built = []
    for tier in tiers:
        flags: Mapping[str, Mapping[str, bool]] = tier if isinstance(tier, Mapping) else {name: {} for name in tier}
        built.append(tuple(PluginOption(n, dict(f), dict((arguments or {}).get(n, {}))) for n, f in flags.items()))
    return Configuration(tuple(a.strip() for a in actions.split(",") if a.strip()), tuple(built))


class World:
    """A cluster in memory. Only the scheduler runs in it, when ``run`` is called."""

    def __init__(self, *objects: Raw | Sequence[Any]) -> None:
        self.cluster = MemoryCluster(ClusterCache([NAME]), [NAME])
        self._manifests = manifests(*objects)
        self.cluster.load(self._manifests)
        self.outcome: Outcome | None = None

    def session(self, configuration: Configuration) -> Session:
        """A session opened over the present state; nothing is carried out. Raises LookupError as ``run``."""
        _check_names(configuration)
        self.cluster.configure(configuration)
        return open_session(Session(self._snapshot(), configuration))

    def run(self, configuration: Configuration, cycles: int = 1, *, kubelet: bool = False, exits: bool = True) -> Self:
        """Runs cycles and carries out their decisions. A Pod that a cycle evicts is terminating in the next, and gone
        after it; with ``exits=False``, it stays terminating. ``kubelet``: Pods with a node run after each cycle, and
        evicted Pods exit. Raises LookupError if a plugin or action is not registered, and PluginError if one raises, or
        asks a class for a label or annotation of its Pods that no plugin names in ``cache_requirements``."""
        _check_names(configuration)
        for _ in range(cycles):
            cache = self.cluster.cache
            self.cluster.configure(configuration)
            self.outcome = run_cycle(self._snapshot(), configuration)
            cache.assume(self.outcome.decisions)
            self.cluster.carry_out(self.outcome.decisions, cache.take_malformed() + self.outcome.malformed)
            if kubelet:
                self.cluster.run_kubelet()
            elif exits:
                self.cluster.remove_deleted_pods()
            self.cluster.tick()
        return self

    def _snapshot(self) -> Snapshot:
        """A snapshot in which plugins cannot ask classes for labels and annotations that they do not require."""
        snapshot = self.cluster.cache.snapshot(self.cluster.now)
        refuse_unkept(snapshot, self.cluster.server)
        return snapshot

    @property
    def decisions(self) -> Decisions:
        assert self.outcome is not None
        return self.outcome.decisions

    @property
    def bound(self) -> dict[str, str]:
        """Pod -> node of the last cycle's bindings."""
        return {bind.task.name: bind.node for bind in self.decisions.binds}

    @property
    def evicted(self) -> set[str]:
        """The Pods that the last cycle evicted."""
        return {eviction.task.name for eviction in self.decisions.evictions}

    def get(self, kind: str, name: str) -> Raw:
        """An object (Pod, Node, Queue, PodGroup, ...) as it is now."""
        api_version = SCHEDULING_API_VERSION if kind in ("PodGroup", "Queue") else "v1"
        namespace = "" if kind in ("Queue", "Node") else "default"
        found = self.cluster.get(api_version, kind, namespace, name)
        assert found is not None, f"{kind} {name} is gone"
        return found

    @property
    def waiting(self) -> dict[str, str]:
        """Pod -> why it has no node, as the last cycle writes it into the condition PodScheduled."""
        return {task.name: update.message for update in self.decisions.pods for task in update.tasks}

    def refusals(self, group: str) -> list[str]:
        """The refusals of a job as a whole by plugins, in the last cycle."""
        assert self.outcome is not None
        return [refusal.message for refusal in self.outcome.session.jobs[f"default/{group}"].refusals]

    @property
    def malformed(self) -> list[str]:
        """The fields that the last cycle set aside: ``kind name field: problem``."""
        assert self.outcome is not None
        return [f"{m.kind} {m.name} {m.field}: {m.problem}" for m in self.outcome.malformed]

    @property
    def problems(self) -> list[str]:
        """The invalid and unknown arguments of the last cycle's configuration."""
        assert self.outcome is not None
        return self.outcome.session.problems

    def changes(self, group: str, configuration: Configuration) -> list[str]:
        """The changes that would let a PodGroup run, in the words of ``explain``. They are tried on a copy of the
        objects with which the world was created. Raises PluginError if the remedy of a plugin raises."""
        _check_names(configuration)
        simulation = Simulation(self._manifests, configuration, [NAME])
        found = explain(simulation, "podgroup", "default", group)
        for error in found.remedy_errors:
            raise error
        return [change.text for change in found.changes]

    def phase(self, name: str) -> str:
        """Returns the phase of a PodGroup."""
        return str((self.get("PodGroup", name).get("status") or {}).get("phase", ""))

    def events(self, reason: str) -> list[str]:
        """Messages of the Events with a reason."""
        return [o["message"] for o in self.cluster.objects() if o["kind"] == "Event" and o["reason"] == reason]


def _check_names(configuration: Configuration) -> None:
    """Raises LookupError for plugins and actions that are not registered, which a scheduler skips."""
    plugins = [option.name for tier in configuration.tiers for option in tier if registry.plugin(option.name) is None]
    actions = [name for name in configuration.actions if registry.action(name) is None]
    for what, names in (("plugin", plugins), ("action", actions)):
        for name in names:
            raise LookupError(f"no {what} {name!r} is registered: is its module imported, and is the name right?")
