"""The kinds of objects that the program handles, each declared once: its names on the wire, its struct, and whether the
cache of the scheduler keeps its objects. A function that takes a ``Kind[T]`` returns its objects as ``T``."""

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

from scheduler.api import acjob, batch, dra, objects, scheduling, storage
from scheduler.api.names import (
    ACJOB_API_VERSION,
    BATCH_API_VERSION,
    BUS_API_VERSION,
    FLOW_API_VERSION,
    NODEINFO_API_VERSION,
    RESOURCE_API_VERSION,
    SCHEDULING_API_VERSION,
    SHARD_API_VERSION,
    TOPOLOGY_API_VERSION,
)

if TYPE_CHECKING:  # only Python 3.13 and newer have type parameters with a default at run time
    import typing_extensions

    T_co = typing_extensions.TypeVar("T_co", bound=objects.KubeObject, covariant=True, default=objects.KubeObject)
else:
    T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T", bound=objects.KubeObject)


class Cached(Enum):
    """Whether the cache of the scheduler keeps the objects of a kind."""

    NO = 0
    WHOLE = 1
    """The cache keeps the objects as received, and snapshots have them."""
    TABLE = 2
    """A table of ``ClusterCache`` keeps what sessions need of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Kind(Generic[T_co]):
    """A kind of object. Compared by identity, because dictionaries by kind are read for every object. ``Kind`` without
    a parameter is one whose struct does not matter."""

    name: str
    api_version: str
    plural: str
    namespaced: bool
    struct: type[T_co] | None = None
    """The struct that objects are decoded into; None: the program passes objects on undecoded."""
    cached: Cached = Cached.NO
    optional: bool = False
    """An API server may lack the kind."""
    group: str = field(init=False)
    """The API group; "" is the core group."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "group", self.api_version.rpartition("/")[0])

    @property
    def custom(self) -> bool:
        """A CustomResourceDefinition defines the kind: only built-in groups have no dot or end with ``.k8s.io``."""
        return "." in self.group and not self.group.endswith(".k8s.io")

    @property
    def path(self) -> str:
        """The API path of the collection over all namespaces."""
        prefix = "/api/v1" if self.api_version == "v1" else f"/apis/{self.api_version}"
        return f"{prefix}/{self.plural}"

    def key(self, namespace: str, name: str) -> str:
        """The key of an object: ``namespace/name``, or its name if the kind is cluster-scoped."""
        return f"{namespace}/{name}" if self.namespaced else name

    def decoded_as(self, struct: type[T]) -> "Kind[T]":
        """The kind, decoded into another struct. Its name and paths are the same, but it is another key."""
        return Kind(self.name, self.api_version, self.plural, self.namespaced, struct)

    def path_in(self, namespace: str) -> str:
        """The API path of the collection in a namespace; over all namespaces if ``namespace`` is empty."""
        if not namespace:
            return self.path
        prefix, _, plural = self.path.rpartition("/")
        return f"{prefix}/namespaces/{namespace}/{plural}"

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


def object_path(kind: Kind, namespace: str, name: str) -> str:
    """The API path of one object."""
    return f"{kind.path_in(namespace if kind.namespaced else '')}/{name}"


