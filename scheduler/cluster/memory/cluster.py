"""A cluster held in memory: what the API server would hold, and what a kubelet would do, without either.

Objects are kept as they were read, so that they can be printed back; the cache is fed with their decoded form.
"""

import copy
import hashlib
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from scheduler.api.decisions import Decisions, EventPost, ObjectRef, PodGroupStatusUpdate
from scheduler.api.kinds import KINDS, SCHEDULED_FROM, Kind, find_kind
from scheduler.api.names import (
    DEFAULT_NAMESPACE,
    DEFAULT_QUEUE,
    EVENT_EVICT,
    EVENT_MALFORMED,
    EVENT_NORMAL,
    EVENT_SCHEDULED,
    EVENT_WARNING,
    POD_SCHEDULED,
    ROOT_QUEUE,
    SCHEDULING_API_VERSION,
)
from scheduler.api.objects import Pod, Taint
from scheduler.api.reasons import Malformed
from scheduler.api.tolerations import NO_EXECUTE, tolerates
from scheduler.cache import ClusterCache
from scheduler.cluster.memory.manifests import Manifest, ManifestError, decode

Key = tuple[str, str, str]
_EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
_LATEST = datetime(9000, 1, 1, tzinfo=UTC)
"""Dates beyond are refused, so that the clock has room to go on."""
_NAMESPACE_UID = uuid.UUID("6f1d1c5e-0b44-5a3c-9a53-1f7b3c6f2b10")
_BY_NAME = {(kind.api_version, kind.name): kind for kind in KINDS}


