"""The scheduler's model of the cluster: watch events in, snapshots out, decisions assumed until events confirm them.

All methods must be called from one thread (the one that receives events). Another thread may read a snapshot: its
contents are immutable, copied, or no longer used by the cache (a Job view that a session changed is built again).

A malformed field is reported as a ``Malformed`` and affects nothing else. If the object cannot be used without it, the
cache keeps the last good version of the object, if there was one.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from scheduler.api.decisions import Bind, Decisions, Evict, PodsUnschedulable
from scheduler.api.dra import ResourceClaim
from scheduler.api.json_texts import config_map_problems
from scheduler.api.kinds import (
    CONFIG_MAP,
    HYPER_NODE,
    NODE,
    NODE_SHARD,
    ORIGINAL_KINDS,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    RESOURCE_CLAIM,
    SCHEDULER_KINDS,
    Cached,
    Kind,
)
from scheduler.api.names import DEFAULT_QUEUE, HCCL_RANK_INDEX, PREDICATE_TIME, SUPER_POD_RANK
from scheduler.api.objects import ConfigMap, KubeObject, PriorityClass
from scheduler.api.reasons import Malformed
from scheduler.api.resource import Dimensions
from scheduler.api.signed_records import BindingRecord, SigningKey
from scheduler.api.snapshot import Memory, Snapshot
from scheduler.api.task import Task, TaskStatus
from scheduler.api.usage import NodeUsage
from scheduler.cache.admissions import Admitted
from scheduler.cache.hypernode_table import HyperNodeTable
from scheduler.cache.job_table import JobTable
from scheduler.cache.malformed_fields import MalformedFields
from scheduler.cache.node_table import NodeTable
from scheduler.cache.object_stores import ObjectTable, OriginalObjects, UsageTable
from scheduler.cache.queue_table import PriorityClasses, QueueTable
from scheduler.cache.selection_table import SELECTING, SelectionTable
from scheduler.cache.shards import ShardClaims, ShardFilter
from scheduler.cache.task_classes import ClassTable, DeviceClaims
from scheduler.cache.task_table import InFlightWrites, TaskTable
from scheduler.cache.task_updater import TaskUpdater
from scheduler.cache.tasks_without_queue import TasksWithoutQueueTable
from scheduler.cache.versioning import Version
from scheduler.framework.cache_requirements import cache_requirements_of
from scheduler.framework.configuration import Configuration

T = TypeVar("T", bound=KubeObject)
T_contra = TypeVar("T_contra", bound=KubeObject, contravariant=True)


class Table(Protocol[T_contra]):
    """Keeps the objects of one kind."""

    def upsert(self, obj: T_contra, /) -> object: ...

    def delete(self, key: str, /) -> object: ...


class FunctionTable(Generic[T]):
    """A table that consists of two functions."""

    __slots__ = ("delete", "upsert")

    def __init__(self, upsert: Callable[[T], None], delete: Callable[[str], object]) -> None:
        self.upsert = upsert
        self.delete = delete


class ClusterCache:
    """The live model of the cluster. All methods must be called from one thread."""

    def __init__(
        self,
        scheduler_names: Collection[str],
        *,
        default_queue: str = DEFAULT_QUEUE,
        node_selector: Sequence[tuple[str, str]] = (),
        shard: str = "",
    ) -> None:
        """``shard``: name of the NodeShard with the nodes and queues of this scheduler; "": it uses all."""
        self.memory = Memory()
        """What sessions keep for the next ones."""
        self._version = Version()
        self._signed_since = math.inf
        self._dimensions = Dimensions()
        self._malformed = MalformedFields()
        self._whole: dict[Kind, ObjectTable[Any]] = {
            kind: ObjectTable(kind, self._version) for kind in SCHEDULER_KINDS if kind.cached is Cached.WHOLE
        }
        self._originals = OriginalObjects()
        self._usage = UsageTable()
        self._hyper_nodes = HyperNodeTable(self._version, self._malformed)
        self._priorities = PriorityClasses()
        self._queues = QueueTable(self._dimensions, self._version, self._malformed)
        self._nodes = NodeTable(self._dimensions, self._version, self._malformed, node_selector)
        self._without_queue = TasksWithoutQueueTable(self._dimensions)
        self._jobs = JobTable(
            self._dimensions,
            self._version,
            self._malformed,
            self._priorities.value,
            default_queue,
            self._without_queue,
        )
        self._shard: ShardFilter | None = None
        if shard:
            self._shard = ShardFilter(shard, self._nodes, self._queues, self._jobs, self._malformed, self._version)
        self._configured_with: tuple[Configuration | None, dict[str, ConfigMap] | None] = None, None
        """The configuration and the ConfigMaps whose requirements are applied."""
        claims, self._in_flight = DeviceClaims(self._whole_of(RESOURCE_CLAIM)), InFlightWrites()
        self._tasks = TaskTable(self._version, self._nodes, self._jobs, claims, self._in_flight, self._without_queue)
        self._selections = SelectionTable(self._tasks.may_have, self._version)
        self._classes = ClassTable(self._dimensions, self._selections)
        self._pods = TaskUpdater(scheduler_names, self._tasks, self._classes, self._malformed)
        self._tables: dict[Kind, Table[Any]] = {**self._whole}
        """All kinds that the cache keeps; it ignores objects of others."""
        self._add(POD, self._pods)
        self._add(POD_GROUP, self._jobs)
        self._add(QUEUE, self._queues)
        self._add(NODE, self._nodes)
        self._add(PRIORITY_CLASS, FunctionTable(self._upsert_priority, self._delete_priority))
        self._add(HYPER_NODE, self._hyper_nodes)
        self._add(CONFIG_MAP, FunctionTable(self._upsert_config_map, self._whole_of(CONFIG_MAP).delete))
        self._add(RESOURCE_CLAIM, FunctionTable(self._upsert_claim, self._delete_claim))
        if self._shard is not None:
            self._add(NODE_SHARD, self._shard.shards)
        for kind in SELECTING:
            upsert, delete = partial(self._selections.upsert, kind), partial(self._selections.delete, kind)
            self._tables[kind] = FunctionTable(upsert, delete)

    def _add(self, kind: Kind[T], table: Table[T]) -> None:
        self._tables[kind] = table

    @property
    def version(self) -> int:
        """Grows with every change after which a session could decide differently."""
        return self._version.number

    @property
    def changes(self) -> Version:
        """The version, with the counts of the changes for which a session should start early."""
        return self._version

    # --- events in ---
    def upsert(self, kind: Kind, obj: KubeObject) -> None:
        """Stores an object that was added or changed. Kinds that the scheduler does not use are ignored."""
        table = self._tables.get(kind)
        if table is not None:
            self._malformed.begin()
            table.upsert(obj)
            self._malformed.end(kind.name, obj.metadata.namespace, obj.metadata.name)

    def delete(self, kind: Kind, namespace: str, name: str) -> None:
        """Removes a deleted object."""
        key = kind.key(namespace, name)
        self._malformed.forget(kind.name, namespace, name)
        self._originals.delete(kind, key)
        table = self._tables.get(kind)
        if table is not None:
            table.delete(key)

    def _upsert_config_map(self, obj: ConfigMap) -> None:
        self._whole_of(CONFIG_MAP).upsert(obj)
        for problem in config_map_problems(obj.metadata.name, obj.data or {}):
            self._malformed.add(*problem)

    def _upsert_priority(self, obj: PriorityClass) -> None:
        if self._priorities.upsert(obj):
            self._jobs.update_priorities()
            self._version.opened()

    def _delete_priority(self, name: str) -> None:
        if self._priorities.delete(name):
            self._jobs.update_priorities()
            self._version.opened()

    def _upsert_claim(self, obj: ResourceClaim) -> None:
        self._whole_of(RESOURCE_CLAIM).upsert(obj)
        self._pods.claim_changed(RESOURCE_CLAIM.key(obj.metadata.namespace, obj.metadata.name))

    def _delete_claim(self, key: str) -> None:
        if self._whole_of(RESOURCE_CLAIM).delete(key):
            self._pods.claim_changed(key)

    def take_malformed(self) -> list[Malformed]:
        """Returns the malformed fields found since the last call."""
        return self._malformed.take()

    # --- original objects ---
    def wants_original(self, kind: Kind) -> bool:
        """Whether a plugin sends objects of the kind to other programs. Objects stored before that is the case have no
        original until they are stored again."""
        return kind in self._originals

    def keep_original(self, kind: Kind, namespace: str, name: str, original: object) -> None:
        """Stores the original of the object that was just upserted: JSON, or a dictionary that never changes."""
        if kind is not POD or self._tasks.get(namespace, name) is not None:
            self._originals.keep(kind, kind.key(namespace, name), original)

    # --- usage of nodes ---
    def node_names(self) -> list[str]:
        return self._nodes.names()

    def take_usage(self, usages: Mapping[str, NodeUsage]) -> None:
        """Stores measured usage by node name. Nodes without a new measurement keep the last one."""
        if usages:
            self._usage.update(usages)
            self._version.increment()

    # --- requirements of plugins ---
    def configure(self, configuration: Configuration) -> Collection[Kind]:
        """Applies what the plugins of a configuration require of the cache, unless neither the configuration nor a
        ConfigMap has changed since. Must not run while a session reads.

        Returns the kinds whose objects must be stored again before the next session, because the cache did not keep
        all that plugins now require of them.

        If a plugin raises, so does every further call, so that no session runs without the requirements."""
        config_maps = self._whole_of(CONFIG_MAP).read()
        if configuration is self._configured_with[0] and config_maps is self._configured_with[1]:
            return ()
        requirements = cache_requirements_of(configuration, config_maps)
        if requirements.uncounted != self._dimensions.uncounted:
            self._dimensions.uncounted = requirements.uncounted
            self._recount()
        self._pods.add_label_keys(requirements.pod_labels)
        self._configured_with = configuration, config_maps
        again = set(ORIGINAL_KINDS) if self._originals.enable(requirements.originals) else set()
        return again | {POD} if self.keep_annotations(requirements.pod_annotations) else again

    def _recount(self) -> None:
        """Computes all amounts again after the positions of resources have changed."""
        self._dimensions.moved = False
        self._classes.recount()
        self._nodes.recount()
        self._queues.recount()
        self._jobs.recount()
        self._without_queue.recount()

    def keep_annotations(self, keys: Collection[str]) -> bool:
        """Keeps these annotations of Pods from now on. Returns whether Pods stored before must be stored again."""
        return self._pods.add_annotation_keys(keys)

    # --- binding records ---
    def set_signing_key(self, key: SigningKey) -> None:
        """Verifies signed records with a key. Must be called before Pods are stored, and again with the same key once
        its creation time is known."""
        self._pods.key = key
        self.expect_records(key.created)

    def expect_records(self, since: float) -> None:
        """Declares that every binding since a Unix time has a record."""
        self._signed_since = since
        self._version.increment()

    def restore_record(
        self, key: str, uid: str, record: BindingRecord | None, earlier: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """Sets ``Task.record`` and ``Task.earlier`` of a Pod where its annotations do not prove them, as in a
        replay."""
        self._pods.restore_record(key, uid, record, earlier)

    # --- admissions ---
    def verify_admissions(self, key: SigningKey, now: float) -> None:
        """Counts only PodGroups with a record signed with the key, and those that sessions admit, as admitted from now
        on. A new leader calls it once all PodGroups are stored. Without it the phase of each PodGroup counts."""
        self.enforce_admissions(self._jobs.proven_admissions(key, now))

    def enforce_admissions(self, admitted: Sequence[Admitted]) -> None:
        """Counts only PodGroups in ``admitted``, and those that sessions admit, as admitted from now on."""
        self._jobs.enforce_admissions(admitted)

    def admissions(self) -> list[Admitted] | None:
        """The admitted PodGroups; None: admissions are not enforced, and the phase of each PodGroup counts."""
        return self._jobs.admissions()

    # --- shards ---
    def shard_claims(self) -> ShardClaims:
        """What this scheduler has claimed, may use and should claim next. Without a shard it uses the whole cluster."""
        return ShardClaims() if self._shard is None else self._shard.claims()

    def use_shard(self, claims: ShardClaims) -> None:
        """Uses what these claims permit from now on. All that their former users wrote must be in the cache."""
        if self._shard is not None:
            for node in self._shard.use(claims):
                self.upsert(NODE, node)

    def writes_queue(self, name: str) -> bool:
        """Whether this scheduler writes the status of a queue."""
        return self._shard is None or self._shard.serves(name)

    # --- snapshots out ---
    def _compact(self) -> None:
        """Classifies tasks again where necessary, and drops unused classes. Each snapshot begins with it."""
        if self._dimensions.moved:
            self._recount()
        self._pods.reclassify()
        self._pods.drop_unused_classes()
        self._jobs.compact()

    def prepare(self) -> None:
        """Builds what snapshots contain of the present state, so that the next one has to build only what changes until
        then. A standby, which takes no snapshots, calls it periodically. Pending changes do not accumulate then."""
        self.snapshot(0.0)

    def snapshot(self, now: float) -> Snapshot:
        """Returns the present state of the cluster. ``now``: seconds since the epoch."""
        self._compact()
        self._classes.widen()
        all_queues = self._queues.read()
        queues = all_queues if self._shard is None else self._shard.queues(all_queues)
        jobs, without_job = self._jobs.views(queues.keys()), self._tasks.without_job()
        nodes = self._nodes.table().copy()
        return Snapshot(
            now=now,
            dimensions=self._dimensions.copy(),
            nodes=nodes,
            jobs=jobs.all,
            job_changes=jobs.changes,
            active_jobs=jobs.active,
            settled_jobs=jobs.settled,
            touched=jobs.touched,
            queues=queues,
            placed=self._nodes.placed(),
            affinity_classes=self._classes.affinity_classes(),
            chips=self._nodes.chips(),
            config_maps=self._whole_of(CONFIG_MAP).read(),
            objects={kind: table.read() for kind, table in self._whole.items()},
            hyper_nodes=self._hyper_nodes.tree(nodes.facts),
            usage=self._usage.columns(nodes.facts),
            selections=self._selections.read(),
            replicas=self._selections.replicas(),
            originals=self._originals.read(),
            tasks_without_job=[*without_job, *jobs.orphans] if jobs.orphans else without_job,
            without_queue=self._without_queue.read(),
            other_queues=() if self._shard is None else all_queues.keys() - queues.keys(),
            preparing=self._in_flight.preparing(),
            signed_since=self._signed_since,
            all_nodes=self._nodes.has_all,
            memory=self.memory,
            version=self.version,
        )

    # --- assumed decisions ---
    def assume(self, decisions: Decisions) -> None:
        """Assumes that the decisions of a session are carried out: bound tasks occupy their nodes, evicted tasks are
        terminating, statuses are written. Decisions for objects that were deleted or have changed since the snapshot
        are ignored."""
        for bind in decisions.binds:
            self._pods.assume_binding(bind)
        for eviction in decisions.evictions:
            self._pods.assume_eviction(eviction)
        for group in decisions.pod_groups:
            self._jobs.assume(group)
        for update in decisions.pods:
            for each in update.tasks:
                task = self._tasks.current(each)
                if task is not None:
                    self._tasks.set_message(task, update.message, update.nominated)
        for queue in decisions.queues:
            self._queues.assume(queue)

    def bind_failed(self, bind: Bind) -> None:
        """Reverts an assumed binding that failed: the task is pending again and frees its resources."""
        self._pods.bind_failed(bind)

    def evict_failed(self, eviction: Evict) -> None:
        """Reverts an assumed eviction that failed: the task stays on its node."""
        self._pods.evict_failed(eviction)

    def is_binding(self, bind: Bind) -> bool:
        """Whether a binding is assumed and neither confirmed nor failed yet."""
        return self._pods.is_binding(bind)

    def assumed_decisions(self) -> Decisions:
        """The present assumptions, confirmed by the watch or not, as decisions that would lead to them."""
        tasks = self._tasks.values()
        return Decisions(
            binds=[_bind_of(task) for task in tasks if task.status is TaskStatus.BINDING],
            evictions=[Evict(t, "") for t in tasks if self._in_flight.is_evicting(t.uid)],
            pod_groups=self._jobs.statuses(),
            pods=[PodsUnschedulable((t,), "", t.message, t.nominated) for t in tasks if t.message or t.nominated],
            queues=self._queues.allocations(),
        )

    # --- lookups for the writer ---
    def _whole_of(self, kind: Kind[T]) -> ObjectTable[T]:
        return self._whole[kind]

    def stores(self, kind: Kind) -> bool:
        """Whether ``find`` returns the objects of a kind."""
        return kind in self._whole

    def find(self, kind: Kind[T], namespace: str, name: str) -> T | None:
        """Returns an object of a kind that is kept whole, or None."""
        return self._whole_of(kind).get(kind.key(namespace, name))

    def confirm(self, kind: Kind, obj: KubeObject) -> None:
        """Stores the version of an object that the API server returned, until the watch delivers it or a newer one."""
        if kind in self._whole and self._whole[kind].confirm(obj):
            self._version.increment()

    def terminates_on(self, node: str) -> bool:
        """Whether a Pod on the node is terminating, according to the watch or to an assumed eviction."""
        return self._nodes.terminates_on(node)

    def task(self, key: str) -> Task | None:
        """The task of a Pod, by ``namespace/name``."""
        return self._tasks.by_key(key)

    def find_task(self, namespace: str, name: str) -> Task | None:
        """The task of a Pod."""
        return self._tasks.get(namespace, name)

    def tasks(self) -> list[Task]:
        """All tasks."""
        return self._tasks.values()

    def group_uid(self, key: str) -> str:
        """The uid of a PodGroup, by ``namespace/name``, or ""."""
        return self._jobs.uid(key)


def _bind_of(task: Task) -> Bind:
    """The binding that leads to an assumed task."""
    others = {
        HCCL_RANK_INDEX: task.rank,
        PREDICATE_TIME: task.predicate_time,
        SUPER_POD_RANK: task.super_pod_rank,
    }
    annotations = task.annotations | {key: value for key, value in others.items() if value}
    return Bind(task, task.node, annotations, record=task.record)
