"""A tenant with the ClusterRole `edit` in one namespace writes the largest objects that the API server accepts; the
Pods of other tenants are still bound. docs/hostile-input.md lists the costs of each object."""

import json
import urllib.request
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import pytest

from controlplane.client import ApiError
from controlplane.process import free_ports
from controlplane.run import ControlPlane
from scheduler.api.names import CARD_REQUEST, GROUP_NAME
from scheduler.framework.search_limit import FIRST_COST, TURN_COST
from tests.device_builders import claim, device_class, gpus, request, resource_slice
from tests.integration.rights import account
from tests.integration.stage import GROUPS, Namespace, Role, emptied, running, wait
from tests.integration.tenant import tenant

pytestmark = pytest.mark.controlplane

Raw = dict[str, Any]
BATCH, FLOW, RESOURCES = "/apis/batch.volcano.sh/v1alpha1", "/apis/flow.volcano.sh/v1alpha1", "/apis/resource.k8s.io/v1"
CONFIGURATION = """
actions: "enqueue, allocate, backfill, preempt, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: sla}, {name: pdb}]
- plugins:
  - {name: overcommit}
  - {name: drf}
  - {name: predicates}
  - {name: proportion}
  - {name: nodeorder}
  - {name: binpack}
  - {name: task-topology}
  - {name: deviceshare, arguments: {deviceshare.VGPUEnable: true}}
  - {name: ascend}
  - {name: capacity-card}
"""
TWENTY = f"[{','.join(map(str, range(20)))}]"


class Cluster:
    """The roles at work, with a namespace of a tenant who means well."""

    def __init__(self, victim: Namespace, roles: tuple[Role, ...], health: str) -> None:
        self.victim, self.roles, self.health = victim, roles, health
        self._pods = 0

    def binds_others(self) -> bool:
        """Whether a new Pod of the other tenant is bound, while the roles answer their probes."""
        self._pods += 1
        name = f"p{self._pods}"
        self.victim.group(name, 1)
        self.victim.pod(name, name, {"cpu": "10m"})
        self.victim.wait(lambda: name in self.victim.bound())
        with urllib.request.urlopen(self.health, timeout=10) as answer:
            assert answer.status == 200
        return all(role.process.poll() is None for role in self.roles)


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    emptied(control_plane)
    victim, directory = Namespace(control_plane), tmp_path_factory.mktemp("roles")
    node = victim.node("n")
    control_plane.admin.create(f"{RESOURCES}/deviceclasses", device_class("hostile"))
    control_plane.admin.create(f"{RESOURCES}/resourceslices", resource_slice(gpus(128), node))
    (port,) = free_ports(1)
    file = directory / "scheduler.conf"
    file.write_text(CONFIGURATION, encoding="utf-8")
    options = (f"--scheduler-conf={file}", "--enable-healthz=true", f"--healthz-address=127.0.0.1:{port}")
    with (
        running("controllers", account(control_plane, "controllers"), directory, "--leader-elect=false") as controllers,
        victim.scheduled(directory, *options) as scheduler,
    ):
        yield Cluster(victim, (controllers, scheduler), f"http://127.0.0.1:{port}/healthz")
    control_plane.admin.delete(f"{RESOURCES}/resourceslices/{node}-gpu.example.com")
    control_plane.admin.delete(f"{RESOURCES}/deviceclasses/hostile")


@pytest.fixture
def attacker(cluster: Cluster, control_plane: ControlPlane) -> Iterator[Namespace]:
    """A namespace whose objects are created as its tenant, on the nodes of the victim."""
    made = Namespace(control_plane)
    theirs = copy(made)
    theirs.api = tenant(control_plane, made.name)
    yield theirs
    for path in (f"{BATCH}/namespaces/{made.name}/jobs", f"{GROUPS}/namespaces/{made.name}/podgroups"):
        made.api.delete(path)
    made.api.delete(f"{made.path}/pods?gracePeriodSeconds=0")


def term(number: int) -> Raw:
    return {"key": f"k{number}", "operator": "In", "values": [f"v{number}"]}


def affinity(kind: str, terms: Any) -> Raw:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def spread(number: int) -> Raw:
    selector = {"matchExpressions": [term(number)]}
    rest = {"topologyKey": f"zone-{number}", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"maxSkew": 1, **rest}


