"""A cluster held in memory: an API server, its Events and a kubelet, around the cache of a scheduler."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial

from scheduler.api.decisions import Bind, Decisions, EventPost, ObjectRef, PodGroupStatusUpdate, Ungate
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
from scheduler.cluster.memory.admission import Admission
from scheduler.cluster.memory.device_plugin import free_node_locks
from scheduler.cluster.memory.event_log import EventLog
from scheduler.cluster.memory.kubelet import SimulatedKubelet
from scheduler.cluster.memory.preparing import Preparing
from scheduler.cluster.memory.server import EPOCH, Json, Key, MemoryServer, display, set_condition, stamp
from scheduler.cluster.memory.storage import keep_volumes, provision
from scheduler.cluster.words import assigned, conditions_of, evicted

_CACHED = frozenset(SCHEDULER_KINDS)


class MemoryCluster:
    """Objects, Events and a simulated kubelet around one cache."""

    def __init__(
        self,
        cache: ClusterCache,
        scheduler_names: Sequence[str],
        *,
        start: datetime = EPOCH,
        features: frozenset[str] = frozenset(),
    ) -> None:
        """``start``: the time on its clock; ``features``: feature gates of the webhooks that are on."""
        self.cache = cache
        self.server = MemoryServer(start)
        self.left_out: list[str] = []
        """Why objects were left out that could not be decoded."""
        self._component = scheduler_names[0]
        self._admission = Admission(
            self.server, scheduler_names, queue_gates=SCHEDULING_GATES_QUEUE_ADMISSION in features
        )
        self._log = EventLog()
        self._kubelet = SimulatedKubelet(self.server)
        self._preparing = Preparing(self.server, self._bind, self._not_prepared)
        self.server.watch(self._feed)
        self.server.complete_pods(partial(self._admission.completed, POD))

    # --- manifests in ---
    def load(self, manifests: Iterable[Manifest], *, lenient: bool = False) -> None:
        """Take objects as if they were created one after the other, a second apart. ``lenient``: fields that cannot be
        used are set aside and told of, as on a real cluster, and objects that cannot be decoded are left out. Raises
        ManifestError."""
        keys = []
        fresh: dict[Key, Kind] = {}
        for manifest in manifests:
            try:
                key = self.server.read(manifest)
            except ManifestError as error:
                if not lenient:
                    raise
                self.left_out.append(str(error))
                continue
            keys.append(key)
            if manifest.kind is not None and not manifest.raw["metadata"].get("uid"):
                fresh[key] = manifest.kind
        keys += self._ensure(NAMESPACE, DEFAULT_NAMESPACE, {})
        keys += self._ensure(QUEUE, ROOT_QUEUE, {"spec": {"weight": 1, "reclaimable": False}})
        keys += self._ensure(QUEUE, DEFAULT_QUEUE, {"spec": {"weight": 1, "reclaimable": True}})
        order = {f"{kind.group}/{kind.name}": i for i, kind in enumerate(KINDS)}
        for key in sorted(keys, key=lambda key: order.get(key[0], len(order))):
            if key in fresh:
                raw = self.server.raw(key)
                completed = self._admission.completed(fresh[key], raw)
                if completed is not raw:
                    self.server.replace_raw(key, completed)
            self.server.admit(key)
            self.refuse_malformed(self.server.where(key), lenient=lenient)
        for key, kind in fresh.items():
            refusal = self._admission.refusal(kind, self.server.raw(key))
            if refusal:
                raise ManifestError(f"{self.server.where(key)}: {kind.name} {display(key)}: {refusal}")
        keep_volumes(self.server)
        self.tick()

    def refuse_malformed(self, where: str, *, lenient: bool = False) -> None:
        """Refuse what the API server would refuse of the objects just taken: amounts that are none, counts below their
        bounds. Anything else the cache complains of is told in an Event. Raises ManifestError."""
        for problem in self.cache.take_malformed():
            if problem.field.startswith(("spec", "status")) and not lenient:
                raise ManifestError(f"{where}: {problem.kind} {problem.name}: {problem.field}: {problem.problem}")
            self.post(_complaint(problem))

    def _ensure(self, kind: Kind, name: str, rest: Json) -> list[Key]:
        if self.server.find(kind, "", name) is not None:
            return []
        raw = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, **rest}
        return [self.server.read(Manifest("default objects", kind, raw))]

    def _feed(self, kind: Kind, old: KubeObject | None, new: KubeObject | None) -> None:
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
        """A second passes."""
        self.server.tick()

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> Json | None:
        """An object as the API server would hold it, or None."""
        known = find_kind(api_version, kind)
        return self.server.find(known, namespace, name) if known else None

    def objects(self) -> list[Json]:
        """Every object and Event, sorted by kind, namespace and name."""
        return sorted(
            [raw for _, raw in self.server] + self._log.objects(),
            key=lambda o: (o["kind"], o["metadata"].get("namespace") or "", o["metadata"]["name"], o["apiVersion"]),
        )

    # --- decisions carried out ---
    def carry_out(self, decisions: Decisions, malformed: Iterable[Malformed]) -> tuple[bool, bool]:
        """Do what a session decided; whether anything in the cluster changed by it that sessions and controllers go by,
        and whether anything did that only informs: conditions, counts, messages, Events."""
        acted = told = False
        for bind in decisions.binds:
            if not bind.together:
                acted |= self._bind(bind)
        self._preparing.begin(bind for bind in decisions.binds if bind.together)
        acted |= self._prepare()
        for eviction in decisions.evictions:
            acted |= self._evict(eviction.task.namespace, eviction.task.name, eviction.reason)
        for ungate in decisions.ungates:
            acted |= self._ungate(ungate)
        for update in decisions.pod_groups:
            moved, changed = self._group_status(update)
            acted, told = acted or moved, told or changed
        for condition in decisions.pods:
            raw = self._copy(POD, condition.task.namespace, condition.task.name)
            if raw is not None:
                told |= set_condition(raw["status"], POD_SCHEDULED, "False", condition.reason, condition.message)
                if condition.nominated:
                    acted |= raw["status"].get("nominatedNodeName") != condition.nominated
                    raw["status"]["nominatedNodeName"] = condition.nominated
                self._put(POD, raw)
        for status in decisions.queues:
            raw = self._copy(QUEUE, "", status.name)
            if raw is not None:
                told |= raw["status"].get("allocated") != status.allocated
                raw["status"]["allocated"] = dict(status.allocated)
                self._put(QUEUE, raw)
        for event in decisions.events:
            told |= self.post(event)
        for problem in malformed:
            told |= self.post(_complaint(problem))
        return acted, told

    def _copy(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """A copy whose metadata, spec and status can be written to."""
        raw = self.server.find(kind, namespace, name)
        if raw is None:
            return None
        spec, status = dict(raw.get("spec") or {}), dict(raw.get("status") or {})
        return {**raw, "metadata": dict(raw["metadata"]), "spec": spec, "status": status}

    def _put(self, kind: Kind, raw: Json) -> None:
        self.server.update(kind, raw["metadata"].get("namespace") or "", raw["metadata"]["name"], raw)

    def _prepare(self) -> bool:
        """Let bindings go on that wait for other objects, and those who own these react; whether anything changed."""
        changed = self._preparing.run()
        return (keep_volumes(self.server) and self._preparing.run()) or changed

    @property
    def preparing(self) -> bool:
        """Whether bindings wait for other objects."""
        return bool(self._preparing)

    @property
    def unsettled(self) -> bool:
        """Whether bindings wait for other objects, or Pods terminate that were deleted."""
        return self.preparing or self._kubelet.waits

    def _not_prepared(self, bind: Bind, message: str, at_fault: bool) -> None:
        """A binding will not come about for want of what it depends on."""
        self.cache.bind_failed(bind)
        raw = self._copy(POD, bind.task.namespace, bind.task.name)
        if raw is not None:
            set_condition(raw["status"], POD_SCHEDULED, "False", POD_REASON_SCHEDULER_ERROR, message)
            self._put(POD, raw)
            if at_fault:
                self.post(EventPost(_ref(raw), EVENT_WARNING, EVENT_FAILED_SCHEDULING, message))

    def _bind(self, bind: Bind) -> bool:
        raw = self._copy(POD, bind.task.namespace, bind.task.name)
        if raw is None:
            return False
        raw["spec"]["nodeName"] = bind.node
        if bind.annotations:
            raw["metadata"]["annotations"] = {**(raw["metadata"].get("annotations") or {}), **bind.annotations}
        set_condition(raw["status"], POD_SCHEDULED, "True", "", "", stamp(self.server.clock))
        self._put(POD, raw)
        self.post(EventPost(_ref(raw), EVENT_NORMAL, EVENT_SCHEDULED, assigned(bind)))
        return True

    def _evict(self, namespace: str, name: str, reason: str) -> bool:
        raw = self.server.find(POD, namespace, name)
        if raw is None:
            return False
        self.server.delete(POD, namespace, name)
        self.post(EventPost(_ref(raw), EVENT_WARNING, EVENT_EVICT, evicted(reason)))
        return True

    def _ungate(self, ungate: Ungate) -> bool:
        raw = self._copy(POD, ungate.task.namespace, ungate.task.name)
        if raw is None:
            return False
        gates = raw["spec"].pop("schedulingGates", None) or []
        left = [gate for gate in gates if gate.get("name") != QUEUE_ALLOCATION_GATE]
        if left:
            raw["spec"]["schedulingGates"] = left
        self._put(POD, raw)
        return len(left) < len(gates)

    def _group_status(self, update: PodGroupStatusUpdate) -> tuple[bool, bool]:
        """Whether its phase changed, and whether anything did."""
        raw = self._copy(POD_GROUP, update.namespace, update.name)
        if raw is None:
            return False, False
        new: Json = {"phase": update.phase} if update.phase else {}
        new["conditions"] = conditions_of(update)
        new.update({k: v for k in ("running", "succeeded", "failed") if (v := getattr(update, k))})
        old, raw["status"] = raw["status"], new
        self._put(POD_GROUP, raw)
        return old.get("phase") != new.get("phase"), old != new

    # --- Events ---
    def post(self, event: EventPost) -> bool:
        """Post an Event, or count an equal one once more; whether it is new."""
        return self._log.post(event, self._component, self.server.clock)

    # --- a kubelet ---
    def run_kubelet(self) -> bool:
        """Volumes that are asked for are made, Pods evicted before this cycle are gone, bound Pods run, and Pods on
        nodes with a NoExecute taint that they do not tolerate begin to terminate (as by the taint eviction controller),
        and locks of nodes whose Pods have their devices are taken away; whether anything changed."""
        made = provision(self.server) and self._prepare()
        changed, driven_out = self._kubelet.run()
        for raw in driven_out:
            text = f"Marking for deletion Pod {raw['metadata']['namespace']}/{raw['metadata']['name']}"
            self.post(EventPost(_ref(raw), EVENT_NORMAL, "TaintManagerEviction", text))
        freed = free_node_locks(self.server)
        if freed:
            self._prepare()
        return changed or made or freed


def _ref(raw: Json) -> ObjectRef:
    meta = raw["metadata"]
    return ObjectRef(raw["apiVersion"], raw["kind"], meta.get("namespace") or "", meta["name"], meta.get("uid") or "")


def _complaint(problem: Malformed) -> EventPost:
    found = next((k for k in KINDS if k.name == problem.kind), None)
    ref = ObjectRef(found.api_version if found else "v1", problem.kind, problem.namespace, problem.name)
    return EventPost(ref, EVENT_WARNING, problem.reason, problem.message)
