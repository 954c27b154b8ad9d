"""Predicates at their edges: selectors that make no sense, zones of volumes, ports of the host's network, runs."""

from typing import Any

import pytest

from scheduler.api.task import TaskClass
from scheduler.framework.session import Session
from tests.builders import Raw, World, configuration, group, node, pod, pods

CONF = configuration(["gang"], ["predicates"])
ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
SENSELESS = {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["x"]}]}


def look(world: World, name: str = "p") -> tuple[set[str], Session, TaskClass]:
    """The nodes that take a pending Pod, the session that says so, the Pod's class."""
    session = world.session(CONF)
    job, task = next((j, t) for j in session.jobs.values() for t in j.tasks() if t.name == name)
    view = session.view(task.cls, job)
    return {n for n, row in session.nodes.index.items() if view.admits(row)}, session, task.cls


def required(kind: str, selector: Raw, key: str = HOST) -> Raw:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": selector, "topologyKey": key}]}}


def wants(operator: str, *values: str) -> Raw:
    term = {"matchExpressions": [{"key": "gen", "operator": operator, "values": list(values)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def spread(selector: Raw) -> list[Raw]:
    return [{"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]


# --- selectors that make no sense ---
@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": required("podAffinity", SENSELESS)},
        {"affinity": required("podAntiAffinity", SENSELESS)},
        {"topologySpreadConstraints": spread(SENSELESS)},
        {"affinity": wants("NotIn")},
        {"affinity": required("podAntiAffinity", {"matchExpressions": [{"key": "app", "operator": "NotIn"}]})},
    ],
)
def test_a_pod_whose_selector_makes_no_sense_is_placed_nowhere_and_told_so(spec: Raw) -> None:
    found, session, _ = look(World(node("n1"), group("g"), pod("p", "1c", "g", **spec)))

    assert found == set()
    assert {(m.kind, m.name) for m in session.malformed} == {("Pod", "p")}


def test_what_is_wrong_with_the_pod_itself_is_all_that_is_told() -> None:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "nope"}}
    world = World(node("n1", "0c"), node("n2", unschedulable=True), group("g"), pod("p", "1c", "g", volumes=[volume]))
    (condition,) = world.run(CONF).get("Pod", "p")["status"]["conditions"]
    assert condition["message"] == '0/2 nodes are unavailable: 2 persistentvolumeclaim "nope" not found.'


def test_a_senseless_term_of_another_pod_is_not_told_of_this_one() -> None:
    other = pod("other", on="n1", affinity=required("podAntiAffinity", SENSELESS))

    found, session, _ = look(World(node("n1"), other, group("g"), pod("p", "1c", "g", labels={"app": "x"})))

    assert found == {"n1"}
    assert session.malformed == []


@pytest.mark.parametrize("value", ["1_0", " 10", "9300000000000000000", "ten"])
def test_only_plain_64_bit_numbers_compare(value: str) -> None:
    found, _, _ = look(
        World(node("n1", labels={"gen": value}), group("g"), pod("p", "1c", "g", affinity=wants("Gt", "5")))
    )

    assert found == set()


# --- spreading ---
def test_terminating_pods_do_not_count_for_spreading() -> None:
    nodes = [node("n1"), node("n2")]
    leaving = pod("q", "1c", "g", on="n1", labels={"app": "x"}, deleting=True)
    waiting = pod("p", "1c", "g", labels={"app": "x"}, topologySpreadConstraints=spread({"matchLabels": {"app": "x"}}))

    assert look(World(nodes, group("g"), leaving, waiting))[0] == {"n1", "n2"}
    assert look(World(nodes, group("g"), leaving | {"metadata": _alive(leaving)}, waiting))[0] == {"n2"}


def test_nor_do_those_of_other_schedulers() -> None:
    nodes = [node("n1"), node("n2")]
    leaving = pod("q", "1c", on="n1", labels={"app": "x"}, deleting=True, scheduler="other")
    waiting = pod("p", "1c", "g", labels={"app": "x"}, topologySpreadConstraints=spread({"matchLabels": {"app": "x"}}))

    assert look(World(nodes, group("g"), leaving, waiting))[0] == {"n1", "n2"}


def _alive(raw: Raw) -> dict[str, Any]:
    return {key: value for key, value in raw["metadata"].items() if key != "deletionTimestamp"}


def test_a_spread_selector_that_looks_at_no_label_counts_nobody() -> None:
    world = World(
        [node("n1"), node("n2")],
        pod("q", on="n1"),
        group("g"),
        pod("p", "1c", "g", topologySpreadConstraints=spread({})),
    )

    assert look(world)[0] == {"n1", "n2"}


# --- zones of volumes ---
@pytest.mark.parametrize("label", [ZONE, OLD_ZONE])
def test_a_volume_binds_to_its_zone_by_the_new_label_or_the_old(label: str) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"volumeName": "v"},
    }
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v", "labels": {label: "b__c"}}}
    nodes = [node("n1", labels={ZONE: "a"}), node("n2", labels={ZONE: "b"}), node("zoneless")]
    uses = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]

    found, _, _ = look(World(nodes, claim, {**volume, "spec": {}}, group("g"), pod("p", "1c", "g", volumes=uses)))

    assert found == {"n2", "zoneless"}


# --- ports ---
def test_on_the_hosts_network_every_port_is_a_host_port() -> None:
    body: Raw = {"hostNetwork": True, "containers": [{"name": "m", "ports": [{"containerPort": 80}]}]}

    assert look(World([node("n1"), node("n2")], pod("q", on="n1", **body), group("g"), pod("p", "", "g", **body)))[
        0
    ] == {"n2"}


# --- runs ---
def test_a_gang_of_one_pod_per_host_is_placed_in_runs() -> None:
    apart = required("podAntiAffinity", {"matchLabels": {"app": "x"}})
    world = World(
        [node(f"n{i}", "9c") for i in range(5)],
        group("g", minimum=4),
        pods("p", 4, "1c", "g", labels={"app": "x"}, affinity=apart),
    )
    _, session, cls = look(world, "p-0")
    view = session.view(cls, session.jobs["default/g"])

    assert len(set(view.choose(4))) == 4
    assert len(set(world.run(CONF).bound.values())) == len(world.bound) == 4
