"""All well-known strings of the API: labels, annotations, ConfigMap names, condition types and Event reasons.

The rest of the program and its tests refer to these constants. Sources:
Volcano's API packages for ``volcano.sh`` and ``scheduling.k8s.io`` keys, the Ascend device plugin for ``huawei.com``
keys, and the card quota design for ``volcano.sh/card.*``.
"""

from typing import Final

DEFAULT_SCHEDULER_NAME: Final = "volcano-py"
KUBE_SCHEDULER: Final = "default-scheduler"
"""The schedulerName of Pods that name none."""
DEFAULT_QUEUE: Final = "default"
ROOT_QUEUE: Final = "root"
DEFAULT_NAMESPACE: Final = "default"
SYSTEM_NAMESPACE: Final = "volcano-system"
"""Default namespace of the program."""

# --- API groups ---
SCHEDULING_API_VERSION: Final = "scheduling.volcano.sh/v1beta1"
BATCH_API_VERSION: Final = "batch.volcano.sh/v1alpha1"
BUS_API_VERSION: Final = "bus.volcano.sh/v1alpha1"
FLOW_API_VERSION: Final = "flow.volcano.sh/v1alpha1"
TOPOLOGY_API_VERSION: Final = "topology.volcano.sh/v1alpha1"
NODEINFO_API_VERSION: Final = "nodeinfo.volcano.sh/v1alpha1"
SHARD_API_VERSION: Final = "shard.volcano.sh/v1alpha1"
VISIBILITY_API_VERSION: Final = "visibility.volcano-py.io/v1alpha1"
"""The aggregated API by which the scheduler answers tenants."""
RESOURCE_API_VERSION: Final = "resource.k8s.io/v1"

# --- Pods and PodGroups ---
GROUP_NAME: Final = "scheduling.k8s.io/group-name"
TASK_SPEC: Final = "volcano.sh/task-spec"
DEFAULT_TASK: Final = "default"
"""Name of the task of a vcjob whose task has no name."""
TASK_PRIORITY: Final = "volcano.sh/task-priority"
PREEMPTABLE: Final = "volcano.sh/preemptable"
REVOCABLE_ZONE: Final = "volcano.sh/revocable-zone"

COOLDOWN_TIME: Final = "volcano.sh/cooldown-time"
JDB_MIN_AVAILABLE: Final = "volcano.sh/jdb-min-available"
JDB_MAX_UNAVAILABLE: Final = "volcano.sh/jdb-max-unavailable"
NUMA_TOPOLOGY_POLICY: Final = "volcano.sh/numa-topology-policy"
GROUP_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
QUEUE_NAME_ANNOTATION: Final = "scheduling.volcano.sh/queue-name"
NETWORK_TOPOLOGY_SOURCE: Final = "volcano.sh/network-topology-source"
"""Label of a discovered HyperNode: the source of the discovery."""
CONTROLLER_CONFIGURATION: Final = "volcano-controller.conf"
"""Key in the ConfigMap that configures the controllers."""
NETWORK_TOPOLOGY_MODE: Final = "volcano.sh/network-topology-mode"
NETWORK_TOPOLOGY_HIGHEST_TIER: Final = "volcano.sh/network-topology-highest-tier"
HARD: Final = "hard"
"""Mode of a network topology: the highest allowed tier is a limit."""
SOFT: Final = "soft"
"""Mode of a network topology: low tiers are preferred."""
SLA_WAITING_TIME: Final = "volcano.sh/sla-waiting-time"
SLA_WAITING_TIME_PLAIN: Final = "sla-waiting-time"
"""The annotation as older clients write it."""
TASK_TOPOLOGY_AFFINITY: Final = "volcano.sh/task-topology-affinity"
TASK_TOPOLOGY_ANTI_AFFINITY: Final = "volcano.sh/task-topology-anti-affinity"
TASK_TOPOLOGY_TASK_ORDER: Final = "volcano.sh/task-topology-task-order"
QUEUE_ALLOCATION_GATE: Final = "scheduling.volcano.sh/queue-allocation-gate"
"""The scheduling gate of Pods that wait for room in their queue, and the annotation of Pods that request the gate."""
RESOURCE_STRATEGY_SCORING_TYPE: Final = "volcano.sh/resource-strategy-scoring-type"
RESOURCE_STRATEGY_WEIGHT: Final = "volcano.sh/resource-strategy-weight"
PODGROUP_PREFIX: Final = "podgroup-"
VOLCANO_PREFIX: Final = "volcano.sh/"

TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
"""Values of annotations that mean true. Any other value means false."""

SCHEDULING_GATES_QUEUE_ADMISSION: Final = "SchedulingGatesQueueAdmission"
"""The feature gate of ``QUEUE_ALLOCATION_GATE``."""

# --- vcjobs and their Pods ---
TASK_INDEX: Final = "volcano.sh/task-index"
TASK_INDEX_VARIABLE: Final = "VC_TASK_INDEX"
"""The environment variable with the same number. Pods may have it without the label."""
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
POD_STATUS: Final = "huawei.com/pod-status"
"""Annotation of a faulty Pod that another component is to replace: ``Unhealthy-<kind of fault>``."""
NEED_VOLCANO_OPE: Final = "needVolcanoOpe"
"""Annotation of a Pod for which another component has prepared a substitute: ``delete``."""
NEED_OPERATOR_OPE: Final = "needOperatorOpe"
"""Annotation of a Pod of an AscendJob: ``create`` requests a backup Pod for it, ``delete`` its deletion."""
IN_HOT_SWITCH: Final = "inHotSwitchFlow"
"""Annotation of a Pod, and of its backup, during a hot switch: ``true``."""
BACKUP_NEW_POD: Final = "backupNewPodName"
"""Annotation of a Pod: the name of its backup."""
BACKUP_SOURCE_POD: Final = "backupSourcePodName"
"""Annotation of a backup: the name of the Pod whose place it is to take."""
POD_TYPE: Final = "podType"
"""Annotation of a backup until it has taken this place: ``backup``."""
FAULT_ANNOTATIONS: Final[tuple[str, ...]] = (POD_STATUS, NEED_VOLCANO_OPE, BACKUP_NEW_POD, BACKUP_SOURCE_POD)
RESCHEDULE_IN_PLACE: Final = "reschedule-in-place"
"""Annotation of a Pod that replaces another on the same node while other Pods of its job kept running: ``true``."""
HCCL_RANK_INDEX: Final = "hccl/rankIndex"
SUPER_POD_RANK: Final = "super-pod-rank"
SUPER_POD_AFFINITY: Final = "super-pod-affinity"
SUPER_POD_SOFT: Final = "soft"
"""Label of a job, and its value: logical super pods may share a super pod, or be split."""
CREATED_BY_JOB_TEMPLATE: Final = "volcano.sh/createdByJobTemplate"
CREATED_BY_JOB_FLOW: Final = "volcano.sh/createdByJobFlow"
CRONJOB_SCHEDULED_TIMESTAMP: Final = "volcano.sh/cronjob-scheduled-timestamp"

