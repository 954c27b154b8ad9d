"""The cluster as the scheduler knows it: watch events in, snapshots out, decisions assumed until events confirm them.

All methods belong to one thread (the one that receives events). A snapshot may be read by another: what it holds is
either immutable, copied, or given up by the cache (Job views that a session changes are built anew).

An object with a field that cannot be used is set aside: the last good version stays in force if there was one, a
Malformed tells of it, and everything else goes on.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from scheduler.api.decisions import Bind, Decisions, Evict, PodUnschedulable, QueueAllocated
from scheduler.api.device_amounts import device_limits
from scheduler.api.dra import DeviceClass, ResourceClaim, ResourceSlice
from scheduler.api.job import Job
from scheduler.api.kinds import POD, SHOWN, Kind
from scheduler.api.moment import parse_moment
from scheduler.api.names import (
    DEFAULT_QUEUE,
    GROUP_NAME,
    HAMI_ALLOCATED_SUFFIX,
    HAMI_PREFIX,
    PREEMPTABLE,
    TASK_ANNOTATIONS,
    TASK_PRIORITY,
    TASK_SPEC,
    TRUE,
)
from scheduler.api.objects import (
    ConfigMap,
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    HyperNode,
    KubeObject,
    Namespace,
    Node,
    Numatopology,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    ResourceQuota,
    StorageClass,
    VolumeAttachment,
)
from scheduler.api.objects import Queue as QueueObject
from scheduler.api.quantity import QuantityError
from scheduler.api.queue import Queue
from scheduler.api.reasons import Malformed
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, Dimensions
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import PodClaim, Task, TaskClass, TaskStatus, index_in_name, pod_status
from scheduler.api.usage import NodeUsage
from scheduler.cache.classes import ClassTable
from scheduler.cache.device_claims import DeviceClaims
from scheduler.cache.hypernodes import HyperNodeTable
from scheduler.cache.job_records import JobRecord, status_of, view_of
from scheduler.cache.node_table import NodeTable, Shared
from scheduler.cache.selection_table import SELECTING, SelectionTable
from scheduler.cache.sub_groups import problems_of
from scheduler.cache.usage_table import UsageTable
from scheduler.framework.configuration import Configuration
from scheduler.framework.intake import intake_of

FEW_CLASSES = 4096
_FINISHED = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)
_ON_ITS_WAY = (TaskStatus.BINDING,)
_POD_SCHEDULED = "PodScheduled"
_NO_CLAIMS: Mapping[str, str | None] = {}


class ClusterCache:
    """The live model. See the module docstring for its threading rule."""

    def __init__(
        self,
        scheduler_names: Collection[str],
        *,
        default_queue: str = DEFAULT_QUEUE,
        node_selector: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.version = 0
        """Grows whenever something changes that a session could decide differently for."""
        self._names = frozenset(scheduler_names)
        self._default_queue = default_queue
        self._dimensions = Dimensions()
        self._width = self._dimensions.width
        """Width of the last snapshot: classes are widened between sessions, never under one."""
        self._selections = SelectionTable()
        self._classes = ClassTable(self._dimensions, self._selections)
        self._most_classes = FEW_CLASSES
        """Number of classes beyond which those without tasks are looked for and forgotten."""
        self._label_keys = len(self._classes.label_keys)
        self._nodes = NodeTable(self._dimensions, node_selector)
        self._tasks: dict[str, Task] = {}
        """``namespace/name`` -> task, for every Pod that is in a job or on a node."""
        self._strangers: Shared[Task] = Shared()
        """``namespace/name`` -> task, for those on nodes that belong to no job."""
        self._evicting: set[str] = set()
        """uids of tasks of which the eviction is assumed."""
        self._records: dict[str, JobRecord] = {}
        self._queues: dict[str, Queue] = {}
        self._priorities: dict[str, PriorityClass] = {}
        self._config_maps: Shared[ConfigMap] = Shared()
        self._namespaces: Shared[Namespace] = Shared()
        self._claims: Shared[PersistentVolumeClaim] = Shared()
        self._volumes: Shared[PersistentVolume] = Shared()
        self._storage_classes: Shared[StorageClass] = Shared()
        self._csi_nodes: Shared[CsiNode] = Shared()
        self._csi_drivers: Shared[CsiDriver] = Shared()
        self._storage_capacities: Shared[CsiStorageCapacity] = Shared()
        self._attachments: Shared[VolumeAttachment] = Shared()
        self._device_classes: Shared[DeviceClass] = Shared()
        self._resource_slices: Shared[ResourceSlice] = Shared()
        self._resource_claims: Shared[ResourceClaim] = Shared()
        self._device_claims = DeviceClaims(self._resource_claims)
        self._quotas: Shared[ResourceQuota] = Shared()
        self._budgets: Shared[PodDisruptionBudget] = Shared()
        self._numa: Shared[Numatopology] = Shared()
        self._hyper_nodes = HyperNodeTable()
        self._usage = UsageTable()
        self._originals: dict[str, Shared[object]] = {}
        """Kind -> ``namespace/name`` (or name) -> the object as it was written; no kinds unless they are wanted."""
        self._preparing: dict[str, Bind] = {}
        """uid -> an assumed binding that waits for other objects."""
        self._confirmed: dict[tuple[str, str], int] = {}
        """kind and key -> resource version that the watch has not come to yet."""
        self._malformed: list[Malformed] = []
        self._told: dict[str, dict[str, str]] = {}
        """``kind/namespace/name`` -> field -> problem, as last told of, so that each is told once."""
        self._problems: dict[str, str] = {}
        """field -> problem of the object being taken in."""
        self._handlers: dict[str, Callable[..., None]] = {
            "Pod": self._upsert_pod,
            "Node": self._upsert_node,
            "PodGroup": self._upsert_group,
            "Queue": self._upsert_queue,
            "PriorityClass": self._upsert_priority,
            "HyperNode": self._upsert_hyper_node,
            **{kind: partial(self._upsert_stored, kind, store) for kind, store in self._stores().items()},
            "ResourceClaim": self._upsert_resource_claim,
            **{kind: partial(self._upsert_selecting, kind) for kind in SELECTING},
        }

    # --- events in ---
    def upsert(self, kind: str, obj: KubeObject) -> None:
        """An object was added or changed. Kinds the scheduler does not use are ignored."""
        handler = self._handlers.get(kind)
        if handler is None:
            return
        self._problems = {}
        handler(obj)
        if self._problems or self._told:
            self._tell(kind, obj.metadata.namespace, obj.metadata.name)

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """An object is gone."""
        key = f"{namespace}/{name}"
        self._told.pop(f"{kind}/{key}", None)
        if kind in self._originals:
            self._originals[kind].pop(key if namespace else name)
        match kind:
            case "Pod":
                self._drop_task(key)
            case "Node":
                if self._nodes.delete(name):
                    self.version += 1
            case "PodGroup":
                self._delete_group(key)
            case "Queue":
                if self._queues.pop(name, None) is not None:
                    self.version += 1
            case "PriorityClass":
                if self._priorities.pop(name, None) is not None:
                    self._forget_views()
            case "HyperNode":
                if self._hyper_nodes.delete(name):
                    self.version += 1
            case _ if kind in SELECTING:
                self.version += self._selections.delete(kind, namespace, name)
            case _:
                store = self._stores().get(kind)
                if store is not None and store.pop(key if namespace else name) is not None:
                    self._confirmed.pop((kind, key if namespace else name), None)
                    self.version += 1
                    if kind == "ResourceClaim":
                        self._claim_again(key)

    def replace(self, kind: str, objects: Iterable[KubeObject]) -> None:
        """The complete list of a kind: what is not in it is gone."""
        listed = list(objects)
        present = {f"{o.metadata.namespace}/{o.metadata.name}" for o in listed}
        for key in [key for key in self._known(kind) if key not in present]:
            namespace, _, name = key.rpartition("/")
            self.delete(kind, namespace, name)
        for obj in listed:
            self.upsert(kind, obj)

    def _known(self, kind: str) -> list[str]:
        match kind:
            case "Pod":
                return list(self._tasks)
            case "Node":
                return [f"/{name}" for name in self._nodes.names()]
            case "PodGroup":
                return [key for key, record in self._records.items() if record.group is not None]
            case "Queue":
                return [f"/{name}" for name in self._queues]
            case "PriorityClass":
                return [f"/{name}" for name in self._priorities]
            case "HyperNode":
                return [f"/{name}" for name in self._hyper_nodes]
            case _ if kind in SELECTING:
                return self._selections.keys(kind)
            case _:
                store = self._stores().get(kind)
                return [key if "/" in key else f"/{key}" for key in store] if store is not None else []

    def _stores(self) -> dict[str, Shared[Any]]:
        return {
            "ConfigMap": self._config_maps,
            "Namespace": self._namespaces,
            "PersistentVolumeClaim": self._claims,
            "PersistentVolume": self._volumes,
            "StorageClass": self._storage_classes,
            "CSINode": self._csi_nodes,
            "CSIDriver": self._csi_drivers,
            "CSIStorageCapacity": self._storage_capacities,
            "VolumeAttachment": self._attachments,
            "DeviceClass": self._device_classes,
            "ResourceSlice": self._resource_slices,
            "ResourceClaim": self._resource_claims,
            "ResourceQuota": self._quotas,
            "PodDisruptionBudget": self._budgets,
            "Numatopology": self._numa,
        }

    def _upsert_stored(self, kind: str, store: Shared[Any], obj: KubeObject) -> None:
        key = _key(obj.metadata)
        confirmed = self._confirmed.get((kind, key)) if self._confirmed else None
        if confirmed is not None:
            if _version(obj) < confirmed:
                return  # the watch is behind what the server answered
            del self._confirmed[kind, key]
        store[key] = obj
        self.version += 1

    # --- Pods ---
    def _upsert_pod(self, pod: Pod) -> None:
        meta = pod.metadata
        key = f"{meta.namespace}/{meta.name}"
        ours = pod.spec.scheduler_name in self._names
        old = self._tasks.get(key)
        if not ours and not pod.spec.node_name:
            if old is not None:
                self._drop_task(key)
            return
        if old is not None and old.uid != (meta.uid or key_of(meta.namespace, meta.name)):
            self._drop_task(key)
            old = None
        try:
            task = self._task(pod, ours, old)
        except QuantityError as error:
            self._aside("spec.containers[].resources", str(error))
            return
        old = self._tasks.get(key)  # its class may be another since the Pod was looked at
        if old is not None and _same(old, task):
            old.resource_version, old.message = task.resource_version, task.message
            return
        self._swap(old, task)

    def _task(self, pod: Pod, ours: bool, old: Task | None) -> Task:
        """The task of a Pod. Raises QuantityError if its requests are malformed."""
        meta, spec, status = pod.metadata, pod.spec, pod.status
        annotations = meta.annotations or {}
        labels = meta.labels or {}
        group = annotations.get(GROUP_NAME, "")
        scheduled = next((c for c in status.conditions or () if c.type == _POD_SCHEDULED), None)
        claims = status.resource_claim_statuses
        made = {entry.name: entry.resource_claim_name for entry in claims} if claims else _NO_CLAIMS
        device_claims: tuple[PodClaim, ...] = ()
        if spec.resource_claims and not spec.node_name:
            device_claims = self._device_claims.of(spec, meta.namespace, meta.uid, made)
            if old is not None and old.status in _ON_ITS_WAY:
                device_claims = old.cls.device_claims  # what becomes of them is its own doing
        cls = self._classes.of(pod, device_claims)
        if len(self._classes.label_keys) != self._label_keys:
            self._classify_again()
            cls = self._classes.of(pod, device_claims)
        state = pod_status(status.phase, meta.deletion_timestamp is not None, spec.node_name)
        node = spec.node_name
        held = held_devices(annotations)
        if old is not None and old.status in _ON_ITS_WAY and state is TaskStatus.PENDING:
            state, node, held = old.status, old.node, old.annotations  # the watch has not seen the binding yet
        elif meta.uid in self._evicting:
            if state in (TaskStatus.BOUND, TaskStatus.RUNNING):
                state = TaskStatus.RELEASING  # the watch has not seen the eviction yet
            else:
                self._evicting.discard(meta.uid)
        return Task(
            uid=meta.uid or key_of(meta.namespace, meta.name),
            namespace=sys.intern(meta.namespace),
            name=meta.name,
            job=sys.intern(f"{meta.namespace}/{group}") if group else "",
            cls=cls,
            role=sys.intern(annotations.get(TASK_SPEC) or labels.get(TASK_SPEC) or ""),
            status=state,
            node=sys.intern(node),
            priority=self._task_priority(pod),
            creation=seconds(meta.creation_timestamp),
            index=index_in_name(meta.name),
            gated=bool(spec.scheduling_gates),
            preemptable=_truth(annotations.get(PREEMPTABLE, labels.get(PREEMPTABLE)), True),
            nominated=status.nominated_node_name,
            annotations=held,
            resource_version=meta.resource_version,
            ours=ours,
            message=scheduled.message if scheduled is not None and scheduled.status == "False" else "",
            labels=labels,
            scheduled_at=seconds(scheduled.last_transition_time)
            if scheduled is not None and scheduled.status == "True"
            else 0.0,
            started_at=seconds(status.start_time),
            device_claims=made,
        )

    def _task_priority(self, pod: Pod) -> int:
        text = (pod.metadata.annotations or {}).get(TASK_PRIORITY)
        if text is not None:
            try:
                return int(text)
            except ValueError:
                self._aside(
                    f"metadata.annotations[{TASK_PRIORITY}]",
                    f"{text[:64]!r} is not an integer",
                )
        return 1 if pod.spec.priority is None else pod.spec.priority

    def _swap(self, old: Task | None, new: Task | None) -> None:
        """Replace a task by its new version (or add, or drop it) in every index."""
        self._device_claims.swap(old, new)
        if old is not None:
            if old.uid in self._preparing and (new is None or new.status is not TaskStatus.BINDING):
                del self._preparing[old.uid]
            if old.node and old.status not in _FINISHED:
                self._nodes.take(old)
                if not old.job:
                    self._strangers.pop(old.key)
            if old.job and (new is None or new.job != old.job or new.uid != old.uid):
                record = self._records[old.job]
                record.tasks.pop(old.uid, None)
                record.view = None
                if record.forgotten:
                    del self._records[old.job]
        if new is not None:
            self._tasks[new.key] = new
            if new.node and new.status not in _FINISHED:
                self._nodes.put(new)
                if not new.job:
                    self._strangers[new.key] = new
            if new.job:
                record = self._record(new.job)
                record.tasks[new.uid] = new
                record.view = None
        elif old is not None:
            del self._tasks[old.key]
            self._evicting.discard(old.uid)
        self.version += 1

    def _drop_task(self, key: str) -> None:
        task = self._tasks.get(key)
        if task is not None:
            self._swap(task, None)

    def _classify_again(self) -> None:
        """A selector has named a label key for the first time: Pods may fall into other classes now."""
        while len(self._classes.label_keys) != self._label_keys:
            self._label_keys = len(self._classes.label_keys)
            for task in list(self._tasks.values()):
                cls = self._classes.again(task.cls, task.labels, task.cls.device_claims)
                if cls is not task.cls:
                    self._swap(task, replace(task, cls=cls))

    def _upsert_selecting(self, kind: str, obj: KubeObject) -> None:
        self.version += self._selections.upsert(kind, obj)

    def _select_again(self) -> None:
        """Whom Services and workloads select may have changed, and with it the labels that matter of a Pod."""
        changed = self._selections.take_changes()
        for task in list(self._tasks.values()) if changed else ():
            labels = changed.get(task.namespace, set())
            if labels is None or not labels.isdisjoint(task.labels.items()):
                cls = self._classes.again(task.cls, task.labels, task.cls.device_claims)
                if cls is not task.cls:
                    self._swap(task, replace(task, cls=cls))

    def _upsert_resource_claim(self, obj: ResourceClaim) -> None:
        self._upsert_stored("ResourceClaim", self._resource_claims, obj)
        self._claim_again(_key(obj.metadata))

    def _claim_again(self, claim: str) -> None:
        """A ResourceClaim, by its key, has changed: the waiting Pod that has it may be in another class now."""
        for key in self._device_claims.users(claim):
            task = self._tasks[key]
            cls = self._class_by_claims(task)
            if task.status is TaskStatus.PENDING and cls is not task.cls:
                self._swap(task, replace(task, cls=cls))

    def _class_by_claims(self, task: Task) -> TaskClass:
        """The class of a waiting task as its ResourceClaims are now."""
        if not task.cls.spec.resource_claims:
            return task.cls
        claims = self._device_claims.of(task.cls.spec, task.namespace, task.uid, task.device_claims)
        return self._classes.again(task.cls, task.labels, claims)

    # --- PodGroups, Queues, Nodes, PriorityClasses ---
    def _record(self, key: str) -> JobRecord:
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = JobRecord(key)
        return record

    def _upsert_group(self, group: PodGroup) -> None:
        meta, spec, status = group.metadata, group.spec, group.status
        if not spec.queue:
            spec.queue = self._default_queue
        try:
            minimum = None if spec.min_resources is None else self._dimensions.vector(spec.min_resources)
        except QuantityError as error:
            self._aside("spec.minResources", str(error))
            return
        if spec.min_member < 0 or any(n < 0 for n in (spec.min_task_member or {}).values()):
            self._aside("spec.minMember", "negative")
            return
        for field, problem in problems_of(spec):
            self._aside(field, problem)
        record = self._record(f"{meta.namespace}/{meta.name}")
        conditions = tuple(status.conditions or ())
        counts = (status.running, status.succeeded, status.failed)
        old = record.group
        if (
            old is not None
            and (old.spec, old.metadata.uid, old.metadata.labels, old.metadata.annotations)
            == (spec, meta.uid, meta.labels, meta.annotations)
            and (record.phase, record.conditions, record.counts) == (status.phase, conditions, counts)
        ):
            return
        record.group = group
        record.creation = seconds(meta.creation_timestamp)
        record.min_resources = minimum
        record.phase, record.conditions, record.counts = status.phase, conditions, counts
        record.view = None
        self.version += 1

    def _delete_group(self, key: str) -> None:
        record = self._records.get(key)
        if record is None or record.group is None:
            return
        record.group = None
        record.phase, record.conditions, record.counts = "", (), (0, 0, 0)
        record.view = None
        if record.forgotten:
            del self._records[key]
        self.version += 1

    def _upsert_queue(self, obj: QueueObject) -> None:
        meta, spec = obj.metadata, obj.spec
        try:
            capability = self._dimensions.limits(spec.capability)
            devices = device_limits(spec.capability)
            guarantee = self._dimensions.vector(spec.guarantee.resource if spec.guarantee else None)
            deserved = self._dimensions.vector(spec.deserved)
        except QuantityError as error:
            self._aside("spec", str(error))
            return
        if spec.weight < 1:
            self._aside("spec.weight", f"{spec.weight} is below 1")
            return
        for position in (CPU_INDEX, MEMORY_INDEX):
            if capability[position] <= 0:
                capability[position] = float("inf")
        new = Queue(
            name=meta.name,
            weight=spec.weight,
            priority=spec.priority,
            creation=seconds(meta.creation_timestamp),
            state=obj.status.state,
            reclaimable=spec.reclaimable is not False,
            parent=spec.parent,
            capability=capability,
            has_capability=bool(spec.capability),
            guarantee=guarantee,
            deserved=deserved,
            deserves=frozenset([*(spec.deserved or ()), *((spec.guarantee and spec.guarantee.resource) or ())]),
            device_limits=devices,
            affinity=spec.affinity,
            annotations=meta.annotations or {},
            allocated={k: str(v) for k, v in (obj.status.allocated or {}).items()},
        )
        old = self._queues.get(meta.name)
        self._queues[meta.name] = new
        if old is None or not _same_queue(old, new):
            self.version += 1

    def _upsert_node(self, node: Node) -> None:
        if self._nodes.upsert(node):
            self.version += 1
        for problem in self._nodes.malformed:
            self._aside(problem.field, problem.problem)
        self._nodes.malformed.clear()

    def _upsert_hyper_node(self, obj: HyperNode) -> None:
        changed, faults = self._hyper_nodes.upsert(obj)
        self.version += changed
        for field, problem in faults.items():
            self._aside(field, problem)

    def _upsert_priority(self, obj: PriorityClass) -> None:
        old = self._priorities.get(obj.metadata.name)
        if old is None or (old.value, old.global_default) != (obj.value, obj.global_default):
            self._priorities[obj.metadata.name] = obj
            self._forget_views()

    def _forget_views(self) -> None:
        for record in self._records.values():
            record.view = None
        self.version += 1

    def _priority(self, name: str) -> int:
        """The value of a priority class, else that of the cluster's default class, else 0."""
        found = self._priorities.get(name)
        if found is not None:
            return found.value
        return next((p.value for p in self._priorities.values() if p.global_default), 0)

    # --- what was set aside ---
    def _aside(self, field: str, problem: str) -> None:
        """A field of the object being taken in cannot be used."""
        self._problems[field] = problem

    def _tell(self, kind: str, namespace: str, name: str) -> None:
        """Tell of what was set aside of an object, unless it was told before."""
        key = f"{kind}/{namespace}/{name}"
        before = self._told.pop(key, {})
        if self._problems:
            self._told[key] = self._problems
        for field, problem in self._problems.items():
            if before.get(field) != problem:
                self._malformed.append(Malformed(kind, namespace, name, field, problem))

    def take_malformed(self) -> list[Malformed]:
        """What was set aside since the last call."""
        result, self._malformed = self._malformed, []
        return result

    # --- objects as they were written ---
    def wants_original(self, kind: str) -> bool:
        """Whether plugins show objects of the kind to others. What was fed before that has to be fed again."""
        return kind in self._originals

    def keep_original(self, kind: str, namespace: str, name: str, original: object) -> None:
        """Keep an object that was just upserted: JSON, or a dictionary that is never changed."""
        key = f"{namespace}/{name}" if namespace else name
        if kind != POD.name or key in self._tasks:
            self._originals[kind][key] = original

    # --- how busy nodes are ---
    def node_names(self) -> list[str]:
        return self._nodes.names()

    def take_usage(self, usages: Mapping[str, NodeUsage]) -> None:
        """What was heard of the load of nodes, by name; those not spoken of keep what they have."""
        if usages:
            self._usage.update(usages)
            self.version += 1

    # --- what plugins want ---
    def attune(self, configuration: Configuration) -> None:
        """Take things in as the plugins of a configuration want it from now on. Not while a session reads."""
        intake = intake_of(configuration, self._config_maps.read())
        if intake.uncounted != self._dimensions.uncounted:
            self._dimensions.uncounted = intake.uncounted
            self._count_again()
        if not intake.pod_labels <= self._classes.label_keys:
            self._classes.label_keys |= intake.pod_labels
            self._classify_again()
        if intake.originals != bool(self._originals):
            self._originals = {kind.name: Shared() for kind in SHOWN} if intake.originals else {}

    def _count_again(self) -> None:
        self._classes.count_again()
        self._nodes.count_again()
        for record in self._records.values():
            if record.group is not None and record.min_resources is not None:
                record.min_resources = self._dimensions.vector(record.group.spec.min_resources)
        self._forget_views()

    # --- snapshots out ---
    def snapshot(self, now: float) -> Snapshot:
        """The cluster at this moment. ``now``: seconds since the epoch."""
        self._select_again()
        if len(self._classes) > self._most_classes:
            used = {task.cls.id for task in self._tasks.values()}
            self._classes.keep(used)
            self._most_classes = max(FEW_CLASSES, 2 * len(used))
        if self._width != self._dimensions.width:
            self._width = self._dimensions.width
            self._classes.widen()
        jobs: dict[str, Job] = {}
        strangers: list[Task] = []
        for key, record in self._records.items():
            view = view_of(record, self._dimensions, self._priority)
            if view is not None:
                jobs[key] = view
            else:
                strangers += [t for t in record.tasks.values() if t.node and t.status not in _FINISHED]
        nodes = self._nodes.table().copy()
        hyper_nodes, misfits = self._hyper_nodes.tree(nodes.facts)
        self._malformed += [Malformed("HyperNode", "", *misfit) for misfit in misfits]
        return Snapshot(
            now=now,
            dimensions=self._dimensions.copy(),
            nodes=nodes,
            jobs=jobs,
            queues={name: self._fit_queue(queue) for name, queue in self._queues.items()},
            placed=self._nodes.placed(),
            sociable=self._classes.sociable(),
            chips=self._nodes.chips(),
            config_maps=self._config_maps.read(),
            namespaces=self._namespaces.read(),
            claims=self._claims.read(),
            volumes=self._volumes.read(),
            storage_classes=self._storage_classes.read(),
            csi_nodes=self._csi_nodes.read(),
            csi_drivers=self._csi_drivers.read(),
            storage_capacities=self._storage_capacities.read(),
            attachments=self._attachments.read(),
            device_classes=self._device_classes.read(),
            resource_slices=self._resource_slices.read(),
            resource_claims=self._resource_claims.read(),
            quotas=self._quotas.read(),
            budgets=self._budgets.read(),
            numa=self._numa.read(),
            hyper_nodes=hyper_nodes,
            usage=self._usage.columns(nodes.facts),
            selections=self._selections.read(),
            originals={kind: store.read() for kind, store in self._originals.items()},
            strangers=[*self._strangers.read().values(), *strangers] if strangers else self._strangers.read().values(),
            preparing=tuple(self._preparing.values()),
            version=self.version,
        )

    def _fit_queue(self, queue: Queue) -> Queue:
        width = self._dimensions.width
        if len(queue.capability) != width:
            wide = self._dimensions.fit(queue.capability)
            wide[len(queue.capability) :] = float("inf")
            queue.capability = wide
            queue.guarantee = self._dimensions.fit(queue.guarantee)
            queue.deserved = self._dimensions.fit(queue.deserved)
        return queue

    # --- decisions assumed ---
    def assume(self, decisions: Decisions) -> None:
        """Take a session's decisions as carried out: bound tasks hold their nodes, evicted ones are on their way out,
        statuses are as written. What has vanished or changed meanwhile is passed over."""
        for bind in decisions.binds:
            task = self._current(bind.task)
            if task is not None and task.status is TaskStatus.PENDING:
                held = held_devices(bind.annotations)
                self._swap(task, replace(task, status=TaskStatus.BINDING, node=bind.node, annotations=held))
                if bind.preparations:
                    self._preparing[task.uid] = bind
        for eviction in decisions.evictions:
            task = self._current(eviction.task)
            if task is not None and task.node and task.status is not TaskStatus.RELEASING:
                self._evicting.add(task.uid)
                self._swap(task, replace(task, status=TaskStatus.RELEASING))
        for update in decisions.pod_groups:
            record = self._records.get(f"{update.namespace}/{update.name}")
            if record is not None and record.group is not None and record.group.metadata.uid == update.uid:
                record.phase, record.conditions = update.phase, update.conditions
                record.counts = (update.running, update.succeeded, update.failed)
                record.view = None
                self.version += 1
        for pod in decisions.pods:
            task = self._current(pod.task)
            if task is not None:
                task.message = pod.message
                task.nominated = pod.nominated or task.nominated
        for told in decisions.queues:
            queue = self._queues.get(told.name)
            if queue is not None:
                queue.allocated = told.allocated

    def bind_failed(self, bind: Bind) -> None:
        """A binding that was assumed did not come about: the task is pending again and gives its place back."""
        task = self._current(bind.task)
        if task is not None and task.status is TaskStatus.BINDING and task.node == bind.node:
            cls = self._class_by_claims(task)
            self._swap(task, replace(task, status=TaskStatus.PENDING, node="", annotations={}, cls=cls))

    def evict_failed(self, eviction: Evict) -> None:
        """An eviction that was assumed did not come about: the task stays where it is."""
        task = self._current(eviction.task)
        if task is not None and task.uid in self._evicting:
            self._evicting.discard(task.uid)
            self._swap(task, replace(task, status=eviction.task.status))

    # --- what bindings wait for ---
    def keeps(self, kind: Kind) -> bool:
        """Whether ``find`` knows the objects of a kind whole."""
        return kind.name in self._stores()

    def find(self, kind: Kind, namespace: str, name: str) -> KubeObject | None:
        """An object of a kind that is kept."""
        found: KubeObject | None = self._stores()[kind.name].get(f"{namespace}/{name}" if namespace else name)
        return found

    def confirm(self, kind: Kind, obj: KubeObject) -> None:
        """The server has answered with this version of an object: it holds until the watch comes to it."""
        store, key = self._stores().get(kind.name), _key(obj.metadata)
        old = store.get(key) if store is not None else None
        if store is None or old is None or old.metadata.uid != obj.metadata.uid or _version(old) >= _version(obj):
            return
        store[key] = obj
        self._confirmed[kind.name, key] = _version(obj)
        self.version += 1

    def awaits(self, bind: Bind) -> bool:
        """Whether an assumed binding is still to come about."""
        task = self._current(bind.task)
        return task is not None and task.status is TaskStatus.BINDING and task.node == bind.node

    def standing(self) -> Decisions:
        """What is assumed at present, seen by the watch or not, as decisions that would bring it about."""
        tasks = self._tasks.values()
        return Decisions(
            binds=[Bind(t, t.node, t.annotations) for t in tasks if t.status is TaskStatus.BINDING],
            evictions=[Evict(t, "") for t in tasks if t.uid in self._evicting],
            pod_groups=[status for r in self._records.values() if (status := status_of(r)) is not None],
            pods=[PodUnschedulable(t, "", t.message, t.nominated) for t in tasks if t.message or t.nominated],
            queues=[QueueAllocated(queue.name, queue.allocated) for queue in self._queues.values()],
        )

    def task(self, key: str) -> Task | None:
        """The task of a Pod, by ``namespace/name``."""
        return self._tasks.get(key)

    def group_uid(self, key: str) -> str:
        """The uid of a PodGroup, by ``namespace/name``; "" if there is none."""
        record = self._records.get(key)
        return record.group.metadata.uid if record is not None and record.group is not None else ""

    def _current(self, task: Task) -> Task | None:
        """The present version of a task, or None if its Pod is gone (or another of the same name is there)."""
        current = self._tasks.get(task.key)
        return current if current is not None and current.uid == task.uid else None