TERMS = {"matchExpressions": [term(i) for i in range(10_000)]}
HOST = "kubernetes.io/hostname"
PODS: dict[str, Callable[[], Raw]] = {
    "a Pod affinity whose selector has 10,000 terms": lambda: affinity(
        "podAffinity", [{"topologyKey": HOST, "labelSelector": TERMS}]
    ),
    "a Pod affinity whose namespace selector has 10,000 terms": lambda: affinity(
        "podAffinity", [{"topologyKey": HOST, "labelSelector": {}, "namespaceSelector": TERMS}]
    ),
    "a Pod affinity with 10,000 namespaces": lambda: affinity(
        "podAffinity", [{"topologyKey": HOST, "labelSelector": {}, "namespaces": [f"n{i}" for i in range(10_000)]}]
    ),
    "an anti-affinity of 2,000 terms": lambda: affinity(
        "podAntiAffinity",
        [{"topologyKey": f"zone-{i}", "labelSelector": {"matchExpressions": [term(i)]}} for i in range(2_000)],
    ),
    "a node affinity of 5,000 terms": lambda: affinity(
        "nodeAffinity", {"nodeSelectorTerms": [{"matchExpressions": [term(i)]} for i in range(5_000)]}
    ),
    "5,000 tolerations": lambda: {
        "tolerations": [{"key": f"k{i}", "operator": "Exists"} for i in range(5_000)],
        "nodeSelector": {"no": "node"},
    },
    "500 topology constraints": lambda: {"topologySpreadConstraints": [spread(i) for i in range(500)]},
    "64 volumes without claims": lambda: {
        "volumes": [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"c{i}"}} for i in range(64)]
    },
    "500 resources that no node has": lambda: {
        "resources": {key: {f"example.com/r{i}": "1" for i in range(500)} for key in ("requests", "limits")}
    },
    "the largest amounts": lambda: {
        "resources": {key: {"cpu": "9223372036854775807", "memory": "9223372036854775807Ei"} for key in ("requests",)}
    },
}
"""Maps the name of an attack to the fields in the spec of a Pod."""


@pytest.mark.parametrize("what", PODS)
def test_the_pods_of_others_are_bound_beside_a_pod_with(what: str, cluster: Cluster, attacker: Namespace) -> None:
    attacker.group("evil", 1)
    attacker.pod("evil", "evil", {}, **{"nodeSelector": {}, **PODS[what]()})

    assert cluster.binds_others()

    wait(lambda: "evil" in attacker.bound() or attacker.condition("evil")["message"] or refused(attacker, "evil"))
    assert cluster.binds_others()


def refused(namespace: Namespace, group: str) -> bool:
    """Whether the scheduler has said why a PodGroup waits."""
    return bool((namespace.get_group(group).get("status") or {}).get("conditions"))


def test_the_pods_of_others_are_bound_beside_annotations_of_256_kib(cluster: Cluster, attacker: Namespace) -> None:
    texts = ("[" * 250_000, json.dumps({f"card-{i}": 1 for i in range(14_000)}), "{" * 250_000, "1" * 250_000)
    for number, text in enumerate(texts):
        for key in (CARD_REQUEST, "sla-waiting-time", "huawei.com/schedule_minAvailable"):
            name = f"evil-{number}-{len(key)}"
            attacker.group(name, 1, annotations={key: text})
            attacker.pod(name, name, {"cpu": "1m"}, {key: text}, nodeSelector={"no": "node"})

    assert cluster.binds_others()


def test_the_pods_of_others_are_bound_beside_a_claim_of_a_thousand_costly_expressions(
    cluster: Cluster, attacker: Namespace
) -> None:
    def costly(number: int) -> str:
        loops = f"{TWENTY}.all(a, {TWENTY}.all(b, {TWENTY}.all(c, a + b + c + {number} >= 0)))"
        return f'{loops} && device.attributes["gpu.example.com"].index >= 0'

    requests = [request(f"r{i}", "hostile", *(costly(32 * i + j) for j in range(32))) for i in range(32)]
    body = claim("costly", *requests)
    del body["metadata"]["namespace"]
    attacker.api.create(f"{RESOURCES}/namespaces/{attacker.name}/resourceclaims", body)
    attacker.group("evil", 1)
    claims = [{"name": "c", "resourceClaimName": "costly"}]
    attacker.pod("evil", "evil", {}, nodeSelector={}, resourceClaims=claims, resources={"claims": [{"name": "c"}]})

    assert cluster.binds_others()

    wait(lambda: "choosing devices takes more than one session" in attacker.condition("evil")["message"])
    assert cluster.binds_others()
    assert "evil" not in attacker.bound()


