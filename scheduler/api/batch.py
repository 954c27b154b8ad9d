"""The objects of ``batch.volcano.sh``, ``bus.volcano.sh`` and ``flow.volcano.sh``, as typed structs.

Templates of Pods, claims and Jobs are plain JSON, which the controllers copy into the objects they create. Phases,
actions and events have the names of Volcano's API.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from scheduler.api.objects import KubeObject, LabelSelector, OwnerReference, Wire
from scheduler.api.scheduling import NetworkTopology


class JobPhase(StrEnum):
    """The phases of a vcjob."""

    PENDING = "Pending"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    ABORTING = "Aborting"
    ABORTED = "Aborted"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    FAILED = "Failed"


FINISHED_PHASES = frozenset({JobPhase.COMPLETED, JobPhase.FAILED, JobPhase.TERMINATED})
"""Phases that a job does not leave."""
OVER_PHASES: Final = FINISHED_PHASES | {JobPhase.ABORTED}
"""Phases that a job leaves only on request."""
ENDING_PHASES: Final[Mapping[JobPhase, JobPhase]] = {
    JobPhase.ABORTING: JobPhase.ABORTED,
    JobPhase.COMPLETING: JobPhase.COMPLETED,
    JobPhase.TERMINATING: JobPhase.TERMINATED,
}
"""Phases that last until no Pod is alive, and the phase that follows each."""
IDLE_PHASES: Final = OVER_PHASES | ENDING_PHASES.keys()
"""Phases in which no Pod is to be alive and no PodGroup is to exist."""


class Action(StrEnum):
    """Actions of policies and Commands."""

    ABORT_JOB = "AbortJob"
    RESTART_JOB = "RestartJob"
    RESTART_TASK = "RestartTask"
    RESTART_POD = "RestartPod"
    RESTART_PARTITION = "RestartPartition"
    TERMINATE_JOB = "TerminateJob"
    COMPLETE_JOB = "CompleteJob"
    RESUME_JOB = "ResumeJob"
    SYNC_JOB = "SyncJob"
    ENQUEUE_JOB = "EnqueueJob"
    SYNC_QUEUE = "SyncQueue"
    OPEN_QUEUE = "OpenQueue"
    CLOSE_QUEUE = "CloseQueue"
    IGNORE = "Ignore"
    """Nothing is done: an action of policies in MindCluster's build of Volcano."""


PARTIAL_RESTARTS: Final = frozenset({Action.RESTART_TASK, Action.RESTART_POD, Action.RESTART_PARTITION})
"""Actions that concern some of the Pods of a vcjob."""
JOB_ACTIONS: Final = PARTIAL_RESTARTS | {
    Action.RESTART_JOB,
    Action.ABORT_JOB,
    Action.TERMINATE_JOB,
    Action.COMPLETE_JOB,
    Action.RESUME_JOB,
    Action.SYNC_JOB,
}
"""Actions that a vcjob supports."""


class JobEvent(StrEnum):
    """Events of vcjobs that policies name."""

    ANY = "*"
    POD_FAILED = "PodFailed"
    POD_EVICTED = "PodEvicted"
    POD_PENDING = "PodPending"
    POD_RUNNING = "PodRunning"
    UNKNOWN = "Unknown"
    TASK_COMPLETED = "TaskCompleted"
    TASK_FAILED = "TaskFailed"
    OUT_OF_SYNC = "OutOfSync"
    COMMAND_ISSUED = "CommandIssued"
    JOB_UPDATED = "JobUpdated"


# --- Job ---
class LifecyclePolicy(Wire):
    action: str = ""
    event: str = ""
    events: list[str] | None = None
    exit_code: int | None = None
    timeout: str | None = None
    """A Go duration."""


class DependsOn(Wire):
    name: list[str] | None = None
    iteration: str = ""


class PartitionPolicy(Wire):
    total_partitions: int = 0
    partition_size: int = 0
    min_partitions: int = 0
    network_topology: NetworkTopology | None = None


