"""The cluster as the scheduler knows it: watch events in, snapshots out, decisions assumed until events confirm them.

All methods belong to one thread (the one that receives events). A snapshot may be read by another: what it holds is
either immutable, copied, or given up by the cache (Job views that a session changes are built anew).

An object with a field that cannot be used is set aside: the last good version stays in force if there was one, a
Malformed tells of it, and everything else goes on.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from scheduler.api.binding_record import BindingRecord
from scheduler.api.decisions import Bind, Decisions, Evict
from scheduler.api.kinds import POD, RESOURCE_CLAIM, Kind
from scheduler.api.names import DEFAULT_QUEUE
from scheduler.api.objects import KubeObject, Node, PriorityClass
from scheduler.api.reasons import Malformed
from scheduler.api.resource import Dimensions
from scheduler.api.scheduling import HyperNode
from scheduler.api.signing import SigningKey
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import Task
from scheduler.api.usage import NodeUsage
from scheduler.cache.admissions import Admitted
from scheduler.cache.assumptions import Assumptions
from scheduler.cache.classes import ClassTable
from scheduler.cache.device_claims import DeviceClaims
from scheduler.cache.hypernodes import HyperNodeTable
from scheduler.cache.job_table import JobTable
from scheduler.cache.metadata import key_of
from scheduler.cache.node_table import NodeTable
from scheduler.cache.object_stores import ObjectStores
from scheduler.cache.originals import Originals
from scheduler.cache.outstanding import Outstanding
from scheduler.cache.pod_intake import PodIntake
from scheduler.cache.priority_classes import PriorityClasses
from scheduler.cache.queue_table import QueueTable
from scheduler.cache.selection_table import SELECTING, SelectionTable
from scheduler.cache.set_aside import SetAside
from scheduler.cache.task_table import TaskTable
from scheduler.cache.usage_table import UsageTable
from scheduler.cache.version import Version
from scheduler.framework.cache_requirements import cache_requirements_of
from scheduler.framework.configuration import Configuration


class ClusterCache:
    """The live model. See the module docstring for its threading rule."""

    def __init__(
        self,
        scheduler_names: Collection[str],
        *,
        default_queue: str = DEFAULT_QUEUE,
        node_selector: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._version = Version()
        self._signed_since = math.inf
        self._dimensions = Dimensions()
        self._aside = SetAside()
        self._stores = ObjectStores()
        self._originals = Originals()
        self._usage = UsageTable()
        self._hyper_nodes = HyperNodeTable()
        self._priorities = PriorityClasses()
        self._queues = QueueTable(self._dimensions, self._version, self._aside)
        self._nodes = NodeTable(self._dimensions, node_selector)
        self._jobs = JobTable(self._dimensions, self._version, self._aside, self._priorities.value, default_queue)
        self._selections = SelectionTable()
        self._classes = ClassTable(self._dimensions, self._selections)
        claims, self._outstanding = DeviceClaims(self._stores.resource_claims), Outstanding()
        self._tasks = TaskTable(self._version, self._nodes, self._jobs, claims, self._outstanding)
        self._pods = PodIntake(
            scheduler_names, self._tasks, self._classes, self._selections, claims, self._outstanding, self._aside
        )
        self._assumptions = Assumptions(self._tasks, self._pods, self._jobs, self._queues, self._outstanding)
        self._handlers: dict[str, Callable[..., None]] = {
            "Pod": self._pods.upsert,
            "Node": self._upsert_node,
            "PodGroup": self._jobs.upsert,
            "Queue": self._queues.upsert,
            "PriorityClass": self._upsert_priority,
            "HyperNode": self._upsert_hyper_node,
            **{kind: partial(self._upsert_selecting, kind) for kind in SELECTING},
        }
        self._keys: dict[str, Callable[[], list[str]]] = {
            "Pod": self._tasks.keys,
            "Node": self._nodes.names,
            "PodGroup": self._jobs.keys,
            "Queue": self._queues.names,
            "PriorityClass": self._priorities.names,
            "HyperNode": self._hyper_nodes.names,
            **{kind: partial(self._selections.keys, kind) for kind in SELECTING},
        }

    @property
    def version(self) -> int:
        """Grows whenever something changes that a session could decide differently for."""
        return self._version.number

    # --- events in ---
    def upsert(self, kind: str, obj: KubeObject) -> None:
        """An object was added or changed. Kinds the scheduler does not use are ignored."""
        handler = self._handlers.get(kind)
        if handler is not None:
            self._aside.begin()
            handler(obj)
            self._aside.end(kind, obj.metadata.namespace, obj.metadata.name)
        elif kind in self._stores:
            self._upsert_stored(kind, obj)

    def _upsert_stored(self, kind: str, obj: KubeObject) -> None:
        self._grow(self._stores.upsert(kind, obj))
        if kind == RESOURCE_CLAIM.name:
            self._pods.claim_again(key_of(obj.metadata))

    def _upsert_node(self, node: Node) -> None:
        self._note(*self._nodes.upsert(node))

    def _upsert_priority(self, obj: PriorityClass) -> None:
        if self._priorities.upsert(obj):
            self._jobs.forget_views()

    def _upsert_hyper_node(self, obj: HyperNode) -> None:
        self._note(*self._hyper_nodes.upsert(obj))

    def _note(self, changed: bool, faults: Mapping[str, str]) -> None:
        self._grow(changed)
        for field, problem in faults.items():
            self._aside.add(field, problem)

    def _upsert_selecting(self, kind: str, obj: KubeObject) -> None:
        self._grow(self._selections.upsert(kind, obj))

    def _grow(self, changed: bool) -> None:
        if changed:
            self._version.grow()

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """An object is gone."""
        key = f"{namespace}/{name}" if namespace else name
        self._aside.forget(kind, namespace, name)
        self._originals.delete(kind, key)
        match kind:
            case "Pod":
                self._tasks.drop(f"{namespace}/{name}")
            case "Node":
                self._grow(self._nodes.delete(name))
            case "PodGroup":
                self._jobs.delete(f"{namespace}/{name}")
            case "Queue":
                self._queues.delete(name)
            case "PriorityClass":
                if self._priorities.delete(name):
                    self._jobs.forget_views()
            case "HyperNode":
                self._grow(self._hyper_nodes.delete(name))
            case _ if kind in SELECTING:
                self._grow(self._selections.delete(kind, namespace, name))
            case _ if self._stores.delete(kind, key):
                self._version.grow()
                if kind == RESOURCE_CLAIM.name:
                    self._pods.claim_again(key)

    def replace(self, kind: str, objects: Iterable[KubeObject]) -> None:
        """The complete list of a kind: what is not in it is gone."""
        listed = list(objects)
        present = {(obj.metadata.namespace, obj.metadata.name) for obj in listed}
        self._aside.forget_others(kind, present)
        for key in self._known(kind):
            namespace, _, name = key.rpartition("/")
            if (namespace, name) not in present:
                self.delete(kind, namespace, name)
        for obj in listed:
            self.upsert(kind, obj)

    def _known(self, kind: str) -> list[str]:
        """``namespace/name`` or name of the objects of a kind that are there."""
        keys = self._keys.get(kind)
        return keys() if keys is not None else self._stores.keys(kind)

    def take_malformed(self) -> list[Malformed]:
        """What was set aside since the last call."""
        return self._aside.take()

    # --- objects as they were written ---
    def wants_original(self, kind: str) -> bool:
        """Whether plugins show objects of the kind to others. What was fed before that has to be fed again."""
        return self._originals.wants(kind)

    def keep_original(self, kind: str, namespace: str, name: str, original: object) -> None:
        """Keep an object that was just upserted: JSON, or a dictionary that is never changed."""
        key = f"{namespace}/{name}" if namespace else name
        if kind != POD.name or key in self._tasks:
            self._originals.keep(kind, key, original)

    # --- how busy nodes are ---
    def node_names(self) -> list[str]:
        return self._nodes.names()

    def take_usage(self, usages: Mapping[str, NodeUsage]) -> None:
        """What was heard of the load of nodes, by name; those not spoken of keep what they have."""
        if usages:
            self._usage.update(usages)
            self._version.grow()

    # --- what plugins want ---
    def configure(self, configuration: Configuration) -> None:
        """Take things in as the plugins of a configuration want it from now on. Not while a session reads."""
        cache_requirements = cache_requirements_of(configuration, self._stores.config_maps.read())
        if cache_requirements.uncounted != self._dimensions.uncounted:
            self._dimensions.uncounted = cache_requirements.uncounted
            self._classes.count_again()
            self._nodes.count_again()
            self._queues.count_again()
            self._jobs.count_again()
        self._pods.split_by(cache_requirements.pod_labels)
        self._originals.want(cache_requirements.originals)

    # --- what the scheduler signs ---
    def trust(self, key: SigningKey) -> None:
        """Believe what was signed with a key; to be called before Pods are fed, and again with the same key once it is
        known since when it is in use."""
        self._pods.key = key
        self.expect_records(key.created)

    def expect_records(self, since: float) -> None:
        """Every binding since a moment (Unix time) is recorded."""
        self._signed_since = since
        self._version.grow()

    def remember(
        self, key: str, uid: str, record: BindingRecord | None, earlier: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """Know of a Pod what cannot be seen of it now: see ``Task.record`` and ``Task.earlier``."""
        self._pods.remember(key, uid, record, earlier)

    # --- admissions ---
    def guard(self, key: SigningKey, now: float) -> None:
        """From now on, only those PodGroups are admitted that were signed with the key, and those that sessions admit.
        To be called by the scheduler that begins to lead, with all PodGroups fed; without it every phase counts."""
        self.guard_admissions(self._jobs.known_admissions(key, now))

    def guard_admissions(self, admitted: Sequence[Admitted]) -> None:
        """The same, of those that are known to be admitted."""
        self._jobs.guard(admitted)

    def admissions(self) -> list[Admitted] | None:
        """The PodGroups that are known to be admitted; None: every phase counts."""
        return self._jobs.admissions()

    # --- snapshots out ---
    def tidy(self) -> None:
        """Work off and forget what otherwise grows until the next snapshot. Every snapshot begins with it; a standby,
        which takes none, does it from time to time."""
        self._pods.classify_again()
        self._pods.forget_classes()

    def snapshot(self, now: float) -> Snapshot:
        """The cluster at this moment. ``now``: seconds since the epoch."""
        self.tidy()
        self._classes.widen()
        jobs, orphans = self._jobs.views()
        nodes = self._nodes.table().copy()
        hyper_nodes, misfits = self._hyper_nodes.tree(nodes.facts)
        self._aside.tell(Malformed("HyperNode", "", *misfit) for misfit in misfits)
        return Snapshot(
            now=now,
            dimensions=self._dimensions.copy(),
            nodes=nodes,
            jobs=jobs,
            queues=self._queues.read(),
            placed=self._nodes.placed(),
            sociable=self._classes.sociable(),
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
            originals=self._originals.read(),
            strangers=[*self._tasks.strangers(), *orphans] if orphans else self._tasks.strangers(),
            preparing=self._outstanding.preparing(),
            signed_since=self._signed_since,
            version=self.version,
        )

    # --- decisions assumed ---
    def assume(self, decisions: Decisions) -> None:
        """Take a session's decisions as carried out: bound tasks hold their nodes, evicted ones are on their way out,
        statuses are as written. What has vanished or changed meanwhile is passed over."""
        self._assumptions.assume(decisions)

    def bind_failed(self, bind: Bind) -> None:
        """A binding that was assumed did not come about: the task is pending again and gives its place back."""
        self._assumptions.bind_failed(bind)

    def evict_failed(self, eviction: Evict) -> None:
        """An eviction that was assumed did not come about: the task stays where it is."""
        self._assumptions.evict_failed(eviction)

    def awaits(self, bind: Bind) -> bool:
        """Whether an assumed binding is still to come about."""
        return self._assumptions.awaits(bind)

    def standing(self) -> Decisions:
        """What is assumed at present, seen by the watch or not, as decisions that would bring it about."""
        return self._assumptions.standing()

    # --- what those who carry decisions out look up ---
    def keeps(self, kind: Kind) -> bool:
        """Whether ``find`` knows the objects of a kind whole."""
        return kind.name in self._stores

    def find(self, kind: Kind, namespace: str, name: str) -> KubeObject | None:
        """An object of a kind that is kept."""
        return self._stores.find(kind.name, f"{namespace}/{name}" if namespace else name)

    def confirm(self, kind: Kind, obj: KubeObject) -> None:
        """The server has answered with this version of an object: it holds until the watch comes to it."""
        self._grow(self._stores.confirm(kind.name, obj))

    def terminates_on(self, node: str) -> bool:
        """Whether a Pod on the node is on its way out, assumed or seen."""
        return self._nodes.terminates_on(node)

    def task(self, key: str) -> Task | None:
        """The task of a Pod, by ``namespace/name``."""
        return self._tasks.get(key)

    def tasks(self) -> list[Task]:
        """The tasks of all Pods that matter."""
        return self._tasks.values()

    def group_uid(self, key: str) -> str:
        """The uid of a PodGroup, by ``namespace/name``; "" if there is none."""
        return self._jobs.uid(key)
