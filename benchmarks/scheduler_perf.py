"""kube-scheduler's own performance workloads, as data: Kubernetes publishes them in test/integration/scheduler_perf,
each with a threshold of Pods per second below which its test fails.

Numbers and shapes equal those of Kubernetes 1.36, with two differences: Pods that exist at the start of a workload are
created on their nodes instead of being scheduled, and priorities come from a priority class, as admission requires.
NodePinning is a workload of this project. ``workloads`` (a real API server) and ``workloads_memory`` (sessions alone)
run the workloads.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from scheduler.api.names import GROUP_NAME, SCHEDULING_API_VERSION
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION

Manifest = dict[str, Any]
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
HIGH = "high"
"""The priority class of Pods that may preempt; all others have none, which is priority 0."""
CHURN_INTERVAL = 0.2
"""The seconds between two Pods of a churn."""
CONFIGURATION = DEFAULT_CONFIGURATION.replace("allocate, backfill", "allocate, backfill, preempt")
"""The configuration of our scheduler in all workloads: kube-scheduler preempts, too."""
TEAM = {"team": "devops"}
BIG_NODE = "the-node"


@dataclass(frozen=True, slots=True)
class Pods:
    """Pods from one template."""

    number: int = 0
    namespaces: tuple[str, ...] = ("default",)
    """The namespaces of the Pods, used in turn."""
    labels: Mapping[str, str] = field(default_factory=dict)
    cpu: str = "100m"
    memory: str = "500Mi"
    """The requests and limits; "" for neither."""
    priority: str = ""
    spec: Manifest = field(default_factory=dict)
    pinned: bool = False
    """The i-th may run on the i-th node only, as the Pods of a DaemonSet."""
    per_node: int = 1
    """For Pods that exist beforehand: the number of consecutive Pods on one node."""

    def bodies(self, prefix: str, scheduler_name: str, gang: int, nodes: int = 0) -> Iterator[Manifest]:
        """The Pods with their names; ``gang`` in a row share a PodGroup. ``nodes`` > 0: bound to so many in turn."""
        container: Manifest = {"name": "main", "image": "registry.k8s.io/pause:3.10", "ports": [{"containerPort": 80}]}
        if self.cpu:
            amounts = {"cpu": self.cpu, "memory": self.memory}
            container["resources"] = {"requests": amounts, "limits": amounts}
        for i in range(self.number):
            spec = {"terminationGracePeriodSeconds": 0, "containers": [container], **self.spec}
            if self.pinned:
                spec["affinity"] = on_node(node_name(i))
            if self.priority:
                spec["priorityClassName"] = self.priority
            if nodes:
                spec["nodeName"] = node_name(i // self.per_node % nodes)
            yield {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{prefix}-{i:05d}",
                    "namespace": self.namespaces[i % len(self.namespaces)],
                    "labels": dict(self.labels),
                    "annotations": {GROUP_NAME: f"{prefix}-{i // gang:05d}"},
                },
                "spec": {"schedulerName": scheduler_name, **spec},
            }

    def groups(self, prefix: str, gang: int) -> Iterator[Manifest]:
        """A PodGroup for every ``gang`` Pods, all of which start together (the last has fewer)."""
        for number, first in enumerate(range(0, self.number, gang)):
            per_namespace: dict[str, int] = {}
            for i in range(first, min(first + gang, self.number)):
                namespace = self.namespaces[i % len(self.namespaces)]
                per_namespace[namespace] = per_namespace.get(namespace, 0) + 1
            for namespace, minimum in per_namespace.items():
                yield {
                    "apiVersion": SCHEDULING_API_VERSION,
                    "kind": "PodGroup",
                    "metadata": {"name": f"{prefix}-{number:05d}", "namespace": namespace},
                    "spec": {"minMember": minimum, "queue": "default", "priorityClassName": self.priority},
                }


@dataclass(frozen=True, slots=True)
class Workload:
    """The existing objects, the Pods to schedule, and the expected rate."""

    name: str
    nodes: int
    measured: Pods
    initial: tuple[Pods, ...] = ()
    churn: Pods | None = None
    """The template of a Pod that is created every CHURN_INTERVAL while the other Pods are scheduled; these Pods do not
    count."""
    threshold: float = 0.0
    """The Pods per second that Kubernetes requires of kube-scheduler; 0 if none is published."""
    zones: tuple[str, ...] = ()
    tainted: int = 0
    """The number of nodes with a taint that no Pod tolerates."""
    service: Mapping[str, str] | None = None
    """The Pod selector of a Service."""

    @property
    def preempts(self) -> bool:
        """Whether Pods may be evicted, which takes Pods that belong to PodGroups."""
        return bool(self.measured.priority or (self.churn and self.churn.priority))

    @property
    def namespaces(self) -> list[str]:
        """The namespaces of the Pods, except ``default``."""
        names = {name for pods in (self.measured, *self.initial) for name in pods.namespaces}
        return sorted(names - {"default"})

    def surroundings(self) -> Iterator[Manifest]:
        """The namespaces, the priority class and a Service."""
        for name in self.namespaces:
            yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": TEAM}}
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": HIGH},
            "value": 10,
        }
        if self.service is not None:
            yield {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "service", "namespace": self.measured.namespaces[0]},
                "spec": {"selector": dict(self.service), "ports": [{"port": 80}]},
            }

    def scaled(self, nodes: int) -> "Workload":
        """The same workload for another number of nodes, all numbers in proportion."""

        def scale(number: int) -> int:
            return max(number * nodes // self.nodes, 1) if number else 0

        def fewer(pods: Pods) -> Pods:
            return replace(pods, number=scale(pods.number))

        return replace(
            self,
            nodes=nodes,
            measured=fewer(self.measured),
            initial=tuple(map(fewer, self.initial)),
            tainted=scale(self.tainted),
        )

    def node_bodies(self) -> Iterator[Manifest]:
        for i in range(self.nodes):
            name = node_name(i)
            labels = {HOSTNAME: name}
            if self.zones:
                labels[ZONE] = self.zones[i % len(self.zones)]
            taints = [{"key": "foo", "effect": "NoSchedule"}] if i < self.tainted else []
            yield _node(name, labels, taints)
        if self.name == "SchedulingDaemonset":
            yield _node(BIG_NODE, {HOSTNAME: BIG_NODE}, [], pods="90000")


def _node(name: str, labels: Mapping[str, str], taints: list[Manifest], pods: str = "110") -> Manifest:
    amounts = {"cpu": "4", "memory": "32Gi", "pods": pods}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {"taints": taints},
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def node_name(i: int) -> str:
    return f"node-{i:05d}"


# --- requests of Pods ---
def on_node(name: str) -> Manifest:
    field_ = {"key": "metadata.name", "operator": "In", "values": [name]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field_]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def in_zones(*zones: str) -> Manifest:
    expression = {"key": ZONE, "operator": "In", "values": list(zones)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def pod_affinity(kind: str, color: str, key: str, *, required: bool, team: bool = False) -> Manifest:
    """The (anti-)affinity (``podAffinity``, ``podAntiAffinity``) to Pods of one colour in both namespaces, or in the
    namespaces of the team."""
    term: Manifest = {"labelSelector": {"matchLabels": {"color": color}}, "topologyKey": key}
    if team:
        term["namespaceSelector"] = {"matchLabels": TEAM}
    else:
        term["namespaces"] = ["sched-1", "sched-0"]
    if required:
        return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    preferred = [{"podAffinityTerm": term, "weight": 1}]
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}


def spread(key: str, skew: int, when: str, labels: Mapping[str, str], **policies: str) -> Manifest:
    selector = {"matchLabels": dict(labels)}
    constraint = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector, **policies}
    return {"topologySpreadConstraints": [constraint]}


DEFAULT = Pods()
AWAY = Pods(labels={"color": "green"}, spec=pod_affinity("podAntiAffinity", "green", HOSTNAME, required=True))
NEAR = Pods(labels={"color": "blue"}, spec=pod_affinity("podAffinity", "blue", ZONE, required=True))
RATHER_NEAR = Pods(
    labels={"color": "red"}, spec=pod_affinity("podAffinity", "red", HOSTNAME, required=False), per_node=40
)
RATHER_AWAY = Pods(labels={"color": "yellow"}, spec=pod_affinity("podAntiAffinity", "yellow", HOSTNAME, required=False))
MOONS = ("moon-1", "moon-2", "moon-3")
BLUE = {"color": "blue"}
TEAMS = tuple(f"init-ns-{i}" for i in range(100))


def of(pods: Pods, number: int, *namespaces: str) -> Pods:
    return replace(pods, number=number, namespaces=namespaces or ("default",))


def _pair(
    name: str, pods: Pods, initial: int, measured: int, threshold: float, zones: tuple[str, ...] = ()
) -> Workload:
    """Pods of one kind, first in one namespace, then in another namespace."""
    there, coming = of(pods, initial, "sched-0"), of(pods, measured, "sched-1")
    return Workload(name, 5000, coming, (there,), threshold=threshold, zones=zones)


def _teams(
    name: str, kind: str, color: str, key: str, required: bool, per_team: int, measured: int, threshold: float
) -> Workload:
    """The same with a hundred namespaces that a selector matches."""
    spec = pod_affinity(kind, color, key, required=required, team=True)
    pods = Pods(labels={"color": color}, spec=spec)
    return Workload(
        name,
        6000 if kind == "podAntiAffinity" and required else 5000,
        of(pods, measured, "measure-ns-0"),
        (of(pods, per_team * len(TEAMS), *TEAMS),),
        threshold=threshold,
        zones=("zone1",) if key == ZONE else (),
    )


LOW_PRIORITY = Pods(20_000, cpu="900m")
HIGH_PRIORITY = Pods(cpu="3", priority=HIGH)

WORKLOADS: Mapping[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload("SchedulingBasic", 5000, of(DEFAULT, 10_000), (of(DEFAULT, 1000),), threshold=270),
        Workload(
            "SchedulingDaemonset", 15_000, Pods(30_000, cpu="", spec={"affinity": on_node(BIG_NODE)}), threshold=390
        ),
        Workload("NodePinning", 5000, Pods(5000, pinned=True)),
        _pair("SchedulingPodAntiAffinity", AWAY, 1000, 2000, 60),
        Workload(
            "SchedulingPodMatchingAntiAffinity",
            5000,
            Pods(5000, ("sched-1",), labels={"color": "green"}),
            (of(AWAY, 1000, "sched-0"),),
            threshold=600,
        ),
        _pair("SchedulingPodAffinity", NEAR, 5000, 5000, 35, zones=("zone1",)),
        _pair("SchedulingPreferredPodAffinity", RATHER_NEAR, 5000, 5000, 90),
        _pair("SchedulingPreferredPodAntiAffinity", RATHER_AWAY, 5000, 5000, 90),
        Workload(
            "SchedulingNodeAffinity",
            5000,
            Pods(10_000, spec=in_zones("zone1", "zone2")),
            (of(DEFAULT, 5000),),
            threshold=220,
            zones=("zone1",),
        ),
        Workload(
            "TopologySpreading",
            5000,
            Pods(5000, labels=BLUE, spec=spread(ZONE, 5, "DoNotSchedule", BLUE)),
            (of(DEFAULT, 5000),),
            threshold=85,
            zones=MOONS,
        ),
        Workload(
            "PreferredTopologySpreading",
            5000,
            Pods(5000, labels=BLUE, spec=spread(ZONE, 5, "ScheduleAnyway", BLUE)),
            (of(DEFAULT, 5000),),
            threshold=125,
            zones=MOONS,
        ),
        Workload(
            "DefaultTopologySpreading",
            5000,
            Pods(10_000, ("service-ns",), labels={"app": "perf"}, cpu=""),
            (of(DEFAULT, 5000),),
            zones=MOONS,
            service={"app": "perf"},
        ),
        Workload(
            "SchedulingWithNodeInclusionPolicy",
            5000,
            Pods(
                4000,
                labels={"foo": "bar"},
                spec=spread(
                    HOSTNAME,
                    1,
                    "DoNotSchedule",
                    {"foo": "bar"},
                    nodeAffinityPolicy="Honor",
                    nodeTaintsPolicy="Honor",
                ),
            ),
            threshold=68,
            tainted=1000,
        ),
        Workload("PreemptionBasic", 1000, replace(HIGH_PRIORITY, number=1000), (replace(LOW_PRIORITY, number=4000),)),
        Workload("PreemptionAsync", 5000, of(DEFAULT, 5000), (LOW_PRIORITY,), churn=HIGH_PRIORITY, threshold=160),
        Workload(
            "Unschedulable",
            5000,
            of(DEFAULT, 10_000),
            (of(DEFAULT, 100),),
            churn=replace(HIGH_PRIORITY, cpu="9"),
            threshold=170,
        ),
        Workload(
            "MixedSchedulingBasePod",
            5000,
            of(DEFAULT, 5000),
            tuple(of(pods, 2000, "sched-0") for pods in (DEFAULT, NEAR, AWAY, RATHER_NEAR, RATHER_AWAY)),
            threshold=140,
            zones=("zone1",),
        ),
        _teams(
            "SchedulingRequiredPodAntiAffinityWithNSSelector", "podAntiAffinity", "green", HOSTNAME, True, 40, 2000, 24
        ),
        _teams(
            "SchedulingPreferredAntiAffinityWithNSSelector", "podAntiAffinity", "green", HOSTNAME, False, 40, 2000, 55
        ),
        _teams("SchedulingRequiredPodAffinityWithNSSelector", "podAffinity", "blue", ZONE, True, 50, 2000, 35),
        _teams("SchedulingPreferredAffinityWithNSSelector", "podAffinity", "red", HOSTNAME, False, 50, 5000, 90),
    )
}
