"""The objects of ``scheduling.volcano.sh``, ``topology.volcano.sh`` and ``nodeinfo.volcano.sh``, as typed structs.

The structs have only the fields that the program uses, as in ``objects``.
"""

from typing import Any, Final

import msgspec

from scheduler.api.objects import KubeObject, LabelSelector, ResourceList, Wire


# --- PodGroup ---
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


# --- Queue ---
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


class QueueStatus(Wire):
    state: str = ""
    allocated: ResourceList | None = None
    pending: int | None = None
    inqueue: int | None = None
    running: int | None = None
    unknown: int | None = None
    completed: int | None = None
    cards: Any = None
    """Written by the scheduler (``Queue.cards``)."""
    deserved: Any = None
    """Written by the scheduler (``Queue.shown_deserved``)."""
    without_queue: Any = None
    """Written by the scheduler into the status of the root (``Queue.without_queue``)."""


class Queue(KubeObject):
    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)
    status: QueueStatus = msgspec.field(default_factory=QueueStatus)


# --- Numatopology ---
class NumaResource(Wire):
    allocatable: str = ""
    """Free ids, as a list of ranges: ``0-3,8``."""


class CpuDetail(Wire):
    """The location of a logical cpu. Core ids are unique only within a socket."""

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
    """Pods whose cpus are already subtracted from ``allocatable``."""


class Numatopology(KubeObject):
    """The NUMA topology of the Node with the same name."""

    spec: NumatopologySpec = msgspec.field(default_factory=NumatopologySpec)


# --- HyperNode ---
MEMBER_NODE: Final = "Node"
MEMBER_HYPER_NODE: Final = "HyperNode"


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
    """MEMBER_NODE or MEMBER_HYPER_NODE."""
    selector: MemberSelector = msgspec.field(default_factory=MemberSelector)


class HyperNodeSpec(Wire):
    tier: int = 0
    tier_name: str = ""
    members: list[HyperNodeMember] | None = None


class HyperNodeStatus(Wire):
    node_count: int = 0


class HyperNode(KubeObject):
    """A group of Nodes, or of HyperNodes of lower tiers, that are close to each other in the network."""

    spec: HyperNodeSpec = msgspec.field(default_factory=HyperNodeSpec)
    status: HyperNodeStatus = msgspec.field(default_factory=HyperNodeStatus)


# --- NodeShard ---
class NodeShardSpec(Wire):
    nodes_desired: list[str] | None = None
    """Names of the nodes that the scheduler of the shard shall use."""


class NodeShardStatus(Wire):
    last_update_time: str | None = None
    nodes_in_use: list[str] | None = None
    """Names of the nodes that the scheduler of the shard has claimed."""
    nodes_to_add: list[str] | None = None
    """Names of desired nodes that it has not claimed yet."""
    nodes_to_remove: list[str] | None = None
    """Names of claimed nodes that it has to give up."""


class NodeShard(KubeObject):
    """The part of the cluster that one of several schedulers uses."""

    spec: NodeShardSpec = msgspec.field(default_factory=NodeShardSpec)
    status: NodeShardStatus = msgspec.field(default_factory=NodeShardStatus)