RUN_LABEL: Final = "job.volcano.sh"
"""Label of the Pods of a vcjob that was created on the command line. Its value is the name of the job."""
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation by which ``kubectl apply`` repeats the whole object."""
DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"

# --- Signed records ---
SIGNING_KEY_SECRET: Final = "volcano-py-signing-key"
"""Default name of the Secret with the signing key."""
BINDING_RECORD: Final = "volcano-py/binding-record"
"""Annotation of a Pod: the signed record of its binding (``api/signed_records.py``)."""
ADMISSION_RECORD: Final = "volcano-py/admission-record"
"""Annotation of a PodGroup: the signed record of its admission."""

# --- Shards ---
SHARD_QUEUES: Final = "volcano-py/queues"
"""Annotation of a NodeShard: the queues right below the root that its scheduler serves, ``a, b``; ``*`` for all that no
NodeShard names."""
SHARD_QUEUES_IN_USE: Final = "volcano-py/queues-in-use"
"""Annotation of a NodeShard: the queues that its scheduler has claimed."""
SHARD_FINALIZER: Final = "volcano-py/in-use"
"""Finalizer of a NodeShard: its scheduler withdraws its claims before the object is deleted."""
SHARD_NODE_LABELS: Final = "volcano-py/node-labels"
"""Annotation of a NodeShard: ``key=value, ...``; nodes with all of these labels belong to it, too."""

# --- Simulations ---
WHAT_IF: Final = "volcano-py/what-if"
"""Annotation of an object in a what-if file: ``delete`` or ``merge``."""

# --- Queues ---
HIERARCHY: Final = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS: Final = "volcano.sh/hierarchy-weights"
NAMESPACE_WEIGHT: Final = "volcano.sh/namespace.weight"
"""Entry in the limits of a ResourceQuota: the weight of its namespace."""
CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"
RESOURCE_GROUP: Final = "volcano.sh/resource-group"
NODEGROUP_NAME: Final = "volcano.sh/nodegroup-name"
NODEGROUP_RESOURCE_LIMITS: Final = "volcano.sh/nodegroup-resource-limits"

# --- Nodes ---
OVERSUBSCRIPTION_CPU: Final = "volcano.sh/oversubscription-cpu"
"""Annotation of a Node: oversubscribed cpu, in thousandths of a core."""
OVERSUBSCRIPTION_MEMORY: Final = "volcano.sh/oversubscription-memory"
"""Annotation of a Node: oversubscribed memory, in bytes."""

# --- vcjobs ---
ORDERED_TASKS: Final = "volcano-py/ordered-tasks"
"""Annotation of the PodGroup of a vcjob whose tasks start one after another, so that its minimums grow: the names of
the tasks that wait for others, separated by commas; "" when none waits any more."""

# --- Card quota ---
CARD_QUOTA: Final = "volcano.sh/card.quota"
CARD_BORROWING_LIMIT: Final = "volcano.sh/card.borrowing-limit"
"""Annotation of a Queue: how many cards of each model it may use beyond its quota."""
CARD_LENDING_LIMIT: Final = "volcano.sh/card.lending-limit"
"""Annotation of a Queue: how many cards of its quota other queues may use."""
CARD_REQUEST: Final = "volcano.sh/card.request"
CARD_NAME: Final = "volcano.sh/card.name"
CARD_CARD: Final = "volcano.sh/card.card"
"""A second spelling of the design."""

# --- Ascend ---
HUAWEI_PREFIX: Final = "huawei.com/"
ASCEND_910: Final = "huawei.com/Ascend910"
ASCEND_310: Final = "huawei.com/Ascend310"
ASCEND_310P: Final = "huawei.com/Ascend310P"
NPU: Final = "huawei.com/npu"
ASCEND_REAL: Final = "huawei.com/AscendReal"
PREDICATE_TIME: Final = "predicate-time"
DISTRIBUTED_JOB: Final = "distributed-job"
ASCEND_910_CONFIGURATION: Final = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
NPU_CONFIGURATION: Final = "ascend.kubectl.kubernetes.io/ascend-npu-configuration"
BASE_DEVICE_INFOS: Final = "baseDeviceInfos"
DEVICE_INFO_CONFIGMAP_PREFIX: Final = "mindx-dl-deviceinfo-"
DEVICE_INFO_NAMESPACE: Final = "kube-system"
DEVICE_INFO_KEY: Final = "DeviceInfoCfg"
NETWORK_UNHEALTHY_SUFFIX: Final = "-NetworkUnhealthy"
UNHEALTHY_SUFFIX: Final = "-Unhealthy"
RECOVERING_SUFFIX: Final = "-Recovering"
FAULT_SUFFIX: Final = "-Fault"
ACCELERATOR_TYPE: Final = "accelerator-type"
SCHEDULE_POLICY: Final = "huawei.com/schedule_policy"
SCHEDULE_MIN_AVAILABLE: Final = "huawei.com/schedule_minAvailable"
SP_BLOCK: Final = "sp-block"
SKIP_ASCEND_PLUGIN: Final = "huawei.com/skip-ascend-plugin"
ACJOB_GROUP: Final = "mindxdl.gitee.com"
ACJOB_API_VERSION: Final = f"{ACJOB_GROUP}/v1"
ACJOB_RESTARTS: Final = "volcano-py/restarts"
"""Annotation of the PodGroup of an AscendJob: how often the job restarted."""
ACJOB_UNCOUNTED_RESTARTS: Final = "volcano-py/uncounted-restarts"
"""Annotation of the PodGroup of an AscendJob: how many of the restarts followed evictions, and do not count towards the
limit."""
ACJOB_COMPLETE: Final = "volcano-py/complete"
"""Annotation of the PodGroup of an AscendJob: number of restarts after which the job last had all its Pods, and their
number, as ``2:8``."""
RECOVER_STRATEGY: Final = "recover-strategy"
"""Annotation of an AscendJob: how its processes recover from faults, separated by commas."""
AFFINITY_CONFIG: Final = "huawei.com/affinity-config"
"""Annotation of a job with the schedule policy ``multilevel``: nodes per level of the network, as ``level1=2``."""
FAULT_SCHEDULING: Final = "fault-scheduling"
"""Label of a job: how its Pods are deleted after a fault, or ``off``."""
RESCHEDULING_STATE: Final = "vcjob-fault-npu-cm"
REMAINING_RETRIES: Final = "remain-retry-times"
RESCHEDULING_RESTARTS: Final = "restarts"
"""The ConfigMap of the scheduler with the state of restarts after faults, and keys of its data."""
FAULT_RETRY_TIMES: Final = "fault-retry-times"
"""Label of a job: restarts after a Pod has failed."""
POD_RESCHEDULING: Final = "pod-rescheduling"
PROCESS_RECOVER: Final = "process-recover-enable"
SUB_HEALTHY_STRATEGY: Final = "subHealthyStrategy"
"""Labels of a job: what restarts after a fault, and whether hardware that works with restrictions counts as faulty."""
SOFT_SHARE: Final[tuple[str, ...]] = tuple(
    f"huawei.com/scheduler.softShareDev.{name}" for name in ("aicoreQuota", "hbmQuota", "policy")
)
"""Labels of a job whose Pods share chips; each Pod has a quota of them."""
MINDIE_JOB: Final = "jobID"
MINDIE_APP: Final = "app"
"""Labels of an AscendJob of MindIE, which has both."""
SCALE_OUT: Final = "scaleout-type"
"""Label of a job: the network between super pods, ROCE or UBOE in any case."""
HARDWARE_TYPE: Final = "mind-cluster/hardware-type"
SUPER_POD_ID: Final = "super-pod-id"
"""Annotations of a Pod: the model of its server, and the super pod of its node."""
ACJOB_OPERATOR_NAME: Final = "training.kubeflow.org/operator-name"
RANK_TABLE_PREFIX: Final = "rings-config-"
"""Prefix of the ConfigMap that receives the rank table of a job; the job's name follows."""
RANK_TABLE: Final = "hccl.json"
RANK_TABLE_VERSION: Final = "version"
"""Keys of that ConfigMap, and names of files: the table, and a number that changes when the table changes."""
RANK_TABLE_VOLUME: Final = "ranktable"
"""Volume of Pods that read their rank table from a file."""

