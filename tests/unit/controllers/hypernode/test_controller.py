"""The controller hyperNode-controller over a cluster in memory."""

from typing import Any

import pytest

from scheduler.api.kinds import CONFIG_MAP, HYPER_NODE, NODE
from scheduler.controllers.hypernode import HyperNodeController
from tests.unit.controllers.clusters import Controlled, Raw

PLACE = ("volcano-system", "volcano-controller-configmap")
RACK, SPINE = "example.com/rack", "example.com/spine"
CONFIGURATION = f"""
networkTopologyDiscovery:
- source: label
  enabled: true
  config:
    networkTopologyTypes:
      Spine_Leaf:
      - nodeLabel: {SPINE}
      - nodeLabel: {RACK}
      - nodeLabel: kubernetes.io/hostname
"""


def cluster(*manifests: Raw) -> Controlled:
    made = Controlled(lambda store: [HyperNodeController(store, PLACE)])
    for manifest in manifests:
        made.create(manifest)
    return made


def node(name: str, rack: str = "", spine: str = "", **labels: str) -> Raw:
    given = {RACK: rack, SPINE: spine, **labels}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {key: value for key, value in given.items() if value}},
        "status": {"allocatable": {"cpu": "1", "pods": "10"}},
    }


def configured(text: str = CONFIGURATION) -> Raw:
    namespace, name = PLACE
    metadata = {"namespace": namespace, "name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"volcano-controller.conf": text}}


def hyper_node(name: str, *selectors: Raw, labels: dict[str, str] | None = None, kind: str = "Node") -> Raw:
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"tier": 1, "members": [{"type": kind, "selector": selector} for selector in selectors]},
    }


def hyper_nodes(world: Controlled) -> dict[str, Raw]:
    return {raw["metadata"]["name"]: raw for raw in world.cluster.server.of(HYPER_NODE)}


def tree(world: Controlled) -> dict[str, tuple[int, str, list[str]]]:
    """Maps the value of the label to the tier, the name of the tier, and the values of the members (names of Nodes on
    tier 1)."""
    found = hyper_nodes(world)
    values = {name: raw["metadata"]["labels"][raw["spec"]["tierName"]] for name, raw in found.items()}
    return {
        values[name]: (
            raw["spec"]["tier"],
            raw["spec"]["tierName"],
            [
                values.get(member["selector"]["exactMatch"]["name"], member["selector"]["exactMatch"]["name"])
                for member in raw["spec"]["members"]
            ],
        )
        for name, raw in found.items()
    }


def count(world: Controlled, name: str) -> Any:
    return hyper_nodes(world)[name].get("status", {}).get("nodeCount")


# --- nodeCount ---
@pytest.mark.parametrize(
    ("selectors", "expected"),
    [
        ([{"exactMatch": {"name": "a1"}}, {"exactMatch": {"name": "gone"}}], 1),
        ([{"regexMatch": {"pattern": "^a"}}], 2),
        ([{"labelMatch": {"matchLabels": {RACK: "r1"}}}], 2),
        ([{"regexMatch": {"pattern": "^a"}}, {"labelMatch": {"matchLabels": {RACK: "r1"}}}], 3),
        ([{"regexMatch": {"pattern": "("}}, {"exactMatch": {"name": "a1"}}], 1),
        (
            [{"labelMatch": {"matchExpressions": [{"key": RACK, "operator": "Like"}]}}, {"exactMatch": {"name": "b1"}}],
            1,
        ),
    ],
)
def test_the_status_says_how_many_nodes_the_selectors_match(selectors: list[Raw], expected: int) -> None:
    world = cluster(node("a1", "r1"), node("a2", "r2"), node("b1", "r1"), hyper_node("h", *selectors))
    assert count(world, "h") == expected


def test_the_count_follows_the_nodes() -> None:
    world = cluster(hyper_node("h", {"labelMatch": {"matchLabels": {RACK: "r1"}}}), node("n1"))
    assert count(world, "h") is None  # nothing is written where there is nothing to say
    world.create(node("n2", "r1"))
    assert count(world, "h") == 1
    world.patch(NODE, "n1", {"metadata": {"labels": {RACK: "r1"}}})
    assert count(world, "h") == 2
    world.delete(NODE, "n2")
    world.patch(NODE, "n1", {"metadata": {"labels": {RACK: None}}})
    assert count(world, "h") == 0


def test_the_count_follows_the_members() -> None:
    world = cluster(node("n1"), node("n2"), hyper_node("h", {"exactMatch": {"name": "n1"}}))
    members = hyper_node("h", {"regexMatch": {"pattern": "n."}})["spec"]["members"]
    world.patch(HYPER_NODE, "h", {"spec": {"members": members}})
    assert count(world, "h") == 2


# --- discovery by label ---
def test_labels_of_nodes_become_a_tree_of_hyper_nodes() -> None:
    world = cluster(
        node("n1", "r1", "s1"),
        node("n2", "r1", "s1"),
        node("n3", "r2", "s1"),
        node("n4", "r3"),
        node("n5"),
        configured(),
    )
    assert tree(world) == {
        "r1": (1, RACK, ["n1", "n2"]),
        "r2": (1, RACK, ["n3"]),
        "r3": (1, RACK, ["n4"]),
        "s1": (2, SPINE, sorted(["r1", "r2"], key=lambda value: name_of(world, value))),
    }
    for name, raw in hyper_nodes(world).items():
        tier, value = raw["spec"]["tier"], raw["metadata"]["labels"][raw["spec"]["tierName"]]
        assert name.startswith(f"hypernode-spine-leaf-tier{tier}-") and len(name.rpartition("-")[2]) == 5
        assert raw["metadata"]["labels"] == {
            "volcano.sh/network-topology-source": "label",
            raw["spec"]["tierName"]: value,
        }
        assert {m["type"] for m in raw["spec"]["members"]} == {"Node" if tier == 1 else "HyperNode"}
    assert count(world, name_of(world, "r1")) == 2


