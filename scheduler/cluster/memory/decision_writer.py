"""Carries out the decisions of sessions on a cluster in memory; ``cluster.kube.write`` does so on a real one."""

from collections.abc import Callable, Iterable
from itertools import chain

import msgspec

from scheduler.api.decisions import (
    Bind,
    Decisions,
    EventRecord,
    Evict,
    ObjectWrite,
    PodGroupStatusUpdate,
    Ungate,
    binding_message,
    eviction_message,
)
from scheduler.api.kinds import POD, POD_GROUP, QUEUE, Kind
from scheduler.api.names import (
    CARD_ALTERNATIVE,
    EVENT_EVICT,
    EVENT_FAILED_SCHEDULING,
    EVENT_NORMAL,
    EVENT_SCHEDULED,
    EVENT_WARNING,
    POD_REASON_SCHEDULER_ERROR,
    POD_SCHEDULED,
    QUEUE_ALLOCATION_GATE,
)
from scheduler.api.reasons import Malformed, first_fields
from scheduler.cache import ClusterCache
from scheduler.cluster.memory.event_log import malformed_event
from scheduler.cluster.memory.preparer import MemoryPreparer
from scheduler.cluster.memory.raw_objects import Json, format_time, ref_of, set_condition
from scheduler.cluster.memory.server import MemoryServer
from scheduler.cluster.memory.storage import sync_volumes


class DecisionWriter:
    """The writes of one cluster."""

    def __init__(self, server: MemoryServer, cache: ClusterCache, record: Callable[[EventRecord], bool]) -> None:
        """``record``: records an Event, and returns whether it is new."""
        self._server = server
        self._cache = cache
        self._record = record
        self._preparer = MemoryPreparer(server, self._bind, self._preparation_failed)

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
        changed |= self.run_preparations()
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
                kept = {name: value for name, value in before.items() if name not in ("cards", "withoutQueue")}
                cards = {"cards": status.cards} if status.cards else {}
                deserved = {} if status.deserved is None else {"deserved": dict(status.deserved)}
                without_queue = {"withoutQueue": status.without_queue} if status.without_queue else {}
                own = {**cards, **deserved, **without_queue}
                raw["status"] = {**kept, "allocated": dict(status.allocated), **own, **status.groups}
                reported |= raw["status"] != before
                self._update(QUEUE, raw)
        for event in chain(decisions.events, *(update.events() for update in decisions.pods)):
            reported |= self._record(event)
        for problem in first_fields(malformed):
            reported |= self._record(malformed_event(problem))
        return changed, reported

    def run_preparations(self) -> bool:
        """Advances the preparations of bindings and the controllers that they wait for. Returns whether anything
        changed."""
        changed = self._preparer.run()
        return (sync_volumes(self._server) and self._preparer.run()) or changed

    @property
    def has_preparations(self) -> bool:
        """Whether bindings wait for their preparations."""
        return bool(self._preparer)

    def _copy(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """Returns a copy whose metadata, spec and status may be changed."""
        raw = self._server.find(kind, namespace, name)
        if raw is None:
            return None
        spec, status = dict(raw.get("spec") or {}), dict(raw.get("status") or {})
        return {**raw, "metadata": dict(raw["metadata"]), "spec": spec, "status": status}

    def _update(self, kind: Kind, raw: Json) -> None:
        self._server.update(kind, raw["metadata"].get("namespace") or "", raw["metadata"]["name"], raw)

    def _preparation_failed(self, bind: Bind, message: str, at_fault: bool) -> None:
        """Handles a binding whose preparations failed."""
        self._cache.bind_failed(bind)
        raw = self._copy(POD, bind.task.namespace, bind.task.name)
        if raw is not None:
            set_condition(raw["status"], POD_SCHEDULED, "False", POD_REASON_SCHEDULER_ERROR, message)
            self._update(POD, raw)
            if at_fault:
                self._record(EventRecord(ref_of(raw), EVENT_WARNING, EVENT_FAILED_SCHEDULING, message))

    def _bind(self, bind: Bind) -> bool:
        raw = self._copy(POD, bind.task.namespace, bind.task.name)
        if raw is None:
            return False
        raw["spec"]["nodeName"] = bind.node
        if bind.annotations:
            raw["metadata"]["annotations"] = {**(raw["metadata"].get("annotations") or {}), **bind.annotations}
        set_condition(raw["status"], POD_SCHEDULED, "True", "", "", format_time(self._server.clock))
        self._update(POD, raw)
        self._record(EventRecord(ref_of(raw), EVENT_NORMAL, EVENT_SCHEDULED, binding_message(bind)))
        return True

    def _evict(self, eviction: Evict) -> bool:
        namespace, name = eviction.task.namespace, eviction.task.name
        raw = self._server.find(POD, namespace, name)
        if raw is None or raw["metadata"]["uid"] != eviction.task.uid:
            return False
        self._server.delete(POD, namespace, name, force=eviction.grace_period == 0)
        self._record(EventRecord(ref_of(raw), EVENT_WARNING, EVENT_EVICT, eviction_message(eviction.reason)))
        return True

    def _write(self, write: ObjectWrite) -> bool:
        """Writes an object of a plugin. Returns whether it was written."""
        raw = self._server.find(write.kind, write.namespace, write.name)
        if write.new or (write.create and raw is None):
            metadata = {**write.body.get("metadata", {}), "name": write.name, "namespace": write.namespace}
            kind = {"apiVersion": write.kind.api_version, "kind": write.kind.name}
            return self._server.create(write.kind, {**kind, **write.body, "metadata": metadata})
        if raw is None or write.uid not in ("", raw["metadata"].get("uid")):
            return False
        if write.resource_version not in ("", raw["metadata"].get("resourceVersion")):
            return False
        return self._server.patch(write.kind, write.namespace, write.name, dict(write.body))

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
        """Writes the status of a PodGroup. Returns whether its phase or its alternative changed,
        and whether anything changed."""
        raw = self._copy(POD_GROUP, update.namespace, update.name)
        if raw is None:
            return False, False
        new: Json = {"phase": update.phase} if update.phase else {}
        new["conditions"] = list(msgspec.to_builtins(update.conditions))
        new.update({k: v for k in ("running", "succeeded", "failed") if (v := getattr(update, k))})
        old, raw["status"] = raw["status"], new
        annotations = raw["metadata"].get("annotations") or {}
        chosen = update.alternative not in ("", annotations.get(CARD_ALTERNATIVE))
        if chosen:
            raw["metadata"]["annotations"] = {**annotations, CARD_ALTERNATIVE: update.alternative}
        self._update(POD_GROUP, raw)
        return chosen or old.get("phase") != new.get("phase"), chosen or old != new