# --- Shared devices ---
GPU_MEMORY: Final = "volcano.sh/gpu-memory"
GPU_NUMBER: Final = "volcano.sh/gpu-number"
GPU_INDEX: Final = "volcano.sh/gpu-index"
GPU_PREDICATE_TIME: Final = "volcano.sh/predicate-time"
GPU_UNHEALTHY_IDS: Final = "volcano.sh/gpu-unhealthy-ids"
VGPU_NUMBER: Final = "volcano.sh/vgpu-number"
VGPU_MEMORY: Final = "volcano.sh/vgpu-memory"
VGPU_MEMORY_PERCENTAGE: Final = "volcano.sh/vgpu-memory-percentage"
VGPU_CORES: Final = "volcano.sh/vgpu-cores"
VGPU_REGISTER: Final = "volcano.sh/node-vgpu-register"
VGPU_IDS: Final = "volcano.sh/vgpu-ids-new"
VGPU_IDS_TO_ALLOCATE: Final = "volcano.sh/devices-to-allocate"
VGPU_NODE: Final = "volcano.sh/vgpu-node"
VGPU_TIME: Final = "volcano.sh/vgpu-time"
VGPU_BIND_TIME: Final = "volcano.sh/bind-time"
VGPU_BIND_PHASE: Final = "volcano.sh/bind-phase"
VGPU_MODE: Final = "volcano.sh/vgpu-mode"
VGPU_PODGROUP_POLICY: Final = "volcano.sh/vgpu-podgroup-policy"
VGPU_USE_UUID: Final = "volcano.sh/vgpu-use-gpuuuid"
VGPU_NO_USE_UUID: Final = "volcano.sh/vgpu-nouse-gpuuuid"
GPU_USE_TYPE: Final = "nvidia.com/use-gputype"
GPU_NO_USE_TYPE: Final = "nvidia.com/nouse-gputype"
VGPU_CONFIGMAP: Final = "volcano-vgpu-device-config"
VGPU_CONFIGMAP_NAMESPACE: Final = "kube-system"
HAMI_PREFIX: Final = "hami.io/"
HAMI_ALLOCATED_SUFFIX: Final = "-devices-allocated"
HAMI_TO_ALLOCATE_SUFFIX: Final = "-devices-to-allocate"
HAMI_REGISTER_PREFIX: Final = "hami.io/node-register-"
HAMI_NODE: Final = "hami.io/vgpu-node"
HAMI_TIME: Final = "hami.io/vgpu-time"
HAMI_BIND_TIME: Final = "hami.io/bind-time"
HAMI_BIND_PHASE: Final = "hami.io/bind-phase"
HAMI_CORE_NODE: Final = "hami-vnpu-core"
BIND_ALLOCATING: Final = "allocating"
"""Bind phase of a Pod for which the kubelet has not called the device plugin yet."""
VNPU_MODE: Final = "huawei.com/vnpu-mode"
HAMI_CORE: Final = "hami-core"
NPU_CORE: Final = "huawei.com/npu-core"
"""A resource, and the annotation of its allocated cores."""
NPU_JOB_KIND: Final = "ring-controller.atlas"
VNPU_LEVEL: Final = "vnpu-level"
VNPU_DVPP: Final = "vnpu-dvpp"
ACCELERATOR: Final = "accelerator"
SERVER_TYPE: Final = "servertype"
CHIP_NAME: Final = "node.kubernetes.io/npu.chip.name"
GPU_NODE_LOCK: Final = "gpu"
VGPU_NODE_LOCK: Final = "hamivgpu"
HAMI_NODE_LOCK: Final = "hami.io/mutex.lock"
"""Annotations of a Node: the time since which it is locked, while devices are allocated to one Pod."""

