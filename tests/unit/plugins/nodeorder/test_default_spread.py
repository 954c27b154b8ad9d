"""Pods of Services and workloads without constraints are spread over hosts and zones."""

from typing import Any

import pytest

from tests.builders import Raw, World, configuration, group, node, pod, pods

SCORES = ("leastrequested", "nodeaffinity", "podaffinity", "balancedresource", "tainttoleration", "imagelocality")
ONLY_SPREAD = {f"{name}.weight": 0 for name in SCORES} | {"podtopologyspread.weight": 2}
CONF = configuration(["gang"], ["nodeorder"], arguments={"nodeorder": ONLY_SPREAD})
NODES = [node(f"n{i}", "9c", {"topology.kubernetes.io/zone": "ab"[i // 2]}) for i in range(4)]
X = {"app": "x"}


def service(selector: dict[str, str] | None, namespace: str = "default", name: str = "s") -> Raw:
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"selector": selector}}


def replica_set(selector: Any, api_version: str = "apps/v1", kind: str = "ReplicaSet") -> Raw:
    spec = {"replicas": 0, "selector": selector}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "r", "namespace": "default"}, "spec": spec}


def made_by(name: str, kind: str, api_version: str = "apps/v1", *, controller: bool = True) -> Raw:
    owner = {"apiVersion": api_version, "kind": kind, "name": "r", "uid": "u", "controller": controller}
    body = pod(name, "", "g", labels=X)
    body["metadata"]["ownerReferences"] = [owner]
    return body


def nodes_of(*objects: Raw | list[Raw]) -> int:
    """The number of nodes on which four Pods of a gang are placed."""
    world = World(NODES, group("g", minimum=4), *objects).run(CONF)
    assert len(world.bound) == 4
    return len(set(world.bound.values()))


def test_pods_of_a_service_are_spread_and_other_pods_are_not() -> None:
    gang = pods("p", 4, "", "g", labels=X)
    assert nodes_of(gang, service(X)) == 4
    assert nodes_of(gang, service({"app": "y"})) == 1
    assert nodes_of(gang, service(X, namespace="other")) == 1
    assert nodes_of(gang, service(None)) == nodes_of(gang, service({})) == 1


@pytest.mark.parametrize(
    ("kind", "api_version", "selector"),
    [
        ("ReplicaSet", "apps/v1", {"matchLabels": X}),
        ("StatefulSet", "apps/v1", {"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
        ("ReplicationController", "v1", X),
    ],
)
def test_pods_of_a_workload_are_spread(kind: str, api_version: str, selector: Any) -> None:
    gang = [made_by(f"p-{i}", kind, api_version) for i in range(4)]
    assert nodes_of(gang, replica_set(selector, api_version, kind)) == 4


def test_pods_that_a_workload_selects_but_does_not_own_are_not_spread() -> None:
    workload = replica_set({"matchLabels": X})
    assert nodes_of([made_by(f"p-{i}", "ReplicaSet", controller=False) for i in range(4)], workload) == 1
    assert nodes_of([made_by(f"p-{i}", "Job", "batch/v1") for i in range(4)], workload) == 1


def test_a_pod_with_its_own_constraints_has_no_default_constraints() -> None:
    own = {"maxSkew": 9, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    assert nodes_of(pods("p", 4, "", "g", labels=X, topologySpreadConstraints=[own]), service(X)) == 1


def test_only_pods_that_all_selectors_of_a_pod_select_count() -> None:
    """n0 and n1 each have a Pod of one of the two Services, n2 has a Pod of both."""
    both = {"app": "x", "tier": "y"}
    there = [pod("a", on="n0", labels=X), pod("b", on="n1", labels={"tier": "y"}), pod("c", on="n2", labels=both)]
    services = [service(X), service({"tier": "y"}, name="t")]
    world = World(NODES, there, services, group("g"), pod("p", "", "g", labels=both)).run(CONF)

    assert world.bound == {"p": "n0"}


def test_a_node_without_a_zone_counts_as_a_host() -> None:
    nodes = [node("n0", "9c", {"topology.kubernetes.io/zone": "a"}), node("n1", "9c")]
    world = World(nodes, service(X), pod("r", on="n0", labels=X), group("g"), pod("p", "", "g", labels=X)).run(CONF)

    assert world.bound == {"p": "n1"}
