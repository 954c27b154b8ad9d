"""The cluster at one moment, as a session reads it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.api.job import Job
from scheduler.api.node import Nodes
from scheduler.api.objects import (
    ConfigMap,
    Namespace,
    Numatopology,
    PersistentVolume,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    ResourceQuota,
    StorageClass,
)
from scheduler.api.queue import Queue
from scheduler.api.resource import Dimensions
from scheduler.api.task import Task, TaskClass


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
    quotas: Mapping[str, ResourceQuota] = field(default_factory=dict)
    budgets: Mapping[str, PodDisruptionBudget] = field(default_factory=dict)
    numa: Mapping[str, Numatopology] = field(default_factory=dict)
    """Node name -> its NUMA nodes."""
    version: int = 0
    """The cache's version: two snapshots of one version are equal but for ``now``."""
