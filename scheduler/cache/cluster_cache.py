"""The scheduler's model of the cluster: watch events in, snapshots out, decisions assumed until events confirm them.

All methods must be called from one thread (the one that receives events). Another thread may read a snapshot: its
contents are immutable, copied, or no longer used by the cache (a Job view that a session changed is built again).

A malformed field is reported as a ``Malformed`` and affects nothing else. If the object cannot be used without it, the
cache keeps the last good version of the object, if there was one.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from scheduler.api.decisions import Bind, Decisions, Evict
from scheduler.api.json_texts import annotation_problems
from scheduler.api.kinds import NODE, ORIGINAL_KINDS, POD, RESOURCE_CLAIM, Kind
from scheduler.api.names import DEFAULT_QUEUE
from scheduler.api.objects import ConfigMap, KubeObject, Node, PriorityClass
from scheduler.api.reasons import Malformed
from scheduler.api.resource import Dimensions
from scheduler.api.scheduling import HyperNode, NodeShard
from scheduler.api.signed_records import BindingRecord, SigningKey
from scheduler.api.snapshot import PluginMemory, Snapshot
from scheduler.api.task import Task
from scheduler.api.usage import NodeUsage
from scheduler.cache.admissions import Admitted
from scheduler.cache.assumptions import Assumptions
from scheduler.cache.hypernode_table import HyperNodeTable
from scheduler.cache.job_table import JobTable
from scheduler.cache.malformed_fields import MalformedFields
from scheduler.cache.node_table import NodeTable
from scheduler.cache.object_stores import ObjectStores, OriginalObjects, UsageTable, key_of
from scheduler.cache.queue_table import PriorityClasses, QueueTable
from scheduler.cache.selection_table import SELECTING, SelectionTable
from scheduler.cache.shard_filter import ShardFilter
from scheduler.cache.shard_table import ShardClaims
from scheduler.cache.task_classes import ClassTable, DeviceClaims
from scheduler.cache.task_table import InFlightWrites, TaskTable
from scheduler.cache.task_updater import TaskUpdater
from scheduler.cache.versioning import Version
from scheduler.framework.cache_requirements import cache_requirements_of
from scheduler.framework.configuration import Configuration


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
        self.memory = PluginMemory()
        """What plugins keep from one session to the next."""
        self._version = Version()
        self._signed_since = math.inf
        self._dimensions = Dimensions()
        self._malformed = MalformedFields()
        self._stores = ObjectStores()
        self._originals = OriginalObjects()
        self._usage = UsageTable()
        self._hyper_nodes = HyperNodeTable()
        self._priorities = PriorityClasses()
        self._queues = QueueTable(self._dimensions, self._version, self._malformed)
        self._nodes = NodeTable(self._dimensions, node_selector)
        self._jobs = JobTable(self._dimensions, self._version, self._malformed, self._priorities.value, default_queue)
        self._shard: ShardFilter | None = None
        if shard:
            self._shard = ShardFilter(shard, self._nodes, self._queues, self._jobs, self._malformed, self._version)
        self._configured_with: tuple[Configuration | None, dict[str, ConfigMap] | None] = None, None
        """The configuration and the ConfigMaps whose requirements are applied."""
        claims, self._in_flight = DeviceClaims(self._stores.resource_claims), InFlightWrites()
        self._tasks = TaskTable(self._version, self._nodes, self._jobs, claims, self._in_flight)
        self._selections = SelectionTable(self._tasks.may_have)
        self._classes = ClassTable(self._dimensions, self._selections)
        self._pods = TaskUpdater(
            scheduler_names,
            self._tasks,
            self._jobs,
            self._classes,
            self._selections,
            claims,
            self._in_flight,
            self._malformed,
            self._version,
        )
        self._assumptions = Assumptions(self._tasks, self._pods, self._jobs, self._queues, self._in_flight)
        self._handlers: dict[str, Callable[..., None]] = {
            "Pod": self._pods.upsert,
            "Node": self._upsert_node,
            "PodGroup": self._jobs.upsert,
            "Queue": self._queues.upsert,
            "PriorityClass": self._upsert_priority,
            "HyperNode": self._upsert_hyper_node,
            "NodeShard": self._upsert_shard,
            **{kind: partial(self._upsert_selecting, kind) for kind in SELECTING},
        }
        self._keys: dict[str, Callable[[], list[str]]] = {
            "Pod": self._tasks.keys,
            "Node": self._nodes.all_names,
            "PodGroup": self._jobs.keys,
            "Queue": self._queues.names,
            "PriorityClass": self._priorities.names,
            "HyperNode": self._hyper_nodes.names,
            "NodeShard": lambda: [] if self._shard is None else self._shard.shards.names(),
            **{kind: partial(self._selections.keys, kind) for kind in SELECTING},
        }

    @property
    def version(self) -> int:
        """Grows with every change after which a session could decide differently."""
        return self._version.number

    @property
    def changes(self) -> Version:
        """The version, with the counts of the changes for which a session should start early."""
        return self._version

    # --- events in ---
    def upsert(self, kind: str, obj: KubeObject) -> None:
        """Stores an object that was added or changed. Kinds that the scheduler does not use are ignored."""
        handler = self._handlers.get(kind)
        if handler is not None:
            self._malformed.begin()
            handler(obj)
            self._malformed.end(kind, obj.metadata.namespace, obj.metadata.name)
        elif kind in self._stores:
            self._upsert_stored(kind, obj)

    def _upsert_stored(self, kind: str, obj: KubeObject) -> None:
        self._increment_if(self._stores.upsert(kind, obj))
        if kind == RESOURCE_CLAIM.name:
            self._pods.claim_changed(key_of(obj.metadata))

    def _upsert_node(self, node: Node) -> None:
        self._record_result(*self._nodes.upsert(node))
        for key, problem in annotation_problems(node.metadata.annotations or {}):
            self._malformed.add(f"metadata.annotations[{key}]", problem)

    def _upsert_priority(self, obj: PriorityClass) -> None:
        if self._priorities.upsert(obj):
            self._jobs.update_priorities()
            self._version.opened()

    def _upsert_hyper_node(self, obj: HyperNode) -> None:
        self._record_result(*self._hyper_nodes.upsert(obj))

    def _upsert_shard(self, obj: NodeShard) -> None:
        if self._shard is not None and self._shard.shards.upsert(obj):
            self._version.increment()
            self._version.arrived()

    def _record_result(self, changed: bool, faults: Mapping[str, str]) -> None:
        self._increment_if(changed)
        for field, problem in faults.items():
            self._malformed.add(field, problem)

    def _upsert_selecting(self, kind: str, obj: KubeObject) -> None:
        self._increment_if(self._selections.upsert(kind, obj))

    def _increment_if(self, changed: bool) -> None:
        if changed:
            self._version.increment()
            self._version.opened()

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Removes a deleted object."""
        key = f"{namespace}/{name}" if namespace else name
        self._malformed.forget(kind, namespace, name)
        self._originals.delete(kind, key)
        match kind:
            case "Pod":
                self._pods.remove(namespace, name)
            case "Node":
                self._increment_if(self._nodes.delete(name))
            case "PodGroup":
                self._jobs.delete(f"{namespace}/{name}")
            case "Queue":
                self._queues.delete(name)
            case "PriorityClass":
                if self._priorities.delete(name):
                    self._jobs.update_priorities()
                    self._version.opened()
            case "HyperNode":
                self._increment_if(self._hyper_nodes.delete(name))
            case "NodeShard":
                self._increment_if(self._shard is not None and self._shard.shards.delete(name))
            case _ if kind in SELECTING:
                self._increment_if(self._selections.delete(kind, namespace, name))
            case _ if self._stores.delete(kind, key):
                self._increment_if(True)
                if kind == RESOURCE_CLAIM.name:
                    self._pods.claim_changed(key)

    def replace(self, kind: str, objects: Iterable[KubeObject]) -> None:
        """Replaces all objects of a kind: those that are not in the list were deleted."""
        listed = list(objects)
        present = {(obj.metadata.namespace, obj.metadata.name) for obj in listed}
        self._malformed.forget_others(kind, present)
        for key in self._keys_of(kind):
            namespace, _, name = key.rpartition("/")
            if (namespace, name) not in present:
                self.delete(kind, namespace, name)
        for obj in listed:
            self.upsert(kind, obj)

    def _keys_of(self, kind: str) -> list[str]:
        """``namespace/name`` or name of all objects of a kind."""
        keys = self._keys.get(kind)
        return keys() if keys is not None else self._stores.keys(kind)

    def take_malformed(self) -> list[Malformed]:
        """Returns the malformed fields found since the last call."""
        return self._malformed.take()

    # --- original objects ---
    def wants_original(self, kind: str) -> bool:
        """Whether a plugin sends objects of the kind to other programs. Objects stored before that is the case have no
        original until they are stored again."""
        return kind in self._originals

    def keep_original(self, kind: str, namespace: str, name: str, original: object) -> None:
        """Stores the original of the object that was just upserted: JSON, or a dictionary that never changes."""
        if kind != POD.name or self._tasks.get(namespace, name) is not None:
            self._originals.keep(kind, f"{namespace}/{name}" if namespace else name, original)

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
        config_maps = self._stores.config_maps.read()
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
                self.upsert(NODE.name, node)

    def writes_queue(self, name: str) -> bool:
        """Whether this scheduler writes the status of a queue."""
        return self._shard is None or self._shard.owns_queue(name)

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
        queues = self._queues.read() if self._shard is None else self._shard.queues(self._queues.read())
        jobs, without_job = self._jobs.views(queues.keys()), self._tasks.without_job()
        nodes = self._nodes.table().copy()
        hyper_nodes, problems = self._hyper_nodes.tree(nodes.facts)
        self._malformed.report(Malformed("HyperNode", "", *problem) for problem in problems)
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
            config_maps=self._stores.config_maps.read(),
            namespaces=self._stores.namespaces.read(),
            claims=self._stores.claims.read(),
            volumes=self._stores.volumes.read(),
            storage_classes=self._stores.storage_classes.read(),
            csi_nodes=self._stores.csi_nodes.read(),
            csi_drivers=self._stores.csi_drivers.read(),
            storage_capacities=self._stores.storage_capacities.read(),
            attachments=self._stores.attachments.read(),
            device_classes=self._stores.device_classes.read(),
            resource_slices=self._stores.resource_slices.read(),
            resource_claims=self._stores.resource_claims.read(),
            quotas=self._stores.quotas.read(),
            budgets=self._stores.budgets.read(),
            numa=self._stores.numa.read(),
            hyper_nodes=hyper_nodes,
            usage=self._usage.columns(nodes.facts),
            selections=self._selections.read(),
            replicas=self._selections.replicas(),
            originals=self._originals.read(),
            tasks_without_job=[*without_job, *jobs.orphans] if jobs.orphans else without_job,
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
        self._assumptions.assume(decisions)

    def bind_failed(self, bind: Bind) -> None:
        """Reverts an assumed binding that failed: the task is pending again and frees its resources."""
        self._assumptions.bind_failed(bind)

    def evict_failed(self, eviction: Evict) -> None:
        """Reverts an assumed eviction that failed: the task stays on its node."""
        self._assumptions.evict_failed(eviction)

    def is_binding(self, bind: Bind) -> bool:
        """Whether a binding is assumed and neither confirmed nor failed yet."""
        return self._assumptions.is_binding(bind)

    def assumed_decisions(self) -> Decisions:
        """The present assumptions, confirmed by the watch or not, as decisions that would lead to them."""
        return self._assumptions.assumed_decisions()

    # --- lookups for the writer ---
    def stores(self, kind: Kind) -> bool:
        """Whether ``find`` returns the objects of a kind."""
        return kind.name in self._stores

    def find(self, kind: Kind, namespace: str, name: str) -> KubeObject | None:
        """Returns an object of a stored kind, or None."""
        return self._stores.find(kind.name, f"{namespace}/{name}" if namespace else name)

    def confirm(self, kind: Kind, obj: KubeObject) -> None:
        """Stores the version of an object that the API server returned, until the watch delivers it or a newer one."""
        if self._stores.confirm(kind.name, obj):
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
