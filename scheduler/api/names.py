"""Every well-known string of the wire: labels, annotations, ConfigMap names, condition types and Event reasons.

A key is written here once; the rest of the program, its documents and its tests refer to these constants. Sources:
Volcano's API packages for ``volcano.sh`` and ``scheduling.k8s.io`` keys, the Ascend device plugin for ``huawei.com``
keys, and the card quota design for ``volcano.sh/card.*``.
"""

from typing import Final

DEFAULT_SCHEDULER_NAME: Final = "volcano-py"
DEFAULT_QUEUE: Final = "default"
ROOT_QUEUE: Final = "root"
DEFAULT_NAMESPACE: Final = "default"

# --- API groups ---
SCHEDULING_API_VERSION: Final = "scheduling.volcano.sh/v1beta1"
BATCH_API_VERSION: Final = "batch.volcano.sh/v1alpha1"
BUS_API_VERSION: Final = "bus.volcano.sh/v1alpha1"
FLOW_API_VERSION: Final = "flow.volcano.sh/v1alpha1"
TOPOLOGY_API_VERSION: Final = "topology.volcano.sh/v1alpha1"
NODEINFO_API_VERSION: Final = "nodeinfo.volcano.sh/v1alpha1"

# --- Pods and PodGroups ---
GROUP_NAME: Final = "scheduling.k8s.io/group-name"
TASK_SPEC: Final = "volcano.sh/task-spec"
TASK_PRIORITY: Final = "volcano.sh/task-priority"
PREEMPTABLE: Final = "volcano.sh/preemptable"
REVOCABLE_ZONE: Final = "volcano.sh/revocable-zone"

COOLDOWN_TIME: Final = "volcano.sh/cooldown-time"
JDB_MIN_AVAILABLE: Final = "volcano.sh/jdb-min-available"
JDB_MAX_UNAVAILABLE: Final = "volcano.sh/jdb-max-unavailable"
NUMA_TOPOLOGY_POLICY: Final = "volcano.sh/numa-topology-policy"
GROUP_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
QUEUE_NAME_ANNOTATION: Final = "scheduling.volcano.sh/queue-name"
NETWORK_TOPOLOGY_MODE: Final = "volcano.sh/network-topology-mode"
NETWORK_TOPOLOGY_HIGHEST_TIER: Final = "volcano.sh/network-topology-highest-tier"
SLA_WAITING_TIME: Final = "volcano.sh/sla-waiting-time"
SLA_WAITING_TIME_PLAIN: Final = "sla-waiting-time"
"""The same, as older clients write it."""
TASK_TOPOLOGY_AFFINITY: Final = "volcano.sh/task-topology-affinity"
TASK_TOPOLOGY_ANTI_AFFINITY: Final = "volcano.sh/task-topology-anti-affinity"
TASK_TOPOLOGY_TASK_ORDER: Final = "volcano.sh/task-topology-task-order"
RESOURCE_STRATEGY_SCORING_TYPE: Final = "volcano.sh/resource-strategy-scoring-type"
RESOURCE_STRATEGY_WEIGHT: Final = "volcano.sh/resource-strategy-weight"
PODGROUP_PREFIX: Final = "podgroup-"
VOLCANO_PREFIX: Final = "volcano.sh/"

# --- vcjobs and their Pods ---
TASK_INDEX: Final = "volcano.sh/task-index"
JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
JOB_VERSION: Final = "volcano.sh/job-version"
JOB_TYPE: Final = "volcano.sh/job-type"
JOB_RETRY_COUNT: Final = "volcano.sh/job-retry-count"
JOB_FORWARDING: Final = "volcano.sh/job-forwarding"
QUEUE_NAME: Final = "volcano.sh/queue-name"
PARTITION_ID: Final = "volcano.sh/partition-id"
TEMPLATE_UID: Final = "volcano.sh/template-uid"
OUT_OF_SYNC: Final = "volcano.sh/controller-out-of-sync"
HCCL_RANK_INDEX: Final = "hccl/rankIndex"
CREATED_BY_JOB_TEMPLATE: Final = "volcano.sh/createdByJobTemplate"
CREATED_BY_JOB_FLOW: Final = "volcano.sh/createdByJobFlow"
CRONJOB_SCHEDULED_TIMESTAMP: Final = "volcano.sh/cronjob-scheduled-timestamp"

RUN_LABEL: Final = "job.volcano.sh"
"""On the Pods of a vcjob that was made on the command line; its value is the job's name."""
DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"

# --- Queues ---
HIERARCHY: Final = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS: Final = "volcano.sh/hierarchy-weights"
NAMESPACE_WEIGHT: Final = "volcano.sh/namespace.weight"
"""In the limits of a ResourceQuota: how much its namespace counts for."""
CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"
RESOURCE_GROUP: Final = "volcano.sh/resource-group"
NODEGROUP_NAME: Final = "volcano.sh/nodegroup-name"
NODEGROUP_RESOURCE_LIMITS: Final = "volcano.sh/nodegroup-resource-limits"

# --- Card quota ---
CARD_QUOTA: Final = "volcano.sh/card.quota"
CARD_REQUEST: Final = "volcano.sh/card.request"
CARD_NAME: Final = "volcano.sh/card.name"

