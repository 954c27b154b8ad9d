"""A cluster in memory: an API server, its Events and a kubelet, connected to the cache of a scheduler."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from scheduler.api.decisions import Decisions, EventRecord, ObjectRef
from scheduler.api.kinds import KINDS, NAMESPACE, NODE, POD, QUEUE, Kind, find_kind
from scheduler.api.names import (
    DEFAULT_NAMESPACE,
    DEFAULT_QUEUE,
    EVENT_NORMAL,
    EVENT_WARNING,
    GPU_INDEX,
    GPU_NODE_LOCK,
    HAMI_BIND_PHASE,
    HAMI_NODE_LOCK,
    ROOT_QUEUE,
    SCHEDULING_GATES_QUEUE_ADMISSION,
    VGPU_BIND_PHASE,
    VGPU_NODE_LOCK,
)
from scheduler.api.objects import KubeObject
from scheduler.api.reasons import Malformed, first_fields
from scheduler.cache import ClusterCache
from scheduler.cluster.manifests import Manifest, ManifestError
from scheduler.cluster.memory.admission import MemoryAdmission
from scheduler.cluster.memory.decision_writer import DecisionWriter
from scheduler.cluster.memory.event_log import EventLog, malformed_event
from scheduler.cluster.memory.index import node_of
from scheduler.cluster.memory.kubelet import LostPods, SimulatedKubelet
from scheduler.cluster.memory.playground import run_playground
from scheduler.cluster.memory.raw_objects import Json, ref_of
from scheduler.cluster.memory.server import EPOCH, Key, MemoryServer, key_in, key_name
from scheduler.cluster.memory.storage import provision, sync_volumes
from scheduler.framework.configuration import Configuration
from scheduler.playground.objects import Warn


class MemoryCluster:
    """Objects, Events and a simulated kubelet, connected to a cache."""

    def __init__(
        self,
        cache: ClusterCache,
        scheduler_names: Sequence[str],
        *,
        start: datetime = EPOCH,
        follows_statuses: bool = False,
        features: frozenset[str] = frozenset(),
    ) -> None:
        """``start``, ``follows_statuses``: of the clock, as for MemoryServer; ``features``: the enabled feature gates
        of the webhooks."""
        self.cache = cache
        self.server = MemoryServer(start, follows_statuses=follows_statuses)
        self.undecodable: list[str] = []
        """The errors of objects that could not be decoded and were left out."""
        self._component = scheduler_names[0]
        self._admission = MemoryAdmission(
            self.server, scheduler_names, queue_gates=SCHEDULING_GATES_QUEUE_ADMISSION in features
        )
        self._log = EventLog()
        self._kubelet = SimulatedKubelet(self.server)
        self._lost_pods = LostPods(self.server)
        self._writer = DecisionWriter(self.server, cache, self.record)
        self.server.watch(self._update_cache)
        self.server.set_admission(self._admission.admit)

    # --- loading manifests ---
    def load(self, manifests: Iterable[Manifest], *, lenient: bool = False, more: bool = False) -> None:
        """Loads objects as if they were created one after the other, a second apart. Raises ManifestError.

        ``lenient``: malformed fields are ignored with an Event, as on a real cluster, and objects that cannot be
        decoded are left out. ``more``: further Pods follow in other calls, the last of which is without it. Objects of
        other kinds belong to the first call.
        """
        keys, pods = [], []
        new: dict[Key, Kind] = {}
        for manifest in manifests:
            try:
                key = self.server.load(manifest)
            except ManifestError as error:
                if not lenient:
                    raise
                self.undecodable.append(str(error))
                continue
            keys.append(key)
            if manifest.kind is POD:
                pods.append(key)
            if manifest.kind is not None and not manifest.raw["metadata"].get("uid"):
                new[key] = manifest.kind
        keys += self._create_if_missing(NAMESPACE, DEFAULT_NAMESPACE, {})
        keys += self._create_if_missing(QUEUE, ROOT_QUEUE, {"spec": {"weight": 1, "reclaimable": False}})
        keys += self._create_if_missing(QUEUE, DEFAULT_QUEUE, {"spec": {"weight": 1, "reclaimable": True}})
        order = {f"{kind.group}/{kind.name}": i for i, kind in enumerate(KINDS)}
        for key in sorted(keys, key=lambda key: order.get(key[0], len(order))):
            if key in new:
                raw = self.server.get(key)
                completed = self._admission.with_defaults(new[key], raw)
                if completed is not raw:
                    self.server.replace_loaded(key, completed)
            self.server.publish(key)
            self.refuse_malformed(self.server.source_of(key), lenient=lenient)
        for key, kind in new.items():
            refusal = self._admission.refusal(kind, self.server.get(key))
            if refusal:
                raise ManifestError(f"{self.server.source_of(key)}: {kind.name} {key_name(key)}: {refusal}")
        self._lost_pods.observe_loaded(map(self.server.get, pods))
        if not more:
            sync_volumes(self.server)
            self.tick()

    def follow(self, changed: Sequence[Manifest], deleted: Iterable[Key]) -> None:
        """Takes in changes of the cluster whose objects were loaded with ``lenient`` and ``more``. ``changed``: the new
        and changed objects; ``deleted``: the keys of others. ``load`` without ``more`` has to follow."""
        for key in filter(self.server.has, deleted):
            self.server.discard(key)
        new = []
        for manifest in changed:
            try:
                if self.server.reload(manifest):
                    self.refuse_malformed(manifest.where, lenient=True)
                    continue
            except ManifestError as error:  # the version before stays
                self.undecodable.append(str(error))
                continue
            key = key_in(manifest.raw)
            if self.server.has(key):
                self.server.discard(key)
            new.append(manifest)
        self.load(new, lenient=True, more=True)

    def with_defaults(self, kind: Kind, raw: Json) -> Json:
        """The object with the defaults that mutating webhooks set."""
        return self._admission.with_defaults(kind, raw)

    def admitted(self, kind: Kind, raw: Json, old: Json | None = None) -> Json:
        """See ``MemoryAdmission.admitted``."""
        return self._admission.admitted(kind, raw, old)

    def refuse_malformed(self, where: str, *, lenient: bool = False) -> None:
        """Refuses the fields of loaded objects that the API server would refuse, such as invalid quantities.

        Other malformed fields that the cache reports are recorded as Events. Raises ManifestError.
        """
        for problem in self.cache.take_malformed():
            if problem.field.startswith(("spec", "status")) and not lenient:
                raise ManifestError(f"{where}: {problem.kind} {problem.name}: {problem.field}: {problem.problem}")
            self.record(malformed_event(problem))

    def _create_if_missing(self, kind: Kind, name: str, rest: Json) -> list[Key]:
        if self.server.find(kind, "", name) is not None:
            return []
        raw = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, **rest}
        return [self.server.load(Manifest("default objects", kind, raw))]

    def configure(self, configuration: Configuration) -> None:
        """Applies what the plugins of a configuration require of the cache."""
        for kind in self.cache.configure(configuration):
            for obj in self.server.structs(kind):
                self._update_cache(kind, None, obj)

    def _update_cache(self, kind: Kind, old: KubeObject | None, new: KubeObject | None) -> None:
        if new is not None:
            self.cache.upsert(kind, new)
            if self.cache.wants_original(kind):
                namespace, name = new.metadata.namespace, new.metadata.name
                self.cache.keep_original(kind, namespace, name, self.server.find(kind, namespace, name))
        elif old is not None:
            self.cache.delete(kind, old.metadata.namespace, old.metadata.name)

    # --- the state ---
    @property
    def now(self) -> float:
        """Simulated seconds since the epoch."""
        return self.server.now

    def tick(self) -> None:
        """Advances the clock by a second."""
        self.server.tick()

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> Json | None:
        """An object as the API server would return it, or None."""
        known = find_kind(api_version, kind)
        return self.server.find(known, namespace, name) if known else None

    def objects(self) -> list[Json]:
        """Every object and Event, sorted by kind, namespace and name."""
        return sorted(
            [raw for _, raw in self.server] + self.events(),
            key=lambda o: (o["kind"], o["metadata"].get("namespace") or "", o["metadata"]["name"], o["apiVersion"]),
        )

    # --- decisions ---
    def carry_out(self, decisions: Decisions, malformed: Iterable[Malformed]) -> tuple[bool, bool]:
        """See ``DecisionWriter.carry_out``."""
        return self._writer.carry_out(decisions, malformed)

    @property
    def has_preparations(self) -> bool:
        """Whether bindings wait for their preparations."""
        return self._writer.has_preparations

    @property
    def has_pending_work(self) -> bool:
        """Whether bindings wait for their preparations, or Pods are terminating."""
        return self.has_preparations or self.has_terminating_pods

    @property
    def has_terminating_pods(self) -> bool:
        """Whether Pods end in one of the next cycles."""
        return self._kubelet.has_terminating_pods

    def end_terminating_pods(self) -> None:
        """Lets Pods end that were terminating when they were loaded; without it, they stay as they are."""
        self._kubelet.end_terminating()

    @property
    def has_pods_to_end(self) -> bool:
        """Whether Pods end in one of the next cycles, or would after ``end_terminating_pods``."""
        return self._kubelet.has_terminating_pods or bool(self._kubelet.stopped())

    # --- deleted nodes ---
    def is_lost(self, pod: Json) -> bool:
        """Whether a Pod is about to be deleted because its Node does not exist."""
        return self._lost_pods.is_lost(pod)

    def delete_lost_pods(self) -> bool:
        """Deletes the Pods of deleted Nodes, see ``lost_pods``. Returns whether there were any."""
        return self._lost_pods.run()

    # --- Events ---
    def record(self, event: EventRecord) -> bool:
        """Records an Event, or counts an equal one again. Returns whether it is new."""
        return self._log.record(event, self._component, self.server.clock)

    def record_malformed(self, problems: Iterable[Malformed]) -> bool:
        """Records an Event about each malformed field. Returns whether one is new."""
        new = [self.record(malformed_event(problem)) for problem in first_fields(problems)]
        return any(new)

    def events(self) -> list[Json]:
        """The recorded Events, in order."""
        return self._log.objects()

    # --- a kubelet ---
    def run_kubelet(self) -> bool:
        """Does the work of provisioners, kubelets, the taint eviction controller and device plugins.

        Provisions volumes, removes Pods that were evicted before this cycle, runs bound Pods, deletes Pods on nodes
        with a NoExecute taint that they do not tolerate, and removes node locks of Pods that have their devices. Nodes
        of the playground have device plugins of their own.
        Returns whether anything changed.
        """
        provisioned = provision(self.server) and self._writer.run_preparations()
        simulated = run_playground(self.server, self._warn)
        changed, taint_evicted = self._kubelet.run()
        for raw in taint_evicted:
            text = f"Marking for deletion Pod {raw['metadata']['namespace']}/{raw['metadata']['name']}"
            self.record(EventRecord(ref_of(raw), EVENT_NORMAL, "TaintManagerEviction", text))
        released = release_node_locks(self.server)
        if released:
            self._writer.run_preparations()
        return changed or provisioned or released or simulated

    def remove_deleted_pods(self) -> bool:
        """Removes Pods that were evicted before this cycle, and does no other work of kubelets. Returns whether there
        were any."""
        return self._kubelet.remove_deleted()

    def _warn(self, warning: Warn) -> None:
        """Records a Warning Event of a simulated node."""
        kind, meta = warning.kind, warning.metadata
        about = ObjectRef(kind.api_version, kind.name, meta.namespace, meta.name, meta.uid)
        self.record(EventRecord(about, EVENT_WARNING, warning.reason, warning.message))


_LOCKS: Final = {GPU_NODE_LOCK: GPU_INDEX, VGPU_NODE_LOCK: VGPU_BIND_PHASE, HAMI_NODE_LOCK: HAMI_BIND_PHASE}
"""Lock annotation of nodes -> annotation of the Pods with devices that were allocated under the lock."""


def release_node_locks(server: MemoryServer) -> bool:
    """Removes node locks. Returns whether there were any to remove."""
    changed = False
    for node in server.by_index(NODE, _is_locked):
        name = node["metadata"]["name"]
        for lock in _LOCKS.keys() & node["metadata"]["annotations"].keys():
            if _has_running_pod(server, name, _LOCKS[lock]):
                changed |= server.patch(NODE, "", name, {"metadata": {"annotations": {lock: None}}})
    return changed


def _is_locked(node: Json) -> bool | None:
    return not _LOCKS.keys().isdisjoint(node["metadata"].get("annotations") or ()) or None


def _has_running_pod(server: MemoryServer, node: str, annotation: str) -> bool:
    """Whether a Pod with the annotation runs on the node."""
    return any(
        pod["status"].get("phase") == "Running" and annotation in (pod["metadata"].get("annotations") or {})
        for pod in server.by_index(POD, node_of, node)
    )
