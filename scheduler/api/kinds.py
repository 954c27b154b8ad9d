"""The kinds of objects that the program handles: their names on the wire and their structs."""

from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind of object. Compared by identity, because dictionaries by kind are read for every object."""

    name: str
    api_version: str
    plural: str
    namespaced: bool
    struct: type[objects.KubeObject] | None = None
    """The struct that objects are decoded into; None: the program passes objects on undecoded."""
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


NODE = Kind("Node", "v1", "nodes", False, objects.Node)
NAMESPACE = Kind("Namespace", "v1", "namespaces", False, objects.Namespace)
PRIORITY_CLASS = Kind("PriorityClass", "scheduling.k8s.io/v1", "priorityclasses", False, objects.PriorityClass)
QUEUE = Kind("Queue", SCHEDULING_API_VERSION, "queues", False, scheduling.Queue)
POD_GROUP = Kind("PodGroup", SCHEDULING_API_VERSION, "podgroups", True, scheduling.PodGroup)
CONFIG_MAP = Kind("ConfigMap", "v1", "configmaps", True, objects.ConfigMap)
CLAIM = Kind("PersistentVolumeClaim", "v1", "persistentvolumeclaims", True, storage.PersistentVolumeClaim)
VOLUME = Kind("PersistentVolume", "v1", "persistentvolumes", False, storage.PersistentVolume)
STORAGE_CLASS = Kind("StorageClass", "storage.k8s.io/v1", "storageclasses", False, storage.StorageClass)
CSI_NODE = Kind("CSINode", "storage.k8s.io/v1", "csinodes", False, storage.CsiNode)
CSI_DRIVER = Kind("CSIDriver", "storage.k8s.io/v1", "csidrivers", False, storage.CsiDriver)
STORAGE_CAPACITY = Kind(
    "CSIStorageCapacity", "storage.k8s.io/v1", "csistoragecapacities", True, storage.CsiStorageCapacity
)
ATTACHMENT = Kind("VolumeAttachment", "storage.k8s.io/v1", "volumeattachments", False, storage.VolumeAttachment)
DEVICE_CLASS = Kind("DeviceClass", RESOURCE_API_VERSION, "deviceclasses", False, dra.DeviceClass)
RESOURCE_SLICE = Kind("ResourceSlice", RESOURCE_API_VERSION, "resourceslices", False, dra.ResourceSlice)
RESOURCE_CLAIM = Kind("ResourceClaim", RESOURCE_API_VERSION, "resourceclaims", True, dra.ResourceClaim)
RESOURCE_CLAIM_TEMPLATE = Kind(
    "ResourceClaimTemplate", RESOURCE_API_VERSION, "resourceclaimtemplates", True, dra.ResourceClaimTemplate
)
POD = Kind("Pod", "v1", "pods", True, objects.Pod)
RESOURCE_QUOTA = Kind("ResourceQuota", "v1", "resourcequotas", True, objects.ResourceQuota)
DISRUPTION_BUDGET = Kind("PodDisruptionBudget", "policy/v1", "poddisruptionbudgets", True, objects.PodDisruptionBudget)
SECRET = Kind("Secret", "v1", "secrets", True)
SERVICE = Kind("Service", "v1", "services", True, objects.Service)
EVENT = Kind("Event", "v1", "events", True)
NETWORK_POLICY = Kind("NetworkPolicy", "networking.k8s.io/v1", "networkpolicies", True)
DEPLOYMENT = Kind("Deployment", "apps/v1", "deployments", True, batch.Workload)
REPLICATION_CONTROLLER = Kind("ReplicationController", "v1", "replicationcontrollers", True, objects.Service)
REPLICA_SET = Kind("ReplicaSet", "apps/v1", "replicasets", True, batch.Workload)
STATEFUL_SET = Kind("StatefulSet", "apps/v1", "statefulsets", True, batch.Workload)
DAEMON_SET = Kind("DaemonSet", "apps/v1", "daemonsets", True, batch.Workload)
BATCH_JOB = Kind("Job", "batch/v1", "jobs", True, batch.Workload)
VCJOB = Kind("Job", BATCH_API_VERSION, "jobs", True, batch.Job)
CRON_JOB = Kind("CronJob", BATCH_API_VERSION, "cronjobs", True, batch.CronJob)
COMMAND = Kind("Command", BUS_API_VERSION, "commands", True, batch.Command)
JOB_FLOW = Kind("JobFlow", FLOW_API_VERSION, "jobflows", True, batch.JobFlow)
JOB_TEMPLATE = Kind("JobTemplate", FLOW_API_VERSION, "jobtemplates", True, batch.JobTemplate)
ACJOB = Kind("AscendJob", ACJOB_API_VERSION, "ascendjobs", True, acjob.AscendJob)
HYPER_NODE = Kind("HyperNode", TOPOLOGY_API_VERSION, "hypernodes", False, scheduling.HyperNode)
NUMATOPOLOGY = Kind("Numatopology", NODEINFO_API_VERSION, "numatopologies", False, scheduling.Numatopology)
NODE_SHARD = Kind("NodeShard", SHARD_API_VERSION, "nodeshards", False, scheduling.NodeShard)

KINDS: tuple[Kind, ...] = (
    NODE,
    NAMESPACE,
    PRIORITY_CLASS,
    QUEUE,
    POD_GROUP,
    CONFIG_MAP,
    CLAIM,
    VOLUME,
    STORAGE_CLASS,
    CSI_NODE,
    CSI_DRIVER,
    STORAGE_CAPACITY,
    ATTACHMENT,
    DEVICE_CLASS,
    RESOURCE_SLICE,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    POD,
    SECRET,
    SERVICE,
    RESOURCE_QUOTA,
    Kind("LimitRange", "v1", "limitranges", True),
    EVENT,
    DISRUPTION_BUDGET,
    NETWORK_POLICY,
    DEPLOYMENT,
    REPLICATION_CONTROLLER,
    REPLICA_SET,
    STATEFUL_SET,
    DAEMON_SET,
    BATCH_JOB,
    VCJOB,
    CRON_JOB,
    COMMAND,
    JOB_FLOW,
    JOB_TEMPLATE,
    ACJOB,
    HYPER_NODE,
    NUMATOPOLOGY,
    NODE_SHARD,
)

SCHEDULER_KINDS: tuple[Kind, ...] = (
    NODE,
    NAMESPACE,
    PRIORITY_CLASS,
    QUEUE,
    POD_GROUP,
    CONFIG_MAP,
    CLAIM,
    VOLUME,
    STORAGE_CLASS,
    CSI_NODE,
    CSI_DRIVER,
    STORAGE_CAPACITY,
    ATTACHMENT,
    RESOURCE_QUOTA,
    DISRUPTION_BUDGET,
    NUMATOPOLOGY,
    HYPER_NODE,
    DEVICE_CLASS,
    RESOURCE_SLICE,
    RESOURCE_CLAIM,
    SERVICE,
    REPLICATION_CONTROLLER,
    REPLICA_SET,
    STATEFUL_SET,
    POD,
)
"""The kinds that the cache of the scheduler stores. A kind comes after those that it refers to."""

ORIGINAL_KINDS: tuple[Kind, ...] = (NODE, QUEUE, POD_GROUP, POD)
"""The kinds whose original objects plugins may send to other programs."""

OPTIONAL: frozenset[Kind] = frozenset({NUMATOPOLOGY, HYPER_NODE, DEVICE_CLASS, RESOURCE_SLICE, RESOURCE_CLAIM, ACJOB})
"""Kinds that an API server may lack."""

_BY_GROUP_AND_NAME = {(kind.group, kind.name): kind for kind in KINDS}


def find_kind(api_version: str, name: str) -> Kind | None:
    """Returns the kind of an object, for any version of its group, or None."""
    return _BY_GROUP_AND_NAME.get((api_version.rpartition("/")[0], name))