def _same_queue(old: Queue, new: Queue) -> bool:
    """Whether two versions of a queue are alike to a session (its status.allocated is the session's own word)."""
    return (
        (old.weight, old.priority, old.creation, old.state, old.reclaimable, old.parent, old.annotations)
        == (new.weight, new.priority, new.creation, new.state, new.reclaimable, new.parent, new.annotations)
        and np.array_equal(old.capability, new.capability)
        and np.array_equal(old.guarantee, new.guarantee)
        and np.array_equal(old.deserved, new.deserved)
        and (old.deserves, old.device_limits, old.affinity) == (new.deserves, new.device_limits, new.affinity)
    )


def _same(old: Task, new: Task) -> bool:
    """Whether two versions of a task are alike to a session."""
    return (
        old.status is new.status
        and old.cls is new.cls
        and old.node == new.node
        and old.job == new.job
        and old.role == new.role
        and old.priority == new.priority
        and old.gated == new.gated
        and old.preemptable == new.preemptable
        and old.nominated == new.nominated
        and old.annotations == new.annotations
        and old.ours == new.ours
        and old.labels == new.labels
        and old.scheduled_at == new.scheduled_at
        and old.started_at == new.started_at
        and old.device_claims == new.device_claims
    )


def _key(meta: ObjectMeta) -> str:
    """How an object is filed: ``namespace/name``, or its name."""
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


def _version(obj: KubeObject) -> int:
    """The resource version of an object as a number; 0 if it is none."""
    version = obj.metadata.resource_version
    return int(version) if version.isdecimal() else 0


def held_devices(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations of a Pod that say which devices it has."""
    return {
        key: value
        for key, value in annotations.items()
        if key in TASK_ANNOTATIONS or (key.startswith(HAMI_PREFIX) and key.endswith(HAMI_ALLOCATED_SUFFIX))
    }


def key_of(namespace: str, name: str) -> str:
    """A stand-in uid for an object without one."""
    return f"{namespace}/{name}"


def seconds(timestamp: str | None) -> float:
    """Seconds since the epoch of a Kubernetes timestamp; 0 if it is missing or malformed."""
    return parse_moment(timestamp) or 0.0


def _truth(text: str | None, default: bool) -> bool:
    """A boolean annotation as Volcano reads it: anything that is not a boolean is false."""
    return default if text is None else text in TRUE