class TaskSpec(Wire):
    """A task of a vcjob: a number of Pods of one template."""

    name: str = ""
    replicas: int = 0
    min_available: int | None = None
    template: dict[str, Any] = msgspec.field(default_factory=dict)
    policies: list[LifecyclePolicy] | None = None
    topology_policy: str = ""
    max_retry: int = 0
    depends_on: DependsOn | None = None
    partition_policy: PartitionPolicy | None = None


class JobVolume(Wire):
    mount_path: str = ""
    volume_claim_name: str = ""
    volume_claim: dict[str, Any] | None = None
    """The spec of a claim to create."""


class JobSpec(Wire):
    scheduler_name: str = ""
    min_available: int = 0
    volumes: list[JobVolume] | None = None
    tasks: list[TaskSpec] = msgspec.field(default_factory=list)
    policies: list[LifecyclePolicy] | None = None
    plugins: dict[str, list[str] | None] | None = None
    running_estimate: str | None = None
    queue: str = ""
    max_retry: int = 3
    """The default, as in the CRD."""
    ttl_seconds_after_finished: int | None = None
    priority_class_name: str = ""
    min_success: int | None = None
    network_topology: NetworkTopology | None = None


class JobState(Wire):
    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class JobCondition(Wire):
    status: str = ""
    """The phase entered."""
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""
    """What the job waits for in this phase."""


class TaskState(Wire):
    phase: dict[str, int] | None = None
    """Pods per Pod phase."""


class JobStatus(Wire):
    state: JobState = msgspec.field(default_factory=JobState)
    min_available: int = 0
    task_status_count: dict[str, TaskState] | None = None
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    version: int = 0
    retry_count: int = 0
    """Restarts."""
    uncounted_restarts: int = 0
    """Restarts that do not count towards maxRetry: those that users requested, and those after evictions."""
    running_duration: str | None = None
    controlled_resources: dict[str, str] | None = None
    conditions: list[JobCondition] | None = None

    @property
    def retries(self) -> int:
        """Restarts after failures, which count towards maxRetry."""
        return max(0, self.retry_count - self.uncounted_restarts)


class Job(KubeObject):
    """A vcjob."""

    spec: JobSpec = msgspec.field(default_factory=JobSpec)
    status: JobStatus = msgspec.field(default_factory=JobStatus)


# --- CronJob ---
class JobTemplateSpec(Wire):
    metadata: dict[str, Any] | None = None
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class CronJobSpec(Wire):
    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = "Allow"
    suspend: bool = False
    job_template: JobTemplateSpec = msgspec.field(default_factory=JobTemplateSpec)
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None


class ObjectReference(Wire):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class CronJobStatus(Wire):
    active: list[ObjectReference] | None = None
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(KubeObject):
    spec: CronJobSpec = msgspec.field(default_factory=CronJobSpec)
    status: CronJobStatus = msgspec.field(default_factory=CronJobStatus)


# --- Command ---
class Command(KubeObject):
    """A command to a vcjob or a Queue. It has no spec."""

    action: str = ""
    target: OwnerReference | None = None
    reason: str = ""
    message: str = ""


# --- JobFlow, JobTemplate ---
MAX_FLOW_STEPS: Final = 2000
"""Steps of a JobFlow, as in the CustomResourceDefinition. The status of a flow with more jobs would exceed what etcd
stores for an object."""


class FlowDependency(Wire):
    targets: list[str] | None = None
    probe: dict[str, Any] | None = None


class Flow(Wire):
    name: str = ""
    depends_on: FlowDependency | None = None
    patch: dict[str, Any] | None = None


class JobFlowSpec(Wire):
    flows: list[Flow] | None = None
    job_retain_policy: str = "retain"


class JobFlow(KubeObject):
    spec: JobFlowSpec = msgspec.field(default_factory=JobFlowSpec)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


class JobTemplate(KubeObject):
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    """A Job's spec."""
    status: dict[str, Any] = msgspec.field(default_factory=dict)


# --- owners of Pods ---
class WorkloadSpec(Wire):
    replicas: int | None = None
    selector: LabelSelector | None = None


class Workload(KubeObject):
    """A Deployment, ReplicaSet, StatefulSet, DaemonSet or batch/v1 Job: the fields read of owners of Pods."""

    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)
