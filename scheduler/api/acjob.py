"""AscendJobs (``mindxdl.gitee.com/v1``): training jobs of MindSpore, PyTorch and TensorFlow on Ascend chips."""

from typing import Any, Final

import msgspec

from scheduler.api.names import BACKUP_SOURCE_POD, POD_TYPE
from scheduler.api.objects import KubeObject, Pod, ResourceList, Wire

CREATED: Final = "Created"
RUNNING: Final = "Running"
RESTARTING: Final = "Restarting"
SUSPENDED: Final = "Suspended"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
"""Types of conditions."""
BACKUP: Final = "backup"
"""Value of the annotation ``podType``."""


class ReplicaSpec(Wire):
    replicas: int | None = None
    restart_policy: str = ""
    template: dict[str, Any] = msgspec.field(default_factory=dict)


class SchedulingPolicy(Wire):
    min_available: int | None = None
    min_resources: ResourceList | None = None
    priority_class: str = ""
    queue: str = ""


class RunPolicy(Wire):
    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    clean_pod_policy: str = ""
    ttl_seconds_after_finished: int | None = None
    scheduling_policy: SchedulingPolicy | None = None
    suspend: bool = False


class AscendJobSpec(Wire):
    replica_specs: dict[str, ReplicaSpec] | None = None
    run_policy: RunPolicy = msgspec.field(default_factory=RunPolicy)
    scheduler_name: str = ""
    success_policy: str = ""


class AscendJobCondition(Wire):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_update_time: str | None = None
    last_transition_time: str | None = None


class AscendJobStatus(Wire):
    conditions: list[AscendJobCondition] | None = None
    replica_statuses: dict[str, dict[str, Any]] | None = None
    start_time: str | None = None
    completion_time: str | None = None
    restarts: int = 0
    """Restarts before the job was suspended. While it has a PodGroup, that counts them."""
    uncounted_restarts: int = 0
    """The restarts among them that do not count towards the limit."""


class AscendJob(KubeObject):
    spec: AscendJobSpec = msgspec.field(default_factory=AscendJobSpec)
    status: AscendJobStatus = msgspec.field(default_factory=AscendJobStatus)

    def has(self, condition: str) -> bool:
        """Whether a condition of this type is True."""
        return any(c.type == condition and c.status == "True" for c in self.status.conditions or ())

    def since(self, condition: str) -> str | None:
        """When the condition of this type became as it is."""
        return next((c.last_transition_time for c in self.status.conditions or () if c.type == condition), None)

    @property
    def is_finished(self) -> bool:
        return self.has(SUCCEEDED) or self.has(FAILED)


def is_backup(pod: Pod) -> bool:
    """Whether a Pod was created to replace another one that still runs, and has not taken its place yet."""
    annotations = pod.metadata.annotations or {}
    return annotations.get(POD_TYPE) == BACKUP and bool(annotations.get(BACKUP_SOURCE_POD))
