"""The cluster at one moment, as a session reads it."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from scheduler.api.decisions import Bind
from scheduler.api.dra import DeviceClass, ResourceClaim, ResourceSlice
from scheduler.api.hypernode import HyperNodes
from scheduler.api.job import Job
from scheduler.api.node import Nodes
from scheduler.api.objects import ConfigMap, Namespace, PodDisruptionBudget, ResourceQuota
from scheduler.api.queue import Queue
from scheduler.api.resource import Dimensions
from scheduler.api.scheduling import Numatopology
from scheduler.api.selections import Selections
from scheduler.api.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from scheduler.api.task import Task, TaskClass
from scheduler.api.usage import UsageColumns


@dataclass(slots=True, eq=False)
class PlacedClass:
    """Where the Pods of one class are, whoever placed them."""

    cls: TaskClass
    nodes: Mapping[str, int]
    """Node name -> number of its Pods there (terminating ones included, finished ones not)."""


@dataclass(slots=True, eq=False)
class Snapshot:
    """Everything a session may look at. Plain data: no I/O behind any of it."""

    now: float
    """Seconds since the epoch at which the session runs; there is no other clock inside one."""
    dimensions: Dimensions
    nodes: Nodes
    jobs: dict[str, Job]
    """Key -> job, PodGroups without tasks included."""
    queues: dict[str, Queue]
    hyper_nodes: HyperNodes
    """The tree of HyperNodes over the rows of ``nodes``; where the cluster has none, the virtual top alone."""
    placed: list[PlacedClass] = field(default_factory=list)
    """Classes with Pods on nodes; the pools that affinity, spreading and host ports count in."""
    sociable: Sequence[TaskClass] = ()
    """Classes whose Pods, placed or not, have (anti-)affinity to other Pods."""
    chips: Mapping[str, tuple[Task, ...]] = field(default_factory=dict)
    """Node name -> tasks there (finished ones not) that hold accelerator chips by annotation or ask for them."""
    config_maps: Mapping[str, ConfigMap] = field(default_factory=dict)
    """``namespace/name`` -> the device and node info ConfigMaps."""
    namespaces: Mapping[str, Namespace] = field(default_factory=dict)
    claims: Mapping[str, PersistentVolumeClaim] = field(default_factory=dict)
    volumes: Mapping[str, PersistentVolume] = field(default_factory=dict)
    storage_classes: Mapping[str, StorageClass] = field(default_factory=dict)
    csi_nodes: Mapping[str, CsiNode] = field(default_factory=dict)
    csi_drivers: Mapping[str, CsiDriver] = field(default_factory=dict)
    storage_capacities: Mapping[str, CsiStorageCapacity] = field(default_factory=dict)
    attachments: Mapping[str, VolumeAttachment] = field(default_factory=dict)
    device_classes: Mapping[str, DeviceClass] = field(default_factory=dict)
    resource_slices: Mapping[str, ResourceSlice] = field(default_factory=dict)
    resource_claims: Mapping[str, ResourceClaim] = field(default_factory=dict)
    quotas: Mapping[str, ResourceQuota] = field(default_factory=dict)
    budgets: Mapping[str, PodDisruptionBudget] = field(default_factory=dict)
    numa: Mapping[str, Numatopology] = field(default_factory=dict)
    """Node name -> its NUMA nodes."""
    selections: Mapping[str, Selections] = field(default_factory=dict)
    """Namespace -> whom its Services and workloads select; namespaces without any are left out."""
    preparing: Sequence[Bind] = ()
    """Bindings of sessions before that still wait for other objects; their tasks are Binding."""
    signed_since: float = math.inf
    """Unix time since which the scheduler records its bindings of Pods with extended resources (``Task.record``);
    infinity: it does not, so what annotations say is believed."""
    usage: UsageColumns | None = None
    """How busy the nodes are; None: nobody was asked."""
    strangers: Collection[Task] = ()
    """Tasks on nodes (finished ones not) that are in none of ``jobs``."""
    originals: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Kind -> ``namespace/name`` (or name) -> the object as the API server has it, as JSON or a dictionary; kept of few
    kinds, and only for plugins that show them to others."""
    version: int = 0
    """The cache's version: two snapshots of one version are equal but for ``now``."""

    def original(self, kind: str, key: str) -> msgspec.Raw | None:
        """An object as the API server has it, as JSON; None if it is not kept."""
        found = self.originals.get(kind, {}).get(key)
        return found if found is None or isinstance(found, msgspec.Raw) else msgspec.Raw(msgspec.json.encode(found))
