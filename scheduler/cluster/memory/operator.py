"""Runs the controllers on a cluster in memory until the worklist is empty."""

from collections.abc import Callable, Sequence

from scheduler.api.kinds import Kind
from scheduler.api.objects import KubeObject
from scheduler.cluster.manifests import ManifestError
from scheduler.cluster.memory.cluster import MemoryCluster
from scheduler.controllers.controller import Controller
from scheduler.controllers.effects import (
    BuildAndCreate,
    Create,
    Delete,
    Effect,
    Patch,
    Read,
    RecordEvent,
    RemoveFile,
    WriteFile,
)
from scheduler.controllers.store import Store
from scheduler.controllers.worklist import ReconcileQueue

MAX_RECONCILIATIONS = 1_000_000
"""Reconciliations at one moment after which two controllers are taken to undo each other's writes, which is a
defect."""


class MemoryOperator:
    """Runs the controllers; watches the cluster from its construction on."""

    def __init__(self, cluster: MemoryCluster, make_controllers: Callable[[Store], Sequence[Controller]]) -> None:
        self._cluster = cluster
        self._store = Store()
        self._worklist = ReconcileQueue(make_controllers(self._store))
        cluster.server.watch(self._observe)

    def _observe(self, kind: Kind, old: KubeObject | None, new: KubeObject | None) -> None:
        if new is not None:
            self._store.upsert(kind, new)
        elif old is not None:
            self._store.delete(kind, old.metadata.namespace, old.metadata.name, old.metadata.uid)
        self._worklist.observe(kind, old, new, self._cluster.now)

    def run(self) -> bool:
        """Reconciles everything that is due now. Returns whether anything was written."""
        written = False
        for _ in range(MAX_RECONCILIATIONS):
            item = self._worklist.take(self._cluster.now)
            if item is None:
                return written
            plan = item.controller.plan(item.key, self._cluster.now)
            for stage in plan.stages:
                failures = [self._carry_out(effect) for effect in stage]
                written |= any(
                    failure is None and not isinstance(effect, RecordEvent | Read)
                    for effect, failure in zip(stage, failures, strict=True)
                )
                failure = next(filter(None, failures), None)
                if failure is not None:
                    self._worklist.fail(item, *failure, self._cluster.now)
                    break
            else:
                self._worklist.finish(item, plan, self._cluster.now)
        raise RuntimeError(f"the controllers do not converge: {MAX_RECONCILIATIONS} reconciliations at one moment")

    def retry_failed(self) -> None:
        """Has everything retried whose last write was refused, without its pause."""
        self._worklist.retry_failed(self._cluster.now)

    def _carry_out(self, effect: Effect) -> tuple[Effect, str] | None:
        """Carries out an effect. Returns the effect and its error, or None."""
        server = self._cluster.server
        try:
            match effect:
                case Create():
                    server.create(effect.kind, effect.manifest)
                case BuildAndCreate():
                    if server.find(effect.kind, effect.namespace, effect.name) is None:
                        server.create(effect.kind, effect.build())
                case Patch() if self._is_target(effect):
                    server.patch(effect.kind, effect.namespace, effect.name, effect.body)
                case Delete() if self._is_target(effect):
                    server.delete(effect.kind, effect.namespace, effect.name, force=effect.grace_period == 0)
                case RecordEvent():
                    self._cluster.record(effect.event)
                case Read():
                    """The store has all objects."""
                case WriteFile() | RemoveFile():
                    """Pods in memory read no files."""
        except ManifestError as error:
            return effect, str(error)
        return None

    def _is_target(self, effect: Patch | Delete) -> bool:
        """Whether the object still has the uid and the owner of the effect."""
        raw = self._cluster.server.find(effect.kind, effect.namespace, effect.name)
        if raw is None or effect.uid not in ("", raw["metadata"]["uid"]):
            return False
        owners = raw["metadata"].get("ownerReferences") or ()
        return not effect.owner or any(each.get("controller") and each.get("uid") == effect.owner for each in owners)