# --- Ascend ---
HUAWEI_PREFIX: Final = "huawei.com/"
ASCEND_910: Final = "huawei.com/Ascend910"
ASCEND_REAL: Final = "huawei.com/AscendReal"
PREDICATE_TIME: Final = "predicate-time"
DISTRIBUTED_JOB: Final = "distributed-job"
ASCEND_910_CONFIGURATION: Final = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
BASE_DEVICE_INFOS: Final = "baseDeviceInfos"
DEVICE_INFO_CONFIGMAP_PREFIX: Final = "mindx-dl-deviceinfo-"
DEVICE_INFO_NAMESPACE: Final = "kube-system"
DEVICE_INFO_KEY: Final = "DeviceInfoCfg"
NETWORK_UNHEALTHY_SUFFIX: Final = "-NetworkUnhealthy"
UNHEALTHY_SUFFIX: Final = "-Unhealthy"
RECOVERING_SUFFIX: Final = "-Recovering"
ACCELERATOR_TYPE: Final = "accelerator-type"
SCHEDULE_POLICY: Final = "huawei.com/schedule_policy"
SP_BLOCK: Final = "sp-block"
SKIP_ASCEND_PLUGIN: Final = "huawei.com/skip-ascend-plugin"
ACJOB_OPERATOR_NAME: Final = "training.kubeflow.org/operator-name"

CLASS_LABELS: Final[tuple[str, ...]] = (ACJOB_OPERATOR_NAME,)
"""Pod labels that plugins look at when they place a task; selectors add the keys that they name."""
CLASS_ANNOTATIONS: Final[tuple[str, ...]] = (
    CARD_NAME,
    COOLDOWN_TIME,
    NUMA_TOPOLOGY_POLICY,
    PREEMPTABLE,
    RESOURCE_STRATEGY_SCORING_TYPE,
    RESOURCE_STRATEGY_WEIGHT,
    REVOCABLE_ZONE,
    SCHEDULE_POLICY,
    SKIP_ASCEND_PLUGIN,
    SP_BLOCK,
)
"""Pod annotations that plugins look at when they place or evict a task."""
TASK_ANNOTATIONS: Final[tuple[str, ...]] = (ASCEND_910, ASCEND_REAL)
"""Pod annotations that differ from Pod to Pod and are read: the chips held."""

# --- Nodes ---
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
ZONE_LABELS: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
REGION_LABELS: Final = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
UNSCHEDULABLE_TAINT: Final = "node.kubernetes.io/unschedulable"

# --- Resources ---
CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"

# --- Priorities ---
SYSTEM_CRITICAL_CLASSES: Final = frozenset({"system-cluster-critical", "system-node-critical"})
KUBE_SYSTEM: Final = "kube-system"
NAMESPACE_NAME_LABEL: Final = "kubernetes.io/metadata.name"

# --- Conditions, Event reasons ---
CONDITION_UNSCHEDULABLE: Final = "Unschedulable"
CONDITION_SCHEDULED: Final = "Scheduled"
REASON_NOT_ENOUGH_RESOURCES: Final = "NotEnoughResources"
REASON_NOT_ENOUGH_TASKS: Final = "NotEnoughTasks"
REASON_NOT_ENOUGH_PODS_OF_TASK: Final = "NotEnoughPodsOfTask"
REASON_QUEUE_NOT_FOUND: Final = "QueueNotFound"
REASON_GANG_READY: Final = "tasks in gang are ready to be scheduled"
POD_SCHEDULED: Final = "PodScheduled"
POD_REASON_UNSCHEDULABLE: Final = "Unschedulable"
POD_REASON_SCHEDULABLE: Final = "Schedulable"
EVENT_SCHEDULED: Final = "Scheduled"
EVENT_FAILED_SCHEDULING: Final = "FailedScheduling"
EVENT_UNSCHEDULABLE: Final = "Unschedulable"
EVENT_EVICT: Final = "Evict"
EVENT_PREEMPTED: Final = "Preempted"
EVENT_RECLAIMED: Final = "Reclaimed"
EVENT_COMMAND_ISSUED: Final = "CommandIssued"
EVENT_EXECUTE_ACTION: Final = "ExecuteAction"
EVENT_PLUGIN_ERROR: Final = "PluginError"
EVENT_PVC_ERROR: Final = "PVCError"
EVENT_POD_GROUP_ERROR: Final = "PodGroupError"
EVENT_POD_GROUP_PENDING: Final = "PodGroupPending"
EVENT_FAILED_CREATE: Final = "FailedCreate"
EVENT_FAILED_DELETE: Final = "FailedDelete"
EVENT_SUCCESSFUL_CREATE: Final = "SuccessfulCreate"
EVENT_SUCCESSFUL_DELETE: Final = "SuccessfulDelete"
EVENT_SAW_COMPLETED_JOB: Final = "SawCompletedJob"
EVENT_ORPHANED_JOB: Final = "OrphanedJob"
EVENT_STALE_REFERENCE: Final = "StaleReference"
EVENT_FOREIGN_JOB: Final = "ForeignJob"
EVENT_FORBID_CONCURRENT: Final = "ForbidConcurrent"
EVENT_REPLACE_CONCURRENT: Final = "ReplaceConcurrent"
EVENT_NAMESPACE_TERMINATING: Final = "NamespaceTerminating"
EVENT_INVALID_SCHEDULE: Final = "InvalidSchedule"
EVENT_INVALID_TIME_ZONE: Final = "InvalidTimeZone"
EVENT_UNPARSEABLE_SCHEDULE: Final = "UnParseableCronJobSchedule"
EVENT_UNSUPPORTED_SCHEDULE: Final = "UnsupportedSchedule"
EVENT_TOO_MANY_MISSED_TIMES: Final = "TooManyMissedTimes"
EVENT_CREATED: Final = "Created"
EVENT_SYNC_JOB_FLOW: Final = "SyncJobFlow"
EVENT_MALFORMED: Final = "Malformed"
EVENT_NORMAL: Final = "Normal"
EVENT_WARNING: Final = "Warning"