def name_of(world: Controlled, value: str) -> str:
    return next(name for name, raw in hyper_nodes(world).items() if value in raw["metadata"]["labels"].values())


def test_discovery_follows_the_labels_and_keeps_names() -> None:
    world = cluster(node("n1", "r1"), node("n2", "r1"), configured())
    name = name_of(world, "r1")
    world.patch(NODE, "n2", {"metadata": {"labels": {RACK: "r2"}}})
    assert tree(world) == {"r1": (1, RACK, ["n1"]), "r2": (1, RACK, ["n2"])}
    assert name_of(world, "r1") == name and count(world, name) == 1
    world.patch(NODE, "n1", {"metadata": {"labels": {RACK: None}}})
    world.delete(NODE, "n2")
    assert tree(world) == {}


def test_a_discovered_hyper_node_keeps_the_name_that_another_program_gave_it() -> None:
    labels = {"volcano.sh/network-topology-source": "label", RACK: "r1"}
    named = hyper_node("hypernode-spine-leaf-tier1-x7k2p", {"exactMatch": {"name": "old"}}, labels=labels)
    world = cluster(named, node("n1", "r1"), configured())
    assert tree(world) == {"r1": (1, RACK, ["n1"])}
    assert list(hyper_nodes(world)) == ["hypernode-spine-leaf-tier1-x7k2p"]


def test_an_object_that_a_user_changes_or_deletes_is_restored() -> None:
    world = cluster(node("n1", "r1"), configured())
    before = tree(world)
    world.patch(HYPER_NODE, name_of(world, "r1"), {"spec": {"tier": 7, "members": []}})
    assert tree(world) == before
    world.delete(HYPER_NODE, name_of(world, "r1"))
    assert tree(world) == before


def test_hyper_nodes_that_were_not_discovered_are_left_alone() -> None:
    own = hyper_node("own", {"exactMatch": {"name": "n1"}})
    world = cluster(own, node("n1", "r1"), configured())
    assert hyper_nodes(world)["own"]["spec"] == own["spec"]
    assert len(hyper_nodes(world)) == 2


@pytest.mark.parametrize("text", ["", "networkTopologyDiscovery: []", CONFIGURATION.replace("true", "false")])
def test_nothing_is_discovered_unless_the_configuration_asks_for_it(text: str) -> None:
    world = cluster(node("n1", "r1"), configured(text))
    assert hyper_nodes(world) == {}


def test_what_was_discovered_stays_when_discovery_is_switched_off() -> None:
    world = cluster(node("n1", "r1"), configured())
    world.cluster.server.delete(CONFIG_MAP, *PLACE)
    world.settle()
    world.patch(NODE, "n1", {"metadata": {"labels": {RACK: "r2"}}})
    assert tree(world) == {"r1": (1, RACK, ["n1"])}


def test_a_configuration_in_another_config_map_is_none_of_its_business() -> None:
    other = configured()
    other["metadata"]["name"] = "other"
    assert hyper_nodes(cluster(node("n1", "r1"), other)) == {}


# --- bad configurations ---
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("networkTopologyDiscovery: 7", "networkTopologyDiscovery: expected a list, got a number"),
        ("[", "line 2: did not find expected node content"),
        ("- a", "the file: expected a mapping, got a list"),
        (
            CONFIGURATION.replace("networkTopologyTypes:", "networkTopologyTypes: 3\n    other:"),
            "expected a mapping, got a number",
        ),
    ],
)
def test_a_configuration_that_cannot_be_read_leaves_the_last_one_in_force(text: str, said: str) -> None:
    world = cluster(node("n1", "r1"), configured())
    world.cluster.server.patch(CONFIG_MAP, *PLACE, {"data": {"volcano-controller.conf": text}})
    world.settle()
    ((_, about, kind, reason, message),) = world.events()
    assert (about, kind, reason) == (PLACE[1], "Warning", "Malformed") and said in message
    world.create(node("n2", "r2"))
    assert set(tree(world)) == {"r1", "r2"}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("Spine_Leaf", "x" * 21, "between 1 and 20 characters"),
        (SPINE, RACK, "there are duplicate labels"),
        (f"nodeLabel: {SPINE}", "label: x", "it is not the key of a label"),
    ],
)
def test_a_topology_type_that_cannot_be_used_is_left_out(before: str, after: str, said: str) -> None:
    world = cluster(node("n1", "r1"), configured(CONFIGURATION.replace(before, after)))
    assert hyper_nodes(world) == {}
    ((_, _, _, reason, message),) = world.events()
    assert reason == "Malformed" and said in message


def test_another_source_is_said_not_to_be_supported() -> None:
    text = "networkTopologyDiscovery: [{source: ufm, enabled: true}]"
    ((_, _, _, reason, message),) = cluster(configured(text)).events()
    assert reason == "Malformed" and "'ufm' is not supported, only 'label' is" in message


def test_the_last_label_stands_for_the_node_whatever_it_is() -> None:
    text = CONFIGURATION.replace("      - nodeLabel: kubernetes.io/hostname\n", "")
    world = cluster(node("n1", "r1", "s1"), configured(text))
    assert tree(world) == {"s1": (1, SPINE, ["n1"])}
    ((_, _, _, _, message),) = world.events()
    assert f"{RACK} stands in the place of kubernetes.io/hostname" in message