NODE = Kind("Node", "v1", "nodes", False, objects.Node, cached=Cached.TABLE)
NAMESPACE = Kind("Namespace", "v1", "namespaces", False, objects.Namespace, cached=Cached.WHOLE)
PRIORITY_CLASS = Kind(
    "PriorityClass", "scheduling.k8s.io/v1", "priorityclasses", False, objects.PriorityClass, cached=Cached.TABLE
)
QUEUE = Kind("Queue", SCHEDULING_API_VERSION, "queues", False, scheduling.Queue, cached=Cached.TABLE)
POD_GROUP = Kind("PodGroup", SCHEDULING_API_VERSION, "podgroups", True, scheduling.PodGroup, cached=Cached.TABLE)
CONFIG_MAP = Kind("ConfigMap", "v1", "configmaps", True, objects.ConfigMap, cached=Cached.WHOLE)
CLAIM = Kind(
    "PersistentVolumeClaim", "v1", "persistentvolumeclaims", True, storage.PersistentVolumeClaim, cached=Cached.WHOLE
)
VOLUME = Kind("PersistentVolume", "v1", "persistentvolumes", False, storage.PersistentVolume, cached=Cached.WHOLE)
STORAGE_CLASS = Kind(
    "StorageClass", "storage.k8s.io/v1", "storageclasses", False, storage.StorageClass, cached=Cached.WHOLE
)
CSI_NODE = Kind("CSINode", "storage.k8s.io/v1", "csinodes", False, storage.CsiNode, cached=Cached.WHOLE)
CSI_DRIVER = Kind("CSIDriver", "storage.k8s.io/v1", "csidrivers", False, storage.CsiDriver, cached=Cached.WHOLE)
STORAGE_CAPACITY = Kind(
    "CSIStorageCapacity",
    "storage.k8s.io/v1",
    "csistoragecapacities",
    True,
    storage.CsiStorageCapacity,
    cached=Cached.WHOLE,
)
ATTACHMENT = Kind(
    "VolumeAttachment", "storage.k8s.io/v1", "volumeattachments", False, storage.VolumeAttachment, cached=Cached.WHOLE
)
DEVICE_CLASS = Kind(
    "DeviceClass", RESOURCE_API_VERSION, "deviceclasses", False, dra.DeviceClass, cached=Cached.WHOLE, optional=True
)
RESOURCE_SLICE = Kind(
    "ResourceSlice",
    RESOURCE_API_VERSION,
    "resourceslices",
    False,
    dra.ResourceSlice,
    cached=Cached.WHOLE,
    optional=True,
)
RESOURCE_CLAIM = Kind(
    "ResourceClaim", RESOURCE_API_VERSION, "resourceclaims", True, dra.ResourceClaim, cached=Cached.WHOLE, optional=True
)
RESOURCE_CLAIM_TEMPLATE = Kind(
    "ResourceClaimTemplate", RESOURCE_API_VERSION, "resourceclaimtemplates", True, dra.ResourceClaimTemplate
)
POD = Kind("Pod", "v1", "pods", True, objects.Pod, cached=Cached.TABLE)
SECRET = Kind("Secret", "v1", "secrets", True)
SERVICE = Kind("Service", "v1", "services", True, objects.Service, cached=Cached.TABLE)
RESOURCE_QUOTA = Kind("ResourceQuota", "v1", "resourcequotas", True, objects.ResourceQuota, cached=Cached.WHOLE)
LIMIT_RANGE = Kind("LimitRange", "v1", "limitranges", True)
EVENT = Kind("Event", "v1", "events", True)
DISRUPTION_BUDGET = Kind(
    "PodDisruptionBudget", "policy/v1", "poddisruptionbudgets", True, objects.PodDisruptionBudget, cached=Cached.WHOLE
)
NETWORK_POLICY = Kind("NetworkPolicy", "networking.k8s.io/v1", "networkpolicies", True)
DEPLOYMENT = Kind("Deployment", "apps/v1", "deployments", True, batch.Workload)
REPLICATION_CONTROLLER = Kind(
    "ReplicationController", "v1", "replicationcontrollers", True, objects.Service, cached=Cached.TABLE
)
REPLICA_SET = Kind("ReplicaSet", "apps/v1", "replicasets", True, batch.Workload, cached=Cached.TABLE)
STATEFUL_SET = Kind("StatefulSet", "apps/v1", "statefulsets", True, batch.Workload, cached=Cached.TABLE)
DAEMON_SET = Kind("DaemonSet", "apps/v1", "daemonsets", True, batch.Workload)
BATCH_JOB = Kind("Job", "batch/v1", "jobs", True, batch.Workload)
VCJOB = Kind("Job", BATCH_API_VERSION, "jobs", True, batch.Job)
CRON_JOB = Kind("CronJob", BATCH_API_VERSION, "cronjobs", True, batch.CronJob)
BATCH_CRON_JOB = Kind("CronJob", "batch/v1", "cronjobs", True)
COMMAND = Kind("Command", BUS_API_VERSION, "commands", True, batch.Command)
JOB_FLOW = Kind("JobFlow", FLOW_API_VERSION, "jobflows", True, batch.JobFlow)
JOB_TEMPLATE = Kind("JobTemplate", FLOW_API_VERSION, "jobtemplates", True, batch.JobTemplate)
ACJOB = Kind("AscendJob", ACJOB_API_VERSION, "ascendjobs", True, acjob.AscendJob, optional=True)
HYPER_NODE = Kind(
    "HyperNode", TOPOLOGY_API_VERSION, "hypernodes", False, scheduling.HyperNode, cached=Cached.TABLE, optional=True
)
NUMATOPOLOGY = Kind(
    "Numatopology",
    NODEINFO_API_VERSION,
    "numatopologies",
    False,
    scheduling.Numatopology,
    cached=Cached.WHOLE,
    optional=True,
)
NODE_SHARD = Kind("NodeShard", SHARD_API_VERSION, "nodeshards", False, scheduling.NodeShard)

KINDS: tuple[Kind, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Kind))
"""All kinds above, in the order in which a simulation creates objects."""

SCHEDULER_KINDS: tuple[Kind, ...] = (*(kind for kind in KINDS if kind.cached is not Cached.NO and kind is not POD), POD)
"""The kinds that the cache of the scheduler keeps. Pods come last, because they refer to the others."""

ORIGINAL_KINDS: tuple[Kind, ...] = (NODE, QUEUE, POD_GROUP, POD)
"""The kinds whose original objects plugins may send to other programs."""

SUBMITTED_KINDS: tuple[Kind, ...] = (
    VCJOB, ACJOB, JOB_FLOW, CRON_JOB, POD_GROUP, POD, DEPLOYMENT, REPLICA_SET, STATEFUL_SET, BATCH_JOB, BATCH_CRON_JOB,
)  # fmt: skip
"""The kinds of which it can be asked whether an object would run if it were submitted now."""

BESIDE_KINDS: tuple[Kind, ...] = (CLAIM, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, JOB_TEMPLATE)
"""The kinds of objects that users of a namespace submit with these, because jobs refer to them."""

_BY_GROUP_AND_NAME = {(kind.group, kind.name): kind for kind in KINDS}


def find_kind(api_version: str, name: str) -> Kind | None:
    """Returns the kind of an object, for any version of its group, or None."""
    return _BY_GROUP_AND_NAME.get((api_version.rpartition("/")[0], name))


def api_version_of(name: str) -> str:
    """The API version of the kind with this name; of several, the built-in one. "v1" if there is none."""
    return next((kind.api_version for kind in KINDS if kind.name == name), "v1")