def test_the_pods_of_others_are_bound_beside_jobs_of_a_billion_pods_and_cycles(
    cluster: Cluster, attacker: Namespace
) -> None:
    template = {"spec": {"containers": [{"name": "m", "image": "i"}], "restartPolicy": "Never"}}

    def task(name: str, replicas: int, *after: str) -> Raw:
        depends = {"dependsOn": {"name": list(after)}} if after else {}
        return {"name": name, "replicas": replicas, "template": template, **depends}

    def create(path: str, kind: str, name: str, spec: Raw) -> None:
        group, version = path.split("/")[2:]
        body = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": name}, "spec": spec}
        plural = f"{kind.lower()}s"
        try:
            attacker.api.create(f"{path}/namespaces/{attacker.name}/{plural}", body)
        except ApiError as error:  # refused by its schema
            assert error.status in (400, 422)

    job = {"schedulerName": "volcano-py", "minAvailable": 1}
    create(BATCH, "Job", "billion", {**job, "tasks": [task("w", 10**9)]})
    create(BATCH, "Job", "gang", {**job, "minAvailable": 10**9, "tasks": [task("w", 10**9)]})
    create(BATCH, "Job", "cycle", {**job, "tasks": [task("a", 1, "b"), task("b", 1, "a")]})
    flows = [{"name": f"s{i}", "dependsOn": {"targets": [f"s{(i + 1) % 50}"]}} for i in range(50)]
    create(FLOW, "JobTemplate", "s0", {**job, "tasks": [task("w", 1)]})
    create(FLOW, "JobFlow", "circle", {"jobRetainPolicy": "retain", "flows": flows})
    attacker.api.create(
        f"{GROUPS}/namespaces/{attacker.name}/podgroups",
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "huge"},
            "spec": {"minMember": 10**9, "minTaskMember": {f"t{i}": 10**9 for i in range(100)}},
        },
    )
    attacker.pod("huge", "huge", {"cpu": "1m"}, nodeSelector={})

    assert cluster.binds_others()
    assert "huge" not in attacker.bound()
    assert cluster.binds_others()


def test_the_pods_of_others_are_bound_beside_many_pods_that_avoid_everything(
    cluster: Cluster, attacker: Namespace
) -> None:
    everywhere = [{"topologyKey": HOST, "labelSelector": {"matchExpressions": [term(0)]}, "namespaceSelector": {}}]
    for i in range(100):
        own = [{"topologyKey": HOST, "labelSelector": {"matchExpressions": [term(i)]}} for _ in range(20)]
        attacker.pod(
            f"evil-{i}",
            f"evil-{i}",
            {"cpu": f"{1000 + i}"},
            {GROUP_NAME: f"evil-{i}"},
            nodeSelector={},
            **affinity("podAntiAffinity", [*everywhere, *own]),
        )
        attacker.group(f"evil-{i}", 1)

    assert cluster.binds_others()


def test_the_pods_of_others_are_bound_beside_many_different_pods_that_fit_nowhere(
    cluster: Cluster, attacker: Namespace
) -> None:
    number = FIRST_COST + TURN_COST + 20
    for i in range(number):
        attacker.group(f"evil-{i}", 1)
        attacker.pod(f"evil-{i}", f"evil-{i}", {"cpu": f"{1 + i}m"}, nodeSelector={"no": "node"})

    assert cluster.binds_others()

    def reason(name: str) -> str:
        message: str = attacker.condition(name)["message"]
        return message

    wait(lambda: all("node affinity/selector" in reason(f"evil-{i}") for i in (0, number // 2, number - 1)))
    assert cluster.binds_others()
