"""Edge cases of filters: invalid selectors, zones of volumes, ports on the host network, runs."""

from typing import Any

import pytest

from scheduler.api.task import TaskClass
from scheduler.framework.session import Session
from tests.builders import Raw, World, configuration, group, node, pod, pods

CONF = configuration(["gang"], ["predicates"])
ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
INVALID = {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["x"]}]}


def admitting_nodes(world: World, name: str = "p") -> tuple[set[str], Session, TaskClass]:
    """Returns the nodes that pass all filters for a pending Pod, the session, and the Pod's class."""
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


# --- invalid selectors ---
@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": required("podAffinity", INVALID)},
        {"affinity": required("podAntiAffinity", INVALID)},
        {"topologySpreadConstraints": spread(INVALID)},
        {"affinity": wants("NotIn")},
        {"affinity": required("podAntiAffinity", {"matchExpressions": [{"key": "app", "operator": "NotIn"}]})},
    ],
)
def test_a_pod_with_an_invalid_selector_is_not_scheduled_and_the_field_is_reported(spec: Raw) -> None:
    found, session, _ = admitting_nodes(World(node("n1"), group("g"), pod("p", "1c", "g", **spec)))

    assert found == set()
    assert {(m.kind, m.name) for m in session.malformed} == {("Pod", "p")}


def test_only_the_invalid_fields_of_the_pod_itself_are_reported() -> None:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "nope"}}
    world = World(node("n1", "0c"), node("n2", unschedulable=True), group("g"), pod("p", "1c", "g", volumes=[volume]))
    (condition,) = world.run(CONF).get("Pod", "p")["status"]["conditions"]
    assert condition["message"] == '0/2 nodes are unavailable: 2 persistentvolumeclaim "nope" not found.'


def test_an_invalid_term_of_another_pod_is_not_reported_for_this_pod() -> None:
    other = pod("other", on="n1", affinity=required("podAntiAffinity", INVALID))

    found, session, _ = admitting_nodes(World(node("n1"), other, group("g"), pod("p", "1c", "g", labels={"app": "x"})))

    assert found == {"n1"}
    assert session.malformed == []


@pytest.mark.parametrize("value", ["1_0", " 10", "9300000000000000000", "ten"])
def test_only_decimal_64_bit_integers_are_compared(value: str) -> None:
    found, _, _ = admitting_nodes(
        World(node("n1", labels={"gen": value}), group("g"), pod("p", "1c", "g", affinity=wants("Gt", "5")))
    )

    assert found == set()


# --- spreading ---
def test_terminating_pods_do_not_count_for_spreading() -> None:
    nodes = [node("n1"), node("n2")]
    leaving = pod("q", "1c", "g", on="n1", labels={"app": "x"}, deleting=True)
    waiting = pod("p", "1c", "g", labels={"app": "x"}, topologySpreadConstraints=spread({"matchLabels": {"app": "x"}}))

    assert admitting_nodes(World(nodes, group("g"), leaving, waiting))[0] == {"n1", "n2"}
    assert admitting_nodes(World(nodes, group("g"), leaving | {"metadata": _alive(leaving)}, waiting))[0] == {"n2"}


def test_terminating_pods_of_other_schedulers_do_not_count_for_spreading() -> None:
    nodes = [node("n1"), node("n2")]
    leaving = pod("q", "1c", on="n1", labels={"app": "x"}, deleting=True, scheduler="other")
    waiting = pod("p", "1c", "g", labels={"app": "x"}, topologySpreadConstraints=spread({"matchLabels": {"app": "x"}}))

    assert admitting_nodes(World(nodes, group("g"), leaving, waiting))[0] == {"n1", "n2"}


def _alive(raw: Raw) -> dict[str, Any]:
    return {key: value for key, value in raw["metadata"].items() if key != "deletionTimestamp"}


def test_an_empty_spread_selector_counts_no_pods() -> None:
    world = World(
        [node("n1"), node("n2")],
        pod("q", on="n1"),
        group("g"),
        pod("p", "1c", "g", topologySpreadConstraints=spread({})),
    )

    assert admitting_nodes(world)[0] == {"n1", "n2"}


# --- zones of volumes ---
@pytest.mark.parametrize("label", [ZONE, OLD_ZONE])
def test_a_volume_restricts_its_pod_to_its_zone_by_the_current_or_the_deprecated_label(label: str) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"volumeName": "v"},
    }
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v", "labels": {label: "b__c"}}}
    nodes = [node("n1", labels={ZONE: "a"}), node("n2", labels={ZONE: "b"}), node("zoneless")]
    uses = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]

    found, _, _ = admitting_nodes(
        World(nodes, claim, {**volume, "spec": {}}, group("g"), pod("p", "1c", "g", volumes=uses))
    )

    assert found == {"n2", "zoneless"}


# --- ports ---
def test_on_the_host_network_every_container_port_is_a_host_port() -> None:
    body: Raw = {"hostNetwork": True, "containers": [{"name": "m", "ports": [{"containerPort": 80}]}]}

    assert admitting_nodes(
        World([node("n1"), node("n2")], pod("q", on="n1", **body), group("g"), pod("p", "", "g", **body))
    )[0] == {"n2"}


# --- runs ---
def test_a_gang_of_one_pod_per_host_is_placed_in_runs() -> None:
    apart = required("podAntiAffinity", {"matchLabels": {"app": "x"}})
    world = World(
        [node(f"n{i}", "9c") for i in range(5)],
        group("g", minimum=4),
        pods("p", 4, "1c", "g", labels={"app": "x"}, affinity=apart),
    )
    _, session, cls = admitting_nodes(world, "p-0")
    view = session.view(cls, session.jobs["default/g"])

    assert len(set(view.choose(4))) == 4
    assert len(set(world.run(CONF).bound.values())) == len(world.bound) == 4
