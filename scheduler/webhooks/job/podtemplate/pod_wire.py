"""A Pod template as typed structs, apart from its containers and volumes."""

from msgspec import field

from scheduler.api.objects import ResourceList, Toleration, Wire
from scheduler.webhooks.job.podtemplate.container_wire import Container
from scheduler.webhooks.job.podtemplate.volume_wire import Volume
from scheduler.webhooks.job.podtemplate.wire import (
    Int32,
    Int64,
    LabelSelector,
    Loose,
    Meta,
    Named,
    Profile,
    Requirement,
    Resources,
)


class NodeSelectorTerm(Wire):
    match_expressions: list[Requirement] = field(default_factory=list)
    match_fields: list[Requirement] = field(default_factory=list)


class NodeSelector(Wire):
    node_selector_terms: list[NodeSelectorTerm] = field(default_factory=list)


class PreferredTerm(Wire):
    weight: Int32 = 0
    preference: NodeSelectorTerm = field(default_factory=NodeSelectorTerm)


class NodeAffinity(Wire):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredTerm] = field(default_factory=list)


class PodAffinityTerm(Wire):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] = field(default_factory=list)
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] = field(default_factory=list)
    mismatch_label_keys: list[str] = field(default_factory=list)


class WeightedTerm(Wire):
    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = field(default_factory=PodAffinityTerm)


class PodAffinity(Wire):
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] = field(default_factory=list)
    preferred_during_scheduling_ignored_during_execution: list[WeightedTerm] = field(default_factory=list)


class Affinity(Wire):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SpreadConstraint(Wire):
    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] = field(default_factory=list)


class Sysctl(Wire):
    name: str = ""
    value: str = ""


class PodSecurityContext(Wire):
    fs_group: Int64 | None = None
    fs_group_change_policy: str | None = None
    run_as_user: Int64 | None = None
    run_as_group: Int64 | None = None
    supplemental_groups: list[Int64] = field(default_factory=list)
    supplemental_groups_policy: str | None = None
    se_linux_change_policy: str | None = None
    sysctls: list[Sysctl] = field(default_factory=list)
    seccomp_profile: Profile | None = None
    app_armor_profile: Profile | None = None


class DnsConfig(Wire):
    nameservers: list[str] = field(default_factory=list)
    searches: list[str] = field(default_factory=list)
    options: list[Named] = field(default_factory=list)


class HostAlias(Wire):
    ip: str = ""
    hostnames: list[str] = field(default_factory=list)


class ReadinessGate(Wire):
    condition_type: str = ""


class PodResourceClaim(Wire):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(Wire):
    containers: list[Container] = field(default_factory=list)
    init_containers: list[Container] = field(default_factory=list)
    ephemeral_containers: list[Loose] = field(default_factory=list)
    volumes: list[Volume] = field(default_factory=list)
    restart_policy: str = ""
    dns_policy: str = ""
    dns_config: DnsConfig | None = None
    node_selector: dict[str, str] = field(default_factory=dict)
    node_name: str = ""
    service_account_name: str = ""
    host_network: bool = False
    host_pid: bool = field(default=False, name="hostPID")
    host_ipc: bool = field(default=False, name="hostIPC")
    host_users: bool | None = None
    share_process_namespace: bool | None = None
    set_hostname_as_fqdn: bool | None = field(default=None, name="setHostnameAsFQDN")
    security_context: PodSecurityContext = field(default_factory=PodSecurityContext)
    affinity: Affinity | None = None
    tolerations: list[Toleration] = field(default_factory=list)
    topology_spread_constraints: list[SpreadConstraint] = field(default_factory=list)
    readiness_gates: list[ReadinessGate] = field(default_factory=list)
    scheduling_gates: list[Named] = field(default_factory=list)
    resource_claims: list[PodResourceClaim] = field(default_factory=list)
    resources: Resources | None = None
    overhead: ResourceList = field(default_factory=dict)
    active_deadline_seconds: Int64 | None = None
    termination_grace_period_seconds: Int64 = 30
    hostname: str = ""
    hostname_override: str | None = None
    subdomain: str = ""
    host_aliases: list[HostAlias] = field(default_factory=list)
    priority_class_name: str = ""
    runtime_class_name: str | None = None
    preemption_policy: str | None = None
    scheduler_name: str = ""
    os: Named | None = None


class PodTemplate(Wire):
    metadata: Meta = field(default_factory=Meta)
    spec: PodSpec = field(default_factory=PodSpec)