CLASS_LABELS: Final[tuple[str, ...]] = (ACJOB_OPERATOR_NAME, NPU_JOB_KIND, VNPU_DVPP, VNPU_LEVEL)
"""Pod labels that plugins read when they place a task. Selectors add the keys that they name."""
CLASS_ANNOTATIONS: Final[tuple[str, ...]] = (
    CARD_CARD,
    CARD_NAME,
    COOLDOWN_TIME,
    GPU_NO_USE_TYPE,
    GPU_USE_TYPE,
    NUMA_TOPOLOGY_POLICY,
    PREEMPTABLE,
    QUEUE_ALLOCATION_GATE,
    RESOURCE_STRATEGY_SCORING_TYPE,
    RESOURCE_STRATEGY_WEIGHT,
    REVOCABLE_ZONE,
    SCHEDULE_MIN_AVAILABLE,
    SCHEDULE_POLICY,
    SKIP_ASCEND_PLUGIN,
    SP_BLOCK,
    TASK_SPEC,
    VGPU_MODE,
    VGPU_NO_USE_UUID,
    VGPU_PODGROUP_POLICY,
    VGPU_USE_UUID,
    VNPU_MODE,
)
"""Pod annotations that plugins read when they place or evict a task."""
CHIP_ANNOTATIONS: Final[tuple[str, ...]] = (ASCEND_910, ASCEND_310, ASCEND_310P, NPU, NPU_CORE)
"""Pod annotations that list the chips that the scheduler assigned."""
VIRTUAL_DEVICE_PREFIXES: Final = (f"{ASCEND_910}-", f"{ASCEND_310P}-")
"""Prefixes of Pod annotations that name a virtual NPU that was created beforehand: ``huawei.com/Ascend910-2c``."""
TASK_ANNOTATIONS: Final[tuple[str, ...]] = (*CHIP_ANNOTATIONS, ASCEND_REAL, *SOFT_SHARE, GPU_INDEX, VGPU_IDS)
"""Pod annotations that name the chips and cards of a Pod, or its shares of them. Those of HAMi's NPUs have the name of
the model between prefix and suffix."""

