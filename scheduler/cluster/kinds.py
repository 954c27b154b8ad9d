"""The kinds of objects the program handles: how each is called on the wire and what it is decoded into."""

from dataclasses import dataclass

from scheduler.api import objects
from scheduler.api.names import SCHEDULING_API_VERSION


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object."""

    name: str
    api_version: str
    plural: str
    namespaced: bool
    struct: type[objects.KubeObject] | None = None
    """What the scheduler decodes it into; None: it is only carried through."""

    @property
    def path(self) -> str:
        """The API path of the collection over all namespaces."""
        prefix = "/api/v1" if self.api_version == "v1" else f"/apis/{self.api_version}"
        return f"{prefix}/{self.plural}"


KINDS: tuple[Kind, ...] = (
    Kind("Node", "v1", "nodes", False, objects.Node),
    Kind("Namespace", "v1", "namespaces", False, objects.Namespace),
    Kind("PriorityClass", "scheduling.k8s.io/v1", "priorityclasses", False, objects.PriorityClass),
    Kind("Queue", SCHEDULING_API_VERSION, "queues", False, objects.Queue),
    Kind("PodGroup", SCHEDULING_API_VERSION, "podgroups", True, objects.PodGroup),
    Kind("ConfigMap", "v1", "configmaps", True, objects.ConfigMap),
    Kind("PersistentVolumeClaim", "v1", "persistentvolumeclaims", True, objects.PersistentVolumeClaim),
    Kind("PersistentVolume", "v1", "persistentvolumes", False, objects.PersistentVolume),
    Kind("StorageClass", "storage.k8s.io/v1", "storageclasses", False, objects.StorageClass),
    Kind("Pod", "v1", "pods", True, objects.Pod),
    Kind("Secret", "v1", "secrets", True),
    Kind("Service", "v1", "services", True),
    Kind("ResourceQuota", "v1", "resourcequotas", True),
    Kind("LimitRange", "v1", "limitranges", True),
    Kind("Event", "v1", "events", True),
    Kind("PodDisruptionBudget", "policy/v1", "poddisruptionbudgets", True),
    Kind("Deployment", "apps/v1", "deployments", True),
    Kind("ReplicaSet", "apps/v1", "replicasets", True),
    Kind("StatefulSet", "apps/v1", "statefulsets", True),
    Kind("Job", "batch/v1", "jobs", True),
    Kind("Job", "batch.volcano.sh/v1alpha1", "jobs", True),
    Kind("CronJob", "batch.volcano.sh/v1alpha1", "cronjobs", True),
    Kind("Command", "bus.volcano.sh/v1alpha1", "commands", True),
    Kind("AscendJob", "mindxdl.gitee.com/v1", "ascendjobs", True),
    Kind("HyperNode", "topology.volcano.sh/v1alpha1", "hypernodes", False),
    Kind("Numatopology", "nodeinfo.volcano.sh/v1alpha1", "numatopologies", False),
)
WATCHED: tuple[Kind, ...] = tuple(kind for kind in KINDS if kind.struct is not None)
"""The kinds the cache is fed with, those first that others refer to."""


def find_kind(api_version: str, name: str) -> Kind | None:
    """The kind of an object; the version within the group does not matter."""
    group = api_version.rpartition("/")[0]
    for kind in KINDS:
        if kind.name == name and kind.api_version.rpartition("/")[0] == group:
            return kind
    return None
