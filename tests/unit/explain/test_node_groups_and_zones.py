"""Gates and changes for node groups, revocable zones and node load."""

import json
from typing import Any

from scheduler.api.names import NODEGROUP_NAME, NODEGROUP_RESOURCE_LIMITS, REVOCABLE_ZONE
from scheduler.api.usage import NodeUsage
from scheduler.cluster.memory import Simulation
from scheduler.explain import Explanation, explain
from scheduler.framework.configuration import Configuration
from tests.builders import NAME, Raw, configuration, group, manifests, node, pod, pods, queue
from tests.unit.explain.small_clusters import changes, explained

GROUPS = configuration(["priority", "gang"], ["predicates", "nodegroup"])
REVOCABLE = {REVOCABLE_ZONE: "*"}


def of_plugin(it: Explanation, plugin: str) -> list[str]:
    return [gate.message for gate in it.gates if gate.plugin == plugin]


# --- node groups ---
def using(*groups: str, limits: Raw | None = None) -> Raw:
    """The queue ``q`` with an affinity."""
    made = queue("q", affinity={"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(groups)}})
    if limits is not None:
        made["metadata"]["annotations"] = {NODEGROUP_RESOURCE_LIMITS: json.dumps(limits)}
    return made


def test_suggests_another_node_group_for_a_queue() -> None:
    objects = (
        node("n1", "1c+4Gi", {NODEGROUP_NAME: "a"}), node("n2", labels={NODEGROUP_NAME: "b"}), using("a"),
        group("g", "q"), pod("p", "2c", "g"),
    )  # fmt: skip
    assert changes("g", *objects, conf=GROUPS) == [
        "let queue q use node group b",
        "1 cpu more on node n1",
        "1 node like n2 more, with label volcano.sh/nodegroup-name=a",
    ]
    assert of_plugin(explained("podgroup", "g", *objects, conf=GROUPS), "nodegroup") == [
        "of the node groups that are there queue q may use a (nodes by group: a: 1, b: 1, without: 0)"
    ]


def test_a_node_group_is_removed_from_the_anti_affinity_of_the_queue() -> None:
    kept = queue("q", affinity={
        "nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["a"]},
        "nodeGroupAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["b", "c"]},
    })  # fmt: skip
    it = explained(
        "podgroup", "g", node("n1", labels={NODEGROUP_NAME: "b"}), kept, group("g", "q"), pod("p", "2c", "g"),
        conf=GROUPS, search=True,
    )  # fmt: skip
    (document,) = it.changes[0].documents
    affinity = document["spec"]["affinity"]
    assert affinity["nodeGroupAffinity"] == {"requiredDuringSchedulingIgnoredDuringExecution": ["a", "b"]}
    assert affinity["nodeGroupAntiAffinity"] == {"requiredDuringSchedulingIgnoredDuringExecution": ["c"]}


def test_an_inherited_affinity_is_changed_at_the_ancestor_that_defines_it() -> None:
    conf = configuration({"gang": {}}, {"predicates": {}, "nodegroup": {"enableHierarchy": True}})
    above = {**using("a"), "metadata": {"name": "dept"}}
    found = changes(
        "g", node("n1", labels={NODEGROUP_NAME: "b"}), above, queue("team", parent="dept"), group("g", "team"),
        pod("p", "2c", "g"), conf=conf,
    )  # fmt: skip
    assert found[0] == "let queue dept use node group b"


def test_suggests_a_group_label_for_a_node_without_one() -> None:
    found = changes("g", node("n1"), using("b"), group("g", "q"), pod("p", "2c", "g"), conf=GROUPS)
    assert found[0] == "label node n1 with volcano.sh/nodegroup-name=b"


def test_suggests_a_new_group_when_no_node_has_one() -> None:
    assert changes("g", node("n1"), queue("q"), group("g", "q"), pod("p", "2c", "g"), conf=GROUPS)[0] == (
        "let queue q use node group q and label node n1 with volcano.sh/nodegroup-name=q"
    )


def test_nodes_that_need_no_group_are_not_labelled() -> None:
    conf = configuration(["gang"], ["predicates", "nodegroup"], arguments={"nodegroup": {"strict": False}})
    tainted = node("n1", taints=[{"key": "dedicated", "effect": "NoSchedule"}])
    found = changes("g", tainted, queue("q"), group("g", "q"), pod("p", "2c", "g"), conf=conf)
    assert found[0] == "remove taint dedicated:NoSchedule from node n1"


def test_suggests_raising_the_limit_of_a_node_group_with_its_numbers() -> None:
    objects = (
        node("n1", labels={NODEGROUP_NAME: "b"}), using("b", limits={"b": {"cpu": "3"}}), group("g", "q", 2),
        pods("p", 2, "2c", "g"),
    )  # fmt: skip
    assert changes("g", *objects, conf=GROUPS) == ["raise queue q's limit of cpu in node group b from 3 to 4"]
    assert of_plugin(explained("podgroup", "g", *objects, conf=GROUPS), "nodegroup") == [
        "queue q in node group b: cpu: asked 2, used 2, limit 3"
    ]


# --- nodes on loan; a simulation begins at noon ---
def lending(hours: str) -> Configuration:
    arguments = {"tdm": {"tdm.revocable-zone.z": hours}}
    return configuration(["priority", "gang"], ["predicates", "tdm"], arguments=arguments)


def lent(*objects: Any, zone: str = "z") -> tuple[Any, ...]:
    return (node("n1", labels={REVOCABLE_ZONE: zone}), group("g"), *objects)


def test_suggests_an_earlier_start_of_a_zone_that_is_not_open_yet() -> None:
    objects = lent(pod("p", "2c", "g", annotations=REVOCABLE))
    it = explained("podgroup", "g", *objects, conf=lending("13:30-15:00"), search=True)
    assert it.changes[0].text == (
        "let revocable zone z begin 90 min earlier: 12:00-15:00 rather than 13:30-15:00 (it is 12:00)"
    )
    assert it.changes[0].arguments == {"tdm": {"tdm.revocable-zone.z": "12:00-15:00"}}
    assert of_plugin(it, "tdm") == ["1 of 1 nodes are on loan, p may use them; it is 12:00"]


def test_suggests_a_later_end_of_a_zone_that_has_closed() -> None:
    found = changes("g", *lent(pod("p", "2c", "g", annotations=REVOCABLE)), conf=lending("08:00-11:00"))
    assert found[0] == "let revocable zone z end 61 min later: 08:00-12:01 rather than 08:00-11:00 (it is 12:00)"


def test_suggests_hours_for_a_zone_without_hours() -> None:
    objects = lent(pod("p", "2c", "g", annotations=REVOCABLE), zone="other")
    assert changes("g", *objects, conf=lending("08:00-11:00"))[0] == (
        "give revocable zone other hours in tdm's arguments: 00:00-00:00"
    )


def test_suggests_that_pods_accept_revocable_nodes() -> None:
    objects = lent(pods("p", 2, "2c", "g"))
    it = explained("podgroup", "g", *objects, conf=lending("08:00-15:00"), search=True)
    assert it.changes[0].text == ("let 1 Pod (p-0) do with nodes on loan: annotation volcano.sh/revocable-zone=*")
    assert of_plugin(it, "tdm") == [
        "1 of 1 nodes are on loan, p-0 may not, without annotation volcano.sh/revocable-zone; it is 12:00"
    ]


def test_a_change_may_need_both_pods_and_hours() -> None:
    assert changes("g", *lent(pod("p", "2c", "g")), conf=lending("12:30-15:00"))[0] == (
        "let 1 Pod (p) do with nodes on loan: annotation volcano.sh/revocable-zone=* and let revocable zone z begin "
        "30 min earlier: 12:00-15:00 rather than 12:30-15:00 (it is 12:00)"
    )


# --- busy nodes ---
def test_thresholds_are_raised_only_as_far_as_the_idlest_node_needs() -> None:
    conf = configuration(["gang"], ["predicates", "usage"], arguments={"usage": {"thresholds": {"cpu": 70, "mem": 60}}})
    simulation = Simulation(manifests(node("n1"), node("n2"), group("g"), pod("p", "2c", "g")), conf, [NAME])
    simulation.take_usage({"n1": NodeUsage(92.5, 80, 0), "n2": NodeUsage(75.2, 10, 0)})
    it = explain(simulation, "podgroup", "default", "g")
    assert it.changes[0].text == "raise usage's threshold of cpu from 70% to 76%"
    assert it.changes[0].arguments == {"usage": {"thresholds": {"cpu": 76}}}
    assert of_plugin(it, "usage") == [
        "2 of 2 nodes use more than 70% of their cpu; the idlest of them, n2, uses 75.2%",
        "1 of 2 nodes use more than 60% of their memory; the idlest of them, n1, uses 80%",
    ]


def test_a_change_may_raise_both_thresholds() -> None:
    conf = configuration(["gang"], ["predicates", "usage"])
    simulation = Simulation(manifests(node("n1"), group("g"), pod("p", "2c", "g")), conf, [NAME])
    simulation.take_usage({"n1": NodeUsage(92.5, 81, 0)})
    assert explain(simulation, "podgroup", "default", "g").changes[0].text == (
        "raise usage's threshold of cpu from 80% to 93% and raise usage's threshold of memory from 80% to 81%"
    )