# --- Nodes ---
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
ZONE_LABELS: Final = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
REGION_LABELS: Final = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
UNSCHEDULABLE_TAINT: Final = "node.kubernetes.io/unschedulable"

# --- Volumes ---
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""Annotation of a claim: the node for which a volume is to be provisioned."""
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
STORAGE_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
"""The storage class of a claim, as older clients write it."""
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
CLAIM_LOST: Final = "Lost"
VOLUME_AVAILABLE: Final = "Available"
READ_WRITE_MANY: Final = "ReadWriteMany"
READ_ONLY_MANY: Final = "ReadOnlyMany"
STORAGE: Final = "storage"

# --- Devices ---
CLAIM_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""Finalizer of allocated ResourceClaims."""
DEVICE_CLASS_RESOURCE_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""Prefix of the extended resource that every DeviceClass stands for; its name follows."""
POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
"""Annotation of ResourceClaims made from a template: the entry of the Pod's spec."""
DEVICE_CLASS_QUOTA: Final = "deviceclass/"
"""Prefix of the name of a DeviceClass in amounts of queues: a number of devices."""
DEVICE_CAPACITY_QUOTA: Final = ".deviceclass/"
"""Separator of a capacity dimension and the name of a DeviceClass in amounts of queues."""

# --- Resources ---
CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
NVIDIA_GPU: Final = "nvidia.com/gpu"
OTHER_RESOURCES: Final = "volcano-py.io/other-resources"
"""Stands for all resources that no node has, beyond the first ones that Pods have named (``resource.Dimensions``)."""
MPS_REPLICAS: Final = "nvidia.com/gpu.replicas"
"""Label of a Node: into how many shares each of its GPUs is divided."""

# --- Priorities ---
SYSTEM_CRITICAL_CLASSES: Final = frozenset({"system-cluster-critical", "system-node-critical"})
KUBE_SYSTEM: Final = "kube-system"
NAMESPACE_NAME_LABEL: Final = "kubernetes.io/metadata.name"

# --- Conditions, Event reasons ---
CONDITION_UNSCHEDULABLE: Final = "Unschedulable"
CONDITION_SCHEDULED: Final = "Scheduled"
CONDITION_DEVICE_UNHEALTHY: Final = "DeviceUnhealthy"
REASON_NOT_ENOUGH_RESOURCES: Final = "NotEnoughResources"
REASON_NOT_ENOUGH_TASKS: Final = "NotEnoughTasks"
REASON_NOT_ENOUGH_PODS_OF_TASK: Final = "NotEnoughPodsOfTask"
REASON_NOT_ALLOCATABLE: Final = "NotAllocatable"
REASON_QUEUE_NOT_FOUND: Final = "QueueNotFound"
REASON_DEVICES_HEALTHY: Final = "DevicesHealthy"
REASON_GANG_READY: Final = "tasks in gang are ready to be scheduled"
POD_SCHEDULED: Final = "PodScheduled"
REASON_SCHEDULING_GATED: Final = "SchedulingGated"
"""Reason of the condition that the API server writes into a Pod with scheduling gates."""
POD_REASON_UNSCHEDULABLE: Final = "Unschedulable"
POD_REASON_SCHEDULABLE: Final = "Schedulable"
POD_REASON_SCHEDULER_ERROR: Final = "SchedulerError"
EVENT_SCHEDULED: Final = "Scheduled"
EVENT_FAILED_SCHEDULING: Final = "FailedScheduling"
EVENT_UNSCHEDULABLE: Final = "Unschedulable"
EVENT_EVICT: Final = "Evict"
EVENT_PREEMPTED: Final = "Preempted"
EVENT_RESCHEDULED: Final = "Rescheduled"
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
EVENT_REFUSED_WRITE: Final = "RefusedWrite"
EVENT_RANK_TABLE: Final = "RankTable"
EVENT_DEVICE_UNHEALTHY: Final = "DeviceUnhealthy"
EVENT_DEVICES_DISAGREE: Final = "DevicesDisagree"
"""The annotations of a Pod name devices that it did not request, was not bound with, or that another Pod has."""
EVENT_CHARGED_QUEUE: Final = "ChargedQueue"
"""Pods are charged to another queue than their PodGroup's."""
EVENT_NORMAL: Final = "Normal"
EVENT_WARNING: Final = "Warning"
