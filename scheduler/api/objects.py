"""The Kubernetes and Volcano objects the scheduler reads, as typed structs that hold only the fields it uses.

Wire bytes are decoded straight into these (msgspec), so an unknown field costs nothing and a field of a wrong type is
an error that names its path. What the program makes of them is in ``task``, ``job``, ``node`` and ``queue``.
"""

from typing import Any

import msgspec

Quantity = str | int | float
ResourceList = dict[str, Quantity]


class Wire(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True):
    """Base of every decoded struct: camelCase on the wire, unknown fields ignored."""


# --- metadata ---
class OwnerReference(Wire):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Wire):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class KubeObject(Wire):
    """Anything with metadata; ``kind`` and ``apiVersion`` are left out by list answers and so are not kept."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


# --- selectors ---
class Requirement(Wire):
    """One expression of a label selector or a node selector term."""

    key: str
    operator: str
    values: list[str] | None = None


class LabelSelector(Wire):
    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] | None = None


class NodeSelectorTerm(Wire):
    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class NodeSelector(Wire):
    node_selector_terms: list[NodeSelectorTerm] = msgspec.field(default_factory=list)


class PreferredSchedulingTerm(Wire):
    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(Wire):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] | None = None


class PodAffinityTerm(Wire):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(Wire):
    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Wire):
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = None


class Affinity(Wire):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Wire):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Taint(Wire):
    key: str
    value: str = ""
    effect: str = ""


class TopologySpreadConstraint(Wire):
    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


# --- Pod ---
class ResourceRequirements(Wire):
    requests: ResourceList | None = None
    limits: ResourceList | None = None


class ContainerPort(Wire):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class Container(Wire):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None


class ClaimSource(Wire):
    claim_name: str


class EphemeralSource(Wire):
    """A generic ephemeral volume: its claim is called ``<pod>-<volume>`` and belongs to the Pod."""


class EbsSource(Wire):
    volume_id: str = msgspec.field(default="", name="volumeID")


class GcePdSource(Wire):
    pd_name: str = ""


class AzureDiskSource(Wire):
    disk_uri: str = msgspec.field(default="", name="diskURI")


class CinderSource(Wire):
    volume_id: str = msgspec.field(default="", name="volumeID")


class PortworxSource(Wire):
    volume_id: str = msgspec.field(default="", name="volumeID")


class InTreeSources(Wire):
    """Volumes of plugins that were part of Kubernetes and are served by CSI drivers now."""

    aws_elastic_block_store: EbsSource | None = None
    gce_persistent_disk: GcePdSource | None = None
    azure_disk: AzureDiskSource | None = None
    cinder: CinderSource | None = None
    portworx_volume: PortworxSource | None = None


class Volume(InTreeSources):
    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None


class SchedulingGate(Wire):
    name: str


class PodResourceClaim(Wire):
    """A ResourceClaim of the Pod's own, made from a template, or one that is named and may be shared."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodResourceClaimStatus(Wire):
    """The ResourceClaim that was made for an entry of the spec; None: it needs none."""

    name: str
    resource_claim_name: str | None = None


class PodSpec(Wire):
    scheduler_name: str = ""
    node_name: str = ""
    containers: list[Container] = msgspec.field(default_factory=list)
    init_containers: list[Container] | None = None
    overhead: ResourceList | None = None
    resources: ResourceRequirements | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    volumes: list[Volume] | None = None
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    host_network: bool = False
    scheduling_gates: list[SchedulingGate] | None = None
    resource_claims: list[PodResourceClaim] | None = None


class PodCondition(Wire):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class Terminated(Wire):
    exit_code: int = 0


class ContainerState(Wire):
    terminated: Terminated | None = None


class ContainerStatus(Wire):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState | None = None


class PodStatus(Wire):
    phase: str = ""
    start_time: str | None = None
    nominated_node_name: str = ""
    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resource_claim_statuses: list[PodResourceClaimStatus] | None = None


class Pod(KubeObject):
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


