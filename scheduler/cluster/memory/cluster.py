"""A cluster in memory: an API server, its Events and a kubelet, connected to the cache of a scheduler."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from itertools import chain

import msgspec

from scheduler.api.decisions import (
    Bind,
    Decisions,
    EventRecord,
    Evict,
    ObjectRef,
    ObjectWrite,
    PodGroupStatusUpdate,
    Ungate,
)
from scheduler.api.kinds import KINDS, NAMESPACE, POD, POD_GROUP, QUEUE, SCHEDULER_KINDS, Kind, find_kind
from scheduler.api.names import (
    DEFAULT_NAMESPACE,
    DEFAULT_QUEUE,
    EVENT_EVICT,
    EVENT_FAILED_SCHEDULING,
    EVENT_NORMAL,
    EVENT_SCHEDULED,
    EVENT_WARNING,
    POD_REASON_SCHEDULER_ERROR,
    POD_SCHEDULED,
    QUEUE_ALLOCATION_GATE,
    ROOT_QUEUE,
    SCHEDULING_GATES_QUEUE_ADMISSION,
)
from scheduler.api.objects import KubeObject
from scheduler.api.reasons import Malformed
from scheduler.cache import ClusterCache
from scheduler.cluster.manifests import Manifest, ManifestError
from scheduler.cluster.memory.admission import MemoryAdmission
from scheduler.cluster.memory.device_plugin import release_node_locks
from scheduler.cluster.memory.event_log import EventLog
from scheduler.cluster.memory.kubelet import SimulatedKubelet
from scheduler.cluster.memory.playground import run_playground
from scheduler.cluster.memory.preparer import MemoryPreparer
from scheduler.cluster.memory.raw_objects import Json, format_time, set_condition
from scheduler.cluster.memory.server import EPOCH, Key, MemoryServer, key_name
from scheduler.cluster.memory.storage import provision, sync_volumes
from scheduler.cluster.messages import binding_message, eviction_message
from scheduler.framework.configuration import Configuration
from scheduler.playground.objects import Warn

_CACHED = frozenset(SCHEDULER_KINDS)


class MemoryCluster:
    """Objects, Events and a simulated kubelet, connected to a cache."""

    def __init__(
        self,
        cache: ClusterCache,
        scheduler_names: Sequence[str],
        *,
        start: datetime = EPOCH,
        features: frozenset[str] = frozenset(),
    ) -> None:
        """``start``: the initial time of the clock; ``features``: the enabled feature gates of the webhooks."""
        self.cache = cache
        self.server = MemoryServer(start)
        self.undecodable: list[str] = []
        """The errors of objects that could not be decoded and were left out."""
        self._component = scheduler_names[0]
        self._admission = MemoryAdmission(
            self.server, scheduler_names, queue_gates=SCHEDULING_GATES_QUEUE_ADMISSION in features
        )
        self._log = EventLog()
        self._kubelet = SimulatedKubelet(self.server)
        self._preparer = MemoryPreparer(self.server, self._bind, self._preparation_failed)
        self.server.watch(self._update_cache)
        self.server.set_pod_defaulter(partial(self._admission.with_defaults, POD))

    # --- loading manifests ---
    def load(self, manifests: Iterable[Manifest], *, lenient: bool = False, more: bool = False) -> None:
        """Loads objects as if they were created one after the other, a second apart. Raises ManifestError.

        ``lenient``: malformed fields are ignored with an Event, as on a real cluster, and objects that cannot be
        decoded are left out. ``more``: further Pods follow in other calls, the last of which is without it. Objects of
        other kinds belong to the first call.
        """
        keys = []
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
        if not more:
            sync_volumes(self.server)
            self.tick()

    def refuse_malformed(self, where: str, *, lenient: bool = False) -> None:
        """Refuses the fields of loaded objects that the API server would refuse, such as invalid quantities.

        Other malformed fields that the cache reports are recorded as Events. Raises ManifestError.
        """
        for problem in self.cache.take_malformed():
            if problem.field.startswith(("spec", "status")) and not lenient:
                raise ManifestError(f"{where}: {problem.kind} {problem.name}: {problem.field}: {problem.problem}")
            self.record(_malformed_event(problem))

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
        if kind not in _CACHED:
            return
        if new is not None:
            self.cache.upsert(kind.name, new)
            if self.cache.wants_original(kind.name):
                namespace, name = new.metadata.namespace, new.metadata.name
                self.cache.keep_original(kind.name, namespace, name, self.server.find(kind, namespace, name))
        elif old is not None:
            self.cache.delete(kind.name, old.metadata.namespace, old.metadata.name)

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
            [raw for _, raw in self.server] + self._log.objects(),
            key=lambda o: (o["kind"], o["metadata"].get("namespace") or "", o["metadata"]["name"], o["apiVersion"]),
        )

    # --- carrying out decisions ---
    def carry_out(self, decisions: Decisions, malformed: Iterable[Malformed]) -> tuple[bool, bool]:
        """Carries out the decisions of a session.

        Returns whether the input of later sessions or controllers changed, and whether anything changed that only
        informs: conditions, counts, messages, Events.
        """
        changed = reported = False
        for bind in decisions.binds:
            if not bind.together:
                changed |= self._bind(bind)
        self._preparer.add(bind for bind in decisions.binds if bind.together)
        changed |= self._run_preparations()
        for eviction in decisions.evictions:
            changed |= self._evict(eviction)
        for write in decisions.writes:
            changed |= self._write(write)
        for ungate in decisions.ungates:
            changed |= self._ungate(ungate)
        for update in decisions.pod_groups:
            moved, status_changed = self._group_status(update)
            changed, reported = changed or moved, reported or status_changed
        for condition in chain.from_iterable(update.pods() for update in decisions.pods):
            raw = self._copy(POD, condition.task.namespace, condition.task.name)
            if raw is not None:
                reported |= set_condition(raw["status"], POD_SCHEDULED, "False", condition.reason, condition.message)
                if condition.nominated:
                    changed |= raw["status"].get("nominatedNodeName") != condition.nominated
                    raw["status"]["nominatedNodeName"] = condition.nominated
                self._update(POD, raw)
        for status in decisions.queues:
            raw = self._copy(QUEUE, "", status.name)
            if raw is not None:
                before = raw["status"]
                kept = {name: value for name, value in before.items() if name != "cards"}
                cards = {"cards": status.cards} if status.cards else {}
                deserved = {} if status.deserved is None else {"deserved": dict(status.deserved)}
                raw["status"] = {**kept, "allocated": dict(status.allocated), **cards, **deserved, **status.groups}
                reported |= raw["status"] != before
                self._update(QUEUE, raw)
        for event in chain(decisions.events, *(update.events() for update in decisions.pods)):
            reported |= self.record(event)
        for problem in malformed:
            reported |= self.record(_malformed_event(problem))
        return changed, reported

    def _copy(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """Returns a copy whose metadata, spec and status may be changed."""
        raw = self.server.find(kind, namespace, name)
        if raw is None:
            return None
        spec, status = dict(raw.get("spec") or {}), dict(raw.get("status") or {})
        return {**raw, "metadata": dict(raw["metadata"]), "spec": spec, "status": status}

    def _update(self, kind: Kind, raw: Json) -> None:
        self.server.update(kind, raw["metadata"].get("namespace") or "", raw["metadata"]["name"], raw)

    def _run_preparations(self) -> bool:
        """Advances the preparations of bindings and the controllers that they wait for. Returns whether anything
        changed."""
        changed = self._preparer.run()
        return (sync_volumes(self.server) and self._preparer.run()) or changed

    @property
    def has_preparations(self) -> bool:
        """Whether bindings wait for their preparations."""
        return bool(self._preparer)

    @property
    def has_pending_work(self) -> bool:
        """Whether bindings wait for their preparations, or Pods are terminating."""
        return self.has_preparations or self._kubelet.has_terminating_pods

    def _preparation_failed(self, bind: Bind, message: str, at_fault: bool) -> None:
        """Handles a binding whose preparations failed."""
        self.cache.bind_failed(bind)
        raw = self._copy(POD, bind.task.namespace, bind.task.name)
        if raw is not None:
            set_condition(raw["status"], POD_SCHEDULED, "False", POD_REASON_SCHEDULER_ERROR, message)
            self._update(POD, raw)
            if at_fault:
                self.record(EventRecord(_ref(raw), EVENT_WARNING, EVENT_FAILED_SCHEDULING, message))

    def _bind(self, bind: Bind) -> bool:
        raw = self._copy(POD, bind.task.namespace, bind.task.name)
        if raw is None:
            return False
        raw["spec"]["nodeName"] = bind.node
        if bind.annotations:
            raw["metadata"]["annotations"] = {**(raw["metadata"].get("annotations") or {}), **bind.annotations}
        set_condition(raw["status"], POD_SCHEDULED, "True", "", "", format_time(self.server.clock))
        self._update(POD, raw)
        self.record(EventRecord(_ref(raw), EVENT_NORMAL, EVENT_SCHEDULED, binding_message(bind)))
        return True

    def _evict(self, eviction: Evict) -> bool:
        namespace, name = eviction.task.namespace, eviction.task.name
        raw = self.server.find(POD, namespace, name)
        if raw is None or raw["metadata"]["uid"] != eviction.task.uid:
            return False
        self.server.delete(POD, namespace, name, force=eviction.grace_period == 0)
        self.record(EventRecord(_ref(raw), EVENT_WARNING, EVENT_EVICT, eviction_message(eviction.reason)))
        return True

    def _write(self, write: ObjectWrite) -> bool:
        """Writes an object of a plugin. Returns whether it was written."""
        raw = self.server.find(write.kind, write.namespace, write.name)
        if write.new or (write.create and raw is None):
            metadata = {**write.body.get("metadata", {}), "name": write.name, "namespace": write.namespace}
            kind = {"apiVersion": write.kind.api_version, "kind": write.kind.name}
            return self.server.create(write.kind, {**kind, **write.body, "metadata": metadata})
        if raw is None or write.uid not in ("", raw["metadata"].get("uid")):
            return False
        if write.resource_version not in ("", raw["metadata"].get("resourceVersion")):
            return False
        return self.server.patch(write.kind, write.namespace, write.name, dict(write.body))

    def _ungate(self, ungate: Ungate) -> bool:
        raw = self._copy(POD, ungate.task.namespace, ungate.task.name)
        if raw is None:
            return False
        gates = raw["spec"].pop("schedulingGates", None) or []
        left = [gate for gate in gates if gate.get("name") != QUEUE_ALLOCATION_GATE]
        if left:
            raw["spec"]["schedulingGates"] = left
        self._update(POD, raw)
        return len(left) < len(gates)

    def _group_status(self, update: PodGroupStatusUpdate) -> tuple[bool, bool]:
        """Writes the status of a PodGroup. Returns whether its phase changed, and whether anything changed."""
        raw = self._copy(POD_GROUP, update.namespace, update.name)
        if raw is None:
            return False, False
        new: Json = {"phase": update.phase} if update.phase else {}
        new["conditions"] = list(msgspec.to_builtins(update.conditions))
        new.update({k: v for k in ("running", "succeeded", "failed") if (v := getattr(update, k))})
        old, raw["status"] = raw["status"], new
        self._update(POD_GROUP, raw)
        return old.get("phase") != new.get("phase"), old != new

    # --- Events ---
    def record(self, event: EventRecord) -> bool:
        """Records an Event, or counts an equal one again. Returns whether it is new."""
        return self._log.record(event, self._component, self.server.clock)

    # --- a kubelet ---
    def run_kubelet(self) -> bool:
        """Does the work of provisioners, kubelets, the taint eviction controller and device plugins.

        Provisions volumes, removes Pods that were evicted before this cycle, runs bound Pods, deletes Pods on nodes
        with a NoExecute taint that they do not tolerate, and removes node locks of Pods that have their devices. Nodes
        of the playground have device plugins of their own.
        Returns whether anything changed.
        """
        provisioned = provision(self.server) and self._run_preparations()
        simulated = run_playground(self.server, self._warn)
        changed, taint_evicted = self._kubelet.run()
        for raw in taint_evicted:
            text = f"Marking for deletion Pod {raw['metadata']['namespace']}/{raw['metadata']['name']}"
            self.record(EventRecord(_ref(raw), EVENT_NORMAL, "TaintManagerEviction", text))
        released = release_node_locks(self.server)
        if released:
            self._run_preparations()
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


def _ref(raw: Json) -> ObjectRef:
    meta = raw["metadata"]
    return ObjectRef(raw["apiVersion"], raw["kind"], meta.get("namespace") or "", meta["name"], meta.get("uid") or "")


def _malformed_event(problem: Malformed) -> EventRecord:
    found = next((k for k in KINDS if k.name == problem.kind), None)
    ref = ObjectRef(found.api_version if found else "v1", problem.kind, problem.namespace, problem.name)
    return EventRecord(ref, EVENT_WARNING, problem.reason, problem.message)
