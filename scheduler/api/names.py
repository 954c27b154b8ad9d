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

# --- Pods and PodGroups ---
GROUP_NAME: Final = "scheduling.k8s.io/group-name"
TASK_SPEC: Final = "volcano.sh/task-spec"
TASK_PRIORITY: Final = "volcano.sh/task-priority"
PREEMPTABLE: Final = "volcano.sh/preemptable"
REVOCABLE_ZONE: Final = "volcano.sh/revocable-zone"

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
CLASS_ANNOTATIONS: Final[tuple[str, ...]] = (CARD_NAME, REVOCABLE_ZONE, SCHEDULE_POLICY, SP_BLOCK, SKIP_ASCEND_PLUGIN)
"""Pod annotations that plugins look at when they place a task."""
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
EVENT_MALFORMED: Final = "Malformed"
EVENT_NORMAL: Final = "Normal"
EVENT_WARNING: Final = "Warning"