# --- Node ---
class NodeSpec(Wire):
    unschedulable: bool = False
    taints: list[Taint] | None = None


class ContainerImage(Wire):
    names: list[str] | None = None
    size_bytes: int = 0


class NodeAddress(Wire):
    type: str
    address: str


class NodeStatus(Wire):
    allocatable: ResourceList | None = None
    capacity: ResourceList | None = None
    images: list[ContainerImage] | None = None
    addresses: list[NodeAddress] | None = None


class Node(KubeObject):
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


# --- PodGroup, Queue ---
class NetworkTopology(Wire):
    mode: str | None = None
    highest_tier_allowed: int | None = None
    highest_tier_name: str | None = None


class SubGroupPolicy(Wire):
    name: str = ""
    network_topology: NetworkTopology | None = None
    sub_group_size: int | None = None
    min_sub_groups: int | None = None
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None


class PodGroupSpec(Wire):
    min_member: int = 0
    min_task_member: dict[str, int] | None = None
    queue: str = ""
    priority_class_name: str = ""
    min_resources: ResourceList | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: list[SubGroupPolicy] | None = None


class PodGroupCondition(Wire):
    type: str = ""
    status: str = ""
    transition_id: str = msgspec.field(default="", name="transitionID")
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class PodGroupStatus(Wire):
    phase: str = ""
    conditions: list[PodGroupCondition] | None = None
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class PodGroup(KubeObject):
    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    status: PodGroupStatus = msgspec.field(default_factory=PodGroupStatus)


class Guarantee(Wire):
    resource: ResourceList | None = None


class NodeGroupTerms(Wire):
    """Names of node groups."""

    required_during_scheduling_ignored_during_execution: list[str] | None = None
    preferred_during_scheduling_ignored_during_execution: list[str] | None = None


class QueueAffinity(Wire):
    node_group_affinity: NodeGroupTerms | None = None
    node_group_anti_affinity: NodeGroupTerms | None = None


class QueueSpec(Wire):
    weight: int = 1
    extend_clusters: list[dict[str, Any]] | None = None
    capability: ResourceList | None = None
    reclaimable: bool | None = None
    guarantee: Guarantee | None = None
    deserved: ResourceList | None = None
    parent: str = ""
    priority: int = 0
    affinity: QueueAffinity | None = None
    type: str = ""
    dequeue_strategy: str = "traverse"


class QueueStatus(Wire):
    state: str = ""
    allocated: ResourceList | None = None


class Queue(KubeObject):
    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)
    status: QueueStatus = msgspec.field(default_factory=QueueStatus)


# --- the rest ---
class PriorityClass(KubeObject):
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class Namespace(KubeObject):
    pass


class ConfigMap(KubeObject):
    data: dict[str, str] | None = None


class ClaimSpec(Wire):
    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: list[str] | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    resources: ResourceRequirements | None = None
    selector: LabelSelector | None = None


class ClaimStatus(Wire):
    phase: str = ""


class PersistentVolumeClaim(KubeObject):
    spec: ClaimSpec = msgspec.field(default_factory=ClaimSpec)
    status: ClaimStatus = msgspec.field(default_factory=ClaimStatus)


class VolumeNodeAffinity(Wire):
    required: NodeSelector | None = None


class ClaimReference(Wire):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class CsiSource(Wire):
    driver: str = ""
    volume_handle: str = ""


class VolumeSpec(InTreeSources):
    capacity: ResourceList | None = None
    access_modes: list[str] | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    claim_ref: ClaimReference | None = None
    csi: CsiSource | None = None


class VolumeStatus(Wire):
    phase: str = ""


class PersistentVolume(KubeObject):
    spec: VolumeSpec = msgspec.field(default_factory=VolumeSpec)
    status: VolumeStatus = msgspec.field(default_factory=VolumeStatus)


class TopologyRequirement(Wire):
    key: str
    values: list[str] | None = None


class TopologyTerm(Wire):
    match_label_expressions: list[TopologyRequirement] | None = None


