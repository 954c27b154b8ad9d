"""The cluster at one moment, as a session reads it, and the memory that sessions of one cluster share.

Each cache has one memory and passes it on in its snapshots. So two schedulers in one process share nothing, and a
replay begins with an empty memory. Trials on copies of a cluster share the memory of the original.

Decisions may depend on the content of the memory, as long as this follows from the sessions since it was empty: it is
cleared when a file of a recording begins.
"""

import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from scheduler.api.decisions import Bind
from scheduler.api.hypernode import HyperNodes
from scheduler.api.job import Job
from scheduler.api.kinds import Kind
from scheduler.api.node import Nodes
from scheduler.api.objects import ConfigMap, KubeObject
from scheduler.api.queue import Queue
from scheduler.api.resource import Dimensions, Vector
from scheduler.api.selectors import Selections
from scheduler.api.task import Task, TaskClass
from scheduler.api.usage import UsageColumns

V = TypeVar("V")


class _Kept(NamedTuple):
    version: tuple[object, ...]
    constants: Hashable
    value: Any


class Memory:
    """Values of former sessions, by key."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Kept] = {}

    def memo(
        self,
        key: Hashable,
        version: tuple[object, ...],
        compute: Callable[[V | None], V],
        constants: Hashable = (),
    ) -> V:
        """Returns the value under a key. It is computed if there is none, or if the version or the constants differ
        from those that it was computed for.

        ``version``: the objects that the value depends on. They are compared by identity, since objects of a snapshot
        are replaced when they change. ``constants``: all else that the value depends on, compared by equality.
        ``compute`` receives the value of the former version, or None if there is none with equal constants. It returns
        a new value, or changes the former one and returns that. If it raises an exception, the former value is kept.
        """
        kept = self._kept.get(key)
        if kept is not None and kept.constants != constants:
            kept = None
        if kept is not None and len(kept.version) == len(version) and all(map(is_, kept.version, version)):
            value: V = kept.value
            return value
        value = compute(None if kept is None else kept.value)
        self._kept[key] = _Kept(version, constants, value)
        return value

    def clear(self) -> None:
        """Drops all values."""
        self._kept.clear()


T = TypeVar("T", bound=KubeObject)


@dataclass(slots=True, eq=False)
class PlacedClass:
    """Where the Pods of one class are, also those placed by other schedulers."""

    cls: TaskClass
    nodes: Mapping[str, int]
    """Node name -> number of Pods on it, with terminating ones, without finished ones."""


class SettledJobs(NamedTuple):
    """Sums over the settled jobs of a queue. They have no pending tasks, and reserve nothing beyond what they hold."""

    number: int
    allocated: Vector
    elastic: Vector
    """The allocated amounts of each job beyond its minResources."""
    online: Vector
    """What is allocated to those that run services (``Job.is_online``)."""


class TaskGroup(msgspec.Struct, frozen=True, eq=False):
    """Tasks on nodes that belong to no queue, have a common owner, and are of one class. Compared by identity: it is
    replaced when one of its tasks changes."""

    namespace: str
    owner: str
    """``Task.owner``."""
    cls: TaskClass
    tasks: tuple[Task, ...]


class NamespaceAmounts(NamedTuple):
    """What the tasks of a namespace hold that belong to no queue: those in an allocated status, as in the status of
    queues."""

    number: int
    allocated: Vector
    online: Vector
    """The part that online tasks hold."""


class TasksWithoutQueue(NamedTuple):
    """The tasks on nodes that belong to no queue: Pods of other schedulers, and Pods whose PodGroup does not exist,
    without those whose binding record names their queue. Snapshots share both mappings until one of the tasks
    changes."""

    groups: Mapping[str, TaskGroup]
    amounts: Mapping[str, NamespaceAmounts]
    """Namespace -> amounts."""


class JobChanges(NamedTuple):
    """The jobs that differ from the previous snapshot."""

    identity: object
    """The identity of the jobs of the snapshot: another one if any job differs."""
    follows: object | None
    """The identity of the jobs that they are compared with in ``keys``; None: all may differ."""
    keys: Collection[str]


class ObjectsByKind(Protocol):
    """Kind -> ``namespace/name``, or name if the kind is cluster-scoped -> object."""

    def __getitem__(self, kind: Kind[T], /) -> Mapping[str, T]: ...


@dataclass(slots=True, eq=False)
class Snapshot:
    """Everything that a session reads. Plain data without I/O."""

    now: float
    """Unix time of the session, in seconds. A session reads no other clock. Plugins and actions read it as
    ``Session.now``, which notes that the decisions depend on it."""
    dimensions: Dimensions
    nodes: Nodes
    jobs: dict[str, Job]
    """Key -> job, with PodGroups that have no tasks. Snapshots share it, so it must not be changed."""
    job_changes: JobChanges
    active_jobs: dict[str, Job]
    """The jobs that are not settled (``Job.is_settled``), or whose queue does not exist."""
    settled_jobs: Mapping[str, SettledJobs]
    """Queue -> sums over the other jobs."""
    touched: dict[Job, Vector]
    """Settled job that a session has changed -> its allocated amounts before. The cache reads it."""
    queues: dict[str, Queue]
    hyper_nodes: HyperNodes
    """The tree of HyperNodes over the rows of ``nodes``; without HyperNodes only the virtual root."""
    objects: ObjectsByKind
    """The objects of the kinds that the cache keeps whole (``Kind.cached``). Until one of them changes, all snapshots
    have the same mapping for a kind."""
    placed: list[PlacedClass] = field(default_factory=list)
    """Classes with Pods on nodes, for affinity, topology spreading and host ports."""
    affinity_classes: Sequence[TaskClass] = ()
    """Classes with affinity or anti-affinity to other Pods, with or without Pods on nodes."""
    chips: Mapping[str, tuple[Task, ...]] = field(default_factory=dict)
    """Node name -> unfinished tasks on it that hold accelerator chips (annotation or binding record) or request
    them."""
    config_maps: Mapping[str, ConfigMap] = field(default_factory=dict)
    """``objects[CONFIG_MAP]``: the ConfigMaps of devices and nodes, and those that plugins require."""
    selections: Mapping[str, Selections] = field(default_factory=dict)
    """Namespace -> selectors of its Services and workloads; namespaces without any are left out."""
    replicas: Mapping[str, int] = field(default_factory=dict)
    """``namespace/name`` -> spec.replicas of ReplicaSets with more than one."""
    preparing: Sequence[Bind] = ()
    """Assumed bindings whose preparations have not finished. Their tasks have the status Binding."""
    signed_since: float = math.inf
    """Unix time since which the scheduler records its bindings of Pods with extended resources (``Task.record``).
    Infinity: it writes no records, so annotations count without one."""
    all_nodes: bool = True
    """Whether ``nodes`` has all nodes of the cluster; False with a node selector."""
    usage: UsageColumns | None = None
    """Measured usage of nodes; None: no source is configured, or it has not answered yet."""
    tasks_without_job: Collection[Task] = ()
    """Unfinished tasks on nodes that are in none of ``jobs``."""
    without_queue: TasksWithoutQueue = field(default_factory=lambda: TasksWithoutQueue({}, {}))
    other_queues: Collection[str] = ()
    """Names of the queues that other schedulers serve."""
    originals: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Kind -> ``namespace/name`` (or name) -> the object as the API server has it, as JSON or a dictionary. Kept for a
    few kinds, and only while a plugin sends them to other programs."""
    memory: Memory = field(default_factory=Memory)
    """What sessions keep for the next ones. Plugins use ``Session.memo``."""
    version: int = 0
    """Version of the cache. Snapshots with equal versions differ only in ``now``."""

    def original(self, kind: str, key: str) -> msgspec.Raw | None:
        """Returns an object as the API server has it, as JSON; None if it is not kept."""
        found = self.originals.get(kind, {}).get(key)
        return found if found is None or isinstance(found, msgspec.Raw) else msgspec.Raw(msgspec.json.encode(found))
