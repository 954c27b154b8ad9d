"""Kubernetes objects as typed structs with only the fields that the program uses.

Storage objects are in ``storage``, devices in ``dra``, Volcano's objects in ``scheduling`` and ``batch``. The
scheduler's own model of them is in ``task``, ``job``, ``node`` and ``queue``.

msgspec decodes JSON directly into these structs. Unknown fields are skipped, and a field of a wrong type is an error
that names its path.
"""

from typing import Any, Final

import msgspec

Quantity = str | int | float
ResourceList = dict[str, Quantity]


class Wire(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True, gc=False):
    """Base of all decoded structs: camelCase in JSON, unknown fields are ignored. JSON has no reference cycles, so the
    cyclic garbage collector skips them."""


# --- metadata ---
class OwnerReference(Wire):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Wire):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None


class KubeObject(Wire):
    """An object with metadata. List responses omit ``kind`` and ``apiVersion`` of items, so these are not fields."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


def controller_of(obj: KubeObject) -> OwnerReference | None:
    """The owner that manages an object, or None. The API server accepts at most one."""
    for owner in obj.metadata.owner_references or ():
        if owner.controller:
            return owner
    return None


def controlled_by_kind(obj: KubeObject, group: str, kind: str) -> OwnerReference | None:
    """The owner that manages an object, if it is of a kind in an API group, in any version; else None."""
    owner = controller_of(obj)
    return owner if owner is not None and (owner.api_version.rpartition("/")[0], owner.kind) == (group, kind) else None


def is_controlled_by(obj: KubeObject, uid: str) -> bool:
    """Whether the owner with a uid manages an object."""
    owner = controller_of(obj)
    return owner is not None and owner.uid == uid


# --- selectors ---
class Requirement(Wire):
    """An expression of a label selector or a node selector term."""

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


class EnvVar(Wire):
    """A variable of a container. Manifests that no API server has validated may have values of any type."""

    name: Any = None
    value: Any = None


class Container(Wire):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None
    env: list[EnvVar] | None = None
    """Caches do not keep it (``without_variables``)."""


class ClaimSource(Wire):
    claim_name: str


class EphemeralSource(Wire):
    """A generic ephemeral volume. Its claim is named ``<pod>-<volume>`` and owned by the Pod."""


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
    """Volumes of former in-tree plugins, which CSI drivers serve now."""

    aws_elastic_block_store: EbsSource | None = None
    gce_persistent_disk: GcePdSource | None = None
    azure_disk: AzureDiskSource | None = None
    cinder: CinderSource | None = None
    portworx_volume: PortworxSource | None = None


class ImageSource(Wire):
    reference: str = ""


class Volume(InTreeSources):
    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None
    image: ImageSource | None = None


class SchedulingGate(Wire):
    name: str


class PodResourceClaim(Wire):
    """A ResourceClaim of the Pod: created from a template for this Pod, or an existing one that Pods may share."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodResourceClaimStatus(Wire):
    """The ResourceClaim created for an entry of the spec; None: the entry needs none."""

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
    termination_grace_period_seconds: int | None = None


class PodCondition(Wire):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class Terminated(Wire):
    exit_code: int = 0
    finished_at: str | None = None


class ContainerState(Wire):
    terminated: Terminated | None = None


class AppliedResources(Wire):
    """The resources that apply to a running container or Pod."""

    requests: ResourceList | None = None


class ContainerStatus(Wire):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState | None = None
    last_state: ContainerState | None = None
    allocated_resources: ResourceList | None = None
    """What the kubelet has reserved for the container."""
    resources: AppliedResources | None = None


ENDED_PHASES: Final = ("Succeeded", "Failed")
"""Phases in which a Pod holds no resources."""


class PodStatus(Wire):
    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: str | None = None
    nominated_node_name: str = ""
    resize: str = ""
    """State of a resize, as kubelets before Kubernetes 1.33 report it."""
    allocated_resources: ResourceList | None = None
    """What the kubelet has reserved for the Pod."""
    resources: AppliedResources | None = None
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


class NodeCondition(Wire):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class NodeStatus(Wire):
    allocatable: ResourceList | None = None
    capacity: ResourceList | None = None
    images: list[ContainerImage] | None = None
    addresses: list[NodeAddress] | None = None
    conditions: list[NodeCondition] | None = None


class Node(KubeObject):
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


# --- other kinds ---
class PriorityClass(KubeObject):
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class Namespace(KubeObject):
    pass


class ConfigMap(KubeObject):
    data: dict[str, str] | None = None


class Secret(KubeObject):
    data: dict[str, str] | None = None
    """Values in base64."""


class ResourceQuotaSpec(Wire):
    hard: ResourceList | None = None


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
    """Names of Pods whose eviction was granted and not yet observed."""


class PodDisruptionBudget(KubeObject):
    spec: DisruptionBudgetSpec = msgspec.field(default_factory=DisruptionBudgetSpec)
    status: DisruptionBudgetStatus = msgspec.field(default_factory=DisruptionBudgetStatus)


class ServiceSpec(Wire):
    selector: dict[str, str] | None = None
    cluster_ip: str = msgspec.field(default="", name="clusterIP")


class Service(KubeObject):
    """A Service or a ReplicationController, with its selector."""

    spec: ServiceSpec = msgspec.field(default_factory=ServiceSpec)