class StorageClass(KubeObject):
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: list[TopologyTerm] | None = None


class AttachLimit(Wire):
    count: int | None = None


class NodeDriver(Wire):
    """A CSI driver that runs on a node."""

    name: str
    allocatable: AttachLimit | None = None
    topology_keys: list[str] | None = None


class CsiNodeSpec(Wire):
    drivers: list[NodeDriver] | None = None


class CsiNode(KubeObject):
    """The CSI drivers of the Node of the same name."""

    spec: CsiNodeSpec = msgspec.field(default_factory=CsiNodeSpec)


class CsiDriverSpec(Wire):
    storage_capacity: bool | None = None


class CsiDriver(KubeObject):
    spec: CsiDriverSpec = msgspec.field(default_factory=CsiDriverSpec)


class CsiStorageCapacity(KubeObject):
    """How much can still be provisioned of a storage class on the nodes of a topology."""

    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class AttachmentSource(Wire):
    persistent_volume_name: str | None = None


class AttachmentSpec(Wire):
    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = msgspec.field(default_factory=AttachmentSource)


class VolumeAttachment(KubeObject):
    spec: AttachmentSpec = msgspec.field(default_factory=AttachmentSpec)


class ResourceQuotaSpec(Wire):
    hard: ResourceList | None = None
    scopes: list[str] | None = None
    scope_selector: dict[str, Any] | None = None


class ResourceQuotaStatus(Wire):
    hard: ResourceList | None = None
    used: ResourceList | None = None


class ResourceQuota(KubeObject):
    spec: ResourceQuotaSpec = msgspec.field(default_factory=ResourceQuotaSpec)
    status: ResourceQuotaStatus = msgspec.field(default_factory=ResourceQuotaStatus)


class DisruptionBudgetSpec(Wire):
    selector: LabelSelector | None = None


class DisruptionBudgetStatus(Wire):
    disruptions_allowed: int = 0
    disrupted_pods: dict[str, Any] | None = None
    """Names of Pods whose eviction was granted and is not seen yet."""


class PodDisruptionBudget(KubeObject):
    spec: DisruptionBudgetSpec = msgspec.field(default_factory=DisruptionBudgetSpec)
    status: DisruptionBudgetStatus = msgspec.field(default_factory=DisruptionBudgetStatus)


class NumaResource(Wire):
    allocatable: str = ""
    """Ids of what is free, as a list of ranges: ``0-3,8``."""


class CpuDetail(Wire):
    """Where a logical cpu is. Core ids are unique within a socket only."""

    numa: int = 0
    socket: int = 0
    core: int = 0


class PodAllocation(Wire):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class NumatopologySpec(Wire):
    policies: dict[str, str] | None = None
    res_reserved: ResourceList | None = None
    numares: dict[str, NumaResource] | None = None
    cpu_detail: dict[str, CpuDetail] | None = None
    pod_allocations: list[PodAllocation] | None = None
    """Pods whose cpus are taken off ``allocatable`` already."""


class Numatopology(KubeObject):
    """The NUMA nodes of the Node of the same name."""

    spec: NumatopologySpec = msgspec.field(default_factory=NumatopologySpec)


class ExactMatch(Wire):
    name: str = ""


class RegexMatch(Wire):
    pattern: str = ""


class MemberSelector(Wire):
    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class HyperNodeMember(Wire):
    type: str = ""
    """Node or HyperNode."""
    selector: MemberSelector = msgspec.field(default_factory=MemberSelector)


class HyperNodeSpec(Wire):
    tier: int = 0
    tier_name: str = ""
    members: list[HyperNodeMember] | None = None


class HyperNode(KubeObject):
    """Nodes, or HyperNodes of lower tiers, that are close to each other in the network."""

    spec: HyperNodeSpec = msgspec.field(default_factory=HyperNodeSpec)


class ServiceSpec(Wire):
    selector: dict[str, str] | None = None


class Service(KubeObject):
    """A Service, or a ReplicationController: which Pods are its own."""

    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)