class MemoryCluster:
    """Objects, Events and a simulated kubelet around one cache."""

    def __init__(self, cache: ClusterCache, scheduler_name: str) -> None:
        self.cache = cache
        self._component = scheduler_name
        self._objects: dict[Key, tuple[Kind | None, dict[str, Any]]] = {}
        self._events: dict[tuple[object, ...], dict[str, Any]] = {}
        self._evicted: list[Key] = []
        """Pods evicted since the kubelet last ran."""
        self._leaving: list[Key] = []
        """Pods evicted before that, gone when it runs again."""
        self._uids: set[str] = set()
        self._where: dict[Key, str] = {}
        self._created = _EPOCH
        self._clock = _EPOCH

    # --- manifests in ---
    def load(self, manifests: Iterable[Manifest]) -> None:
        """Take objects as if they were created one after the other, a second apart. Raises ManifestError."""
        for manifest in manifests:
            self._create(manifest)
        self._ensure("v1", "Namespace", DEFAULT_NAMESPACE, {})
        self._ensure(SCHEDULING_API_VERSION, "Queue", ROOT_QUEUE, {"spec": {"weight": 1, "reclaimable": False}})
        self._ensure(SCHEDULING_API_VERSION, "Queue", DEFAULT_QUEUE, {"spec": {"weight": 1, "reclaimable": True}})
        order = {kind: i for i, kind in enumerate(SCHEDULED_FROM)}
        known = [(key, kind, raw) for key, (kind, raw) in self._objects.items() if kind in order]
        for key, kind, raw in sorted(known, key=lambda entry: order[entry[1]]):
            self._admit(kind, raw)
            self._feed(kind, raw)
            self._refuse_malformed(key)
        self._where.clear()
        self.tick()

    def _create(self, manifest: Manifest) -> None:
        raw = copy.deepcopy(manifest.raw)
        meta = raw["metadata"]
        kind = manifest.kind
        if kind is not None and kind.namespaced:
            meta.setdefault("namespace", DEFAULT_NAMESPACE)
        elif kind is not None:
            meta.pop("namespace", None)
        if kind is not None and kind.struct is not None:
            decode(kind, raw, manifest.where)
        key = (f"{raw['apiVersion'].rpartition('/')[0]}/{raw['kind']}", meta.get("namespace") or "", meta["name"])
        if key in self._objects:
            raise ManifestError(f"{manifest.where}: {raw['kind']} {_display(key)} was given before")
        self._created += timedelta(seconds=1)
        if meta.get("creationTimestamp"):
            created = _date(meta["creationTimestamp"])
            if created is None:
                raise ManifestError(
                    f"{manifest.where}: {raw['kind']}: metadata.creationTimestamp: not a date: "
                    f"{meta['creationTimestamp'][:64]!r}"
                )
            self._created = created
        else:
            meta["creationTimestamp"] = _stamp(self._created)
        self._clock = max(self._clock, self._created)
        if not meta.get("uid"):
            meta["uid"] = str(uuid.uuid5(_NAMESPACE_UID, "/".join(key)))
        if meta["uid"] in self._uids:
            raise ManifestError(f"{manifest.where}: {raw['kind']} {_display(key)}: metadata.uid: another object has it")
        self._uids.add(meta["uid"])
        self._objects[key] = (kind, raw)
        self._where[key] = manifest.where

    def _refuse_malformed(self, key: Key) -> None:
        """Refuse what the API server would refuse: amounts that are none, counts below their bounds. Anything else the
        cache complains of is told in an Event."""
        for problem in self.cache.take_malformed():
            if problem.field.startswith(("spec", "status")):
                raise ManifestError(
                    f"{self._where[key]}: {problem.kind} {problem.name}: {problem.field}: {problem.problem}"
                )
            self._post(self._complaint(problem))

    def _ensure(self, api_version: str, name: str, object_name: str, rest: dict[str, Any]) -> None:
        kind = _BY_NAME[api_version, name]
        if self._key(kind, "", object_name) not in self._objects:
            raw = {"apiVersion": api_version, "kind": name, "metadata": {"name": object_name}, **copy.deepcopy(rest)}
            self._create(Manifest("default objects", kind, raw))

    def _admit(self, kind: Kind, raw: dict[str, Any]) -> None:
        """What the API server's own admission does to an object that concerns scheduling."""
        if kind.name == "Pod":
            spec, status = raw.setdefault("spec", {}), raw.setdefault("status", {})
            status.setdefault("phase", "Pending")
            if spec.get("priority") is None:
                spec["priority"] = self._priority(spec.get("priorityClassName") or "")
            if spec.get("schedulingGates") and not spec.get("nodeName"):
                message = "Scheduling is blocked due to non-empty scheduling gates"
                _set_condition(status, POD_SCHEDULED, "False", "SchedulingGated", message)
            if spec.get("nodeName"):
                _set_condition(status, POD_SCHEDULED, "True", "", "")
        elif kind.name == "PodGroup":
            raw.setdefault("spec", {}).setdefault("queue", DEFAULT_QUEUE)
        elif kind.name == "Queue":
            spec = raw.setdefault("spec", {})
            spec.setdefault("weight", 1)
            spec.setdefault("reclaimable", True)
            raw.setdefault("status", {}).setdefault("state", "Open")

    def _priority(self, name: str) -> int:
        default = 0
        for kind, raw in self._objects.values():
            if kind is not None and kind.name == "PriorityClass":
                if raw["metadata"]["name"] == name:
                    return int(raw.get("value", 0))
                if raw.get("globalDefault"):
                    default = int(raw.get("value", 0))
        return default if not name else 0

    # --- the state ---
    @property
    def now(self) -> float:
        """Simulated seconds since the epoch."""
        return self._clock.timestamp()

    def tick(self) -> None:
        """A second passes."""
        self._clock += timedelta(seconds=1)

    @staticmethod
    def _key(kind: Kind, namespace: str, name: str) -> Key:
        return (f"{kind.api_version.rpartition('/')[0]}/{kind.name}", namespace, name)

    def _feed(self, kind: Kind, raw: dict[str, Any]) -> None:
        self.cache.upsert(kind.name, decode(kind, raw, "the cluster in memory"))

    def _find(
        self, api_version: str, name: str, namespace: str, object_name: str
    ) -> tuple[Kind, dict[str, Any]] | None:
        kind = find_kind(api_version, name)
        entry = self._objects.get(self._key(kind, namespace, object_name)) if kind else None
        return None if kind is None or entry is None else (kind, entry[1])

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        """An object as the API server would hold it, or None."""
        found = self._find(api_version, kind, namespace, name)
        return found[1] if found else None

    def objects(self) -> list[dict[str, Any]]:
        """Every object and Event, sorted by kind, namespace and name."""
        everything = [raw for _, raw in self._objects.values()] + list(self._events.values())
        return sorted(
            everything,
            key=lambda o: (o["kind"], o["metadata"].get("namespace") or "", o["metadata"]["name"], o["apiVersion"]),
        )

    # --- decisions carried out ---
    def carry_out(self, decisions: Decisions, malformed: Iterable[Malformed]) -> bool:
        """Do what a session decided; whether anything in the cluster changed by it."""
        changed = False
        for bind in decisions.binds:
            changed |= self._bind(bind.task.namespace, bind.task.name, bind.node, bind.annotations)
        for eviction in decisions.evictions:
            changed |= self._evict(eviction.task.namespace, eviction.task.name, eviction.reason)
        for update in decisions.pod_groups:
            changed |= self._group_status(update)
        for condition in decisions.pods:
            found = self._find("v1", "Pod", condition.task.namespace, condition.task.name)
            if found is not None:
                status = found[1].setdefault("status", {})
                changed |= _set_condition(status, POD_SCHEDULED, "False", condition.reason, condition.message)
                if condition.nominated:
                    changed |= status.get("nominatedNodeName") != condition.nominated
                    status["nominatedNodeName"] = condition.nominated
                self._feed(*found)
        for told in decisions.queues:
            found = self._find(SCHEDULING_API_VERSION, "Queue", "", told.name)
            if found is not None:
                status = found[1].setdefault("status", {})
                changed |= status.get("allocated") != told.allocated
                status["allocated"] = dict(told.allocated)
                self._feed(*found)
        for event in decisions.events:
            changed |= self._post(event)
        for problem in malformed:
            changed |= self._post(self._complaint(problem))
        return changed

    def _bind(self, namespace: str, name: str, node: str, annotations: dict[str, str]) -> bool:
        found = self._find("v1", "Pod", namespace, name)
        if found is None:
            return False
        raw = found[1]
        raw["spec"]["nodeName"] = node
        if annotations:
            raw["metadata"]["annotations"] = {**(raw["metadata"].get("annotations") or {}), **annotations}
        _set_condition(raw.setdefault("status", {}), POD_SCHEDULED, "True", "", "")
        self._feed(*found)
        text = f"Successfully assigned {namespace}/{name} to {node}"
        self._post(EventPost(self._ref(raw), EVENT_NORMAL, EVENT_SCHEDULED, text))
        return True

    def _evict(self, namespace: str, name: str, reason: str) -> bool:
        found = self._find("v1", "Pod", namespace, name)
        if found is None:
            return False
        self._terminate(*found)
        self._post(EventPost(self._ref(found[1]), EVENT_WARNING, EVENT_EVICT, f"Pod is evicted, because of {reason}"))
        return True

    def _group_status(self, update: PodGroupStatusUpdate) -> bool:
        found = self._find(SCHEDULING_API_VERSION, "PodGroup", update.namespace, update.name)
        if found is None:
            return False
        status = found[1].setdefault("status", {})
        new: dict[str, Any] = {"phase": update.phase} if update.phase else {}
        new["conditions"] = [
            {
                "type": c.type,
                "status": c.status,
                "transitionID": c.transition_id,
                "lastTransitionTime": c.last_transition_time,
                **({"reason": c.reason} if c.reason else {}),
                **({"message": c.message} if c.message else {}),
            }
            for c in update.conditions
        ]
        new.update({k: v for k in ("running", "succeeded", "failed") if (v := getattr(update, k))})
        changed = new != {k: status.get(k) for k in new} or len(new) != len(status)
        found[1]["status"] = new
        self._feed(*found)
        return bool(changed)

    # --- Events ---
    @staticmethod
    def _ref(raw: dict[str, Any]) -> ObjectRef:
        meta = raw["metadata"]
        return ObjectRef(
            raw["apiVersion"], raw["kind"], meta.get("namespace") or "", meta["name"], meta.get("uid") or ""
        )

    def _complaint(self, problem: Malformed) -> EventPost:
        found = next((k for k in KINDS if k.name == problem.kind), None)
        api_version = found.api_version if found else "v1"
        ref = ObjectRef(api_version, problem.kind, problem.namespace, problem.name)
        return EventPost(ref, EVENT_WARNING, EVENT_MALFORMED, problem.message)

    def _post(self, event: EventPost) -> bool:
        """Post an Event, or count an equal one once more; whether it is new."""
        about = event.about
        key = (about.kind, about.namespace, about.name, event.type, event.reason, event.message)
        known = self._events.get(key)
        if known is not None:
            known["count"] += 1
            known["lastTimestamp"] = _stamp(self._clock)
            return False
        digest = hashlib.sha256("\0".join(map(str, key)).encode()).hexdigest()[:16]
        self._events[key] = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{about.name}.{digest}", "namespace": about.namespace or DEFAULT_NAMESPACE},
            "involvedObject": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "name": about.name,
                **({"namespace": about.namespace} if about.namespace else {}),
                **({"uid": about.uid} if about.uid else {}),
            },
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
            "count": 1,
            "firstTimestamp": _stamp(self._clock),
            "lastTimestamp": _stamp(self._clock),
            "source": {"component": self._component},
        }
        return True

    # --- a kubelet ---
    def run_kubelet(self) -> bool:
        """Pods evicted before this cycle are gone, bound Pods run, and Pods on nodes with a NoExecute taint that they
        do not tolerate begin to terminate (as by the taint eviction controller); whether anything changed."""
        changed = False
        for key in self._gone():
            kind, _ = self._objects.pop(key)
            self.cache.delete(kind.name if kind else "", key[1], key[2])
            changed = True
        for kind, raw in list(self._objects.values()):
            if kind is None or kind.name != "Pod" or raw["metadata"].get("deletionTimestamp"):
                continue
            status, node = raw.setdefault("status", {}), raw["spec"].get("nodeName")
            if node and status.get("phase") in (None, "", "Pending"):
                status["phase"] = "Running"
                self._feed(kind, raw)
                changed = True
            if node and status["phase"] == "Running" and not self._may_stay(kind, raw, node):
                self._terminate(kind, raw)
                text = f"Marking for deletion Pod {raw['metadata']['namespace']}/{raw['metadata']['name']}"
                self._post(EventPost(self._ref(raw), EVENT_NORMAL, "TaintManagerEviction", text))
                changed = True
        return changed

    def _may_stay(self, kind: Kind, raw: dict[str, Any], node: str) -> bool:
        found = self._find("v1", "Node", "", node)
        taints = (found[1].get("spec") or {}).get("taints") if found else None
        if not taints:
            return True
        pod = decode(kind, raw, "the cluster in memory")
        tolerations = (pod.spec.tolerations if isinstance(pod, Pod) else None) or ()
        known = (msgspec.convert(taint, Taint) for taint in taints)
        return all(taint.effect != NO_EXECUTE or tolerates(tolerations, taint) for taint in known)

    def _terminate(self, kind: Kind, raw: dict[str, Any]) -> None:
        """The Pod is being deleted; it is gone when the kubelet has run twice more."""
        meta = raw["metadata"]
        meta["deletionTimestamp"] = _stamp(self._clock)
        self._feed(kind, raw)
        self._evicted.append(self._key(kind, meta["namespace"], meta["name"]))

    def _gone(self) -> list[Key]:
        gone = [key for key in self._leaving if key in self._objects]
        self._leaving, self._evicted = self._evicted, []
        return gone


def _set_condition(status: dict[str, Any], type_: str, value: str, reason: str, message: str) -> bool:
    """Set a Pod condition; whether it changed."""
    conditions = status.setdefault("conditions", [])
    new = {"type": type_, "status": value, **({"reason": reason} if reason else {})}
    if message:
        new["message"] = message
    for i, old in enumerate(conditions):
        if isinstance(old, dict) and old.get("type") == type_:
            conditions[i] = new
            return bool(old != new)
    conditions.append(new)
    return True


def _date(text: str) -> datetime | None:
    """The moment written, or None if it is none."""
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment if moment < _LATEST else None


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _display(key: Key) -> str:
    return f"{key[1]}/{key[2]}" if key[1] else key[2]
