"""Each kind of change, in a cluster where it helps."""

import json
from typing import Any

import pytest

from scheduler.api.names import ASCEND_910, CARD_NAME, CARD_QUOTA, WHAT_IF
from scheduler.cluster.memory import Simulation
from scheduler.explain import explain
from scheduler.framework.configuration_file import parse_configuration
from scheduler.framework.remedies.gates import GateKind
from tests.builders import NAME, Raw, configuration, group, manifests, node, pod, pods, queue
from tests.unit.explain.small_clusters import DEFAULT, LARGE, PLAIN, changes, explained

CAPACITY = configuration(["gang", "predicates", "capacity"])
ORDERED = configuration(["priority", "gang", "predicates", "capacity"])


def test_suggests_creating_a_missing_queue() -> None:
    assert changes("g", node("n1"), group("g", "q"), pod("p", "1c", "g")) == ["create queue q"]


def test_suggests_opening_a_closed_queue() -> None:
    closed = queue("q", state="Closed")
    assert changes("g", node("n1"), closed, group("g", "q"), pod("p", "1c", "g"), conf=CAPACITY) == ["open queue q"]


def test_suggests_opening_only_the_ancestor_that_closed_its_descendants() -> None:
    hierarchy = configuration({"gang": {}, "predicates": {}, "capacity": {"enableHierarchy": True}})
    found = changes(
        "g", node("n1"), queue("dept", state="Closed"), queue("team", parent="dept"), group("g", "team"),
        pod("p", "1c", "g"), conf=hierarchy,
    )  # fmt: skip
    assert found == ["open queue dept"]


def test_suggests_raising_the_capability_by_the_missing_amount() -> None:
    found = changes(
        "g", node("n1", "16c+16Gi"), queue("q", capability="10c"), group("h", "q"), pod("h-0", "8c", "h", on="n1"),
        group("g", "q", 2), pods("p", 2, "3c", "g"), conf=CAPACITY,
    )  # fmt: skip
    assert found[0] == "raise queue q's capability cpu from 10 to 14"


def test_suggests_raising_the_capability_of_the_parent_queue() -> None:
    hierarchy = configuration({"gang": {}, "predicates": {}, "capacity": {"enableHierarchy": True}})
    found = changes(
        "g", node("n1", "16c+16Gi"), queue("dept", capability="2c"), queue("team", capability="4c", parent="dept"),
        group("g", "team"), pod("p", "3c", "g"), conf=hierarchy,
    )  # fmt: skip
    assert found[0] == "raise queue dept's capability cpu from 2 to 3"


def test_suggests_raising_a_card_quota() -> None:
    limited = queue("q")
    limited["metadata"]["annotations"] = {CARD_QUOTA: json.dumps({"NVIDIA-H200": 1})}
    labels = {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.count": "4"}
    found = changes(
        "g", node("n1", "8c+8Gi+nvidia.com/gpu=4", labels), limited, group("g", "q", 4),
        pods("p", 4, "1c+nvidia.com/gpu=1", "g", annotations={CARD_NAME: "NVIDIA-H200"}),
        conf=configuration(["gang", "predicates", "capacity-card"]),
    )  # fmt: skip
    assert found == ["queue q needs 3 NVIDIA-H200 more in its card quota (4 in all)"]


def test_suggests_raising_a_resource_quota() -> None:
    quota: Raw = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "rq", "namespace": "default"},
        "spec": {"hard": {"memory": "1Gi"}},
    }
    found = changes(
        "g", node("n1"), quota, group("g", asks="3Gi"), pod("p", "1c", "g"),
        conf=configuration(["gang", "predicates", "resourcequota"]),
    )  # fmt: skip
    assert found == [
        "raise ResourceQuota default/rq's memory from 1Gi to 3Gi",
        "lower minResources memory of PodGroup default/g from 3Gi to 1Gi",
    ]


def test_suggests_raising_the_weight_of_a_queue() -> None:
    conf = parse_configuration(
        "actions: enqueue, allocate, reclaim\n"
        "tiers:\n- plugins: [{name: gang, enableReclaimable: false}, {name: predicates}, {name: proportion}]\n"
    )
    found = changes(
        "g", node("n1", "8c+8Gi"), queue("a"), queue("b"), *((group(f"a{i}", "a"), pod(f"a{i}-0", "1c", f"a{i}"))
        for i in range(6)), *((group(n, "b"), pod(f"{n}-0", "1c", n)) for n in ("h1", "h2", "h3", "h4", "g")),
        conf=conf,
    )  # fmt: skip
    assert found[0] == "raise queue b's weight from 1 to 2"


def test_suggests_removing_scheduling_gates_from_as_many_pods_as_needed() -> None:
    found = changes("g", node("n1"), group("g", minimum=2), pods("p", 3, "1c", "g", gated=True))
    assert found == ["remove the scheduling gates of 2 Pods: p-0, p-1"]


def test_suggests_a_lower_minimum_for_a_gang_with_missing_pods() -> None:
    found = changes("g", node("n1"), group("g", minimum=4), pods("p", 2, "1c", "g"))
    assert found == ["lower minMember of PodGroup default/g from 4 to 2 (it has 2 Pods)"]


def test_suggests_a_lower_role_minimum_for_a_gang_with_missing_pods_of_a_role() -> None:
    found = changes(
        "g", node("n1"), group("g", minimum=3, roles={"a": 2, "b": 1}), pods("a", 2, "1c", "g", role="a"),
        pod("c", "1c", "g", role="c"),
    )  # fmt: skip
    assert found == ["lower minTaskMember of task b of PodGroup default/g from 1 to 0 (it has 0)"]


def test_suggests_removing_a_taint() -> None:
    tainted: Raw = {"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]}
    found = changes("g", node("n1", "1c"), node("n2", **tainted), group("g"), pod("p", "2c", "g"))
    assert found[0] == "remove taint dedicated=x:NoSchedule from node n2"


def test_suggests_uncordoning_a_node() -> None:
    found = changes("g", node("n1", unschedulable=True), group("g"), pod("p", "2c", "g"))
    assert found[0] == "uncordon node n1"


def test_suggests_labelling_a_node() -> None:
    found = changes("g", node("n1"), group("g"), pod("p", "2c", "g", selector={"disk": "ssd"}))
    assert found[0] == "label node n1 with disk=ssd"


def test_a_label_with_another_value_is_not_overwritten() -> None:
    found = changes("g", node("n1", labels={"disk": "hdd"}), group("g"), pod("p", "2c", "g", selector={"disk": "ssd"}))
    assert found == ["1 node more, with 2 cpu, label disk=ssd"]


def test_suggests_freeing_amounts_on_the_node_with_the_smallest_shortage() -> None:
    found = changes("g", node("n1", "2c+8Gi"), node("n2", "3c+1Gi"), *LARGE, group("g"), pod("p", "4c+3Gi", "g"))
    assert found[0] == "2 cpu more on node n1"


def test_suggests_freeing_several_amounts_on_one_node() -> None:
    found = changes("g", node("n1", "2c+1Gi"), *LARGE, group("g"), pod("p", "4c+3Gi", "g"))
    assert found[0] == "2 cpu more on node n1 and 2Gi memory more on node n1"


def test_suggests_nodes_like_the_smallest_suitable_node() -> None:
    used = [group("h", minimum=2), pod("h-0", "4c", "h", on="n1", priority=9), pod("h-1", "16c", "h", on="n2")]
    found = changes("g", node("n1"), node("n2", "16c+8Gi"), *used, group("g", minimum=3), pods("p", 3, "3c", "g"))
    assert "3 nodes like n1 more" in found


def test_suggests_a_fitted_node_for_a_cluster_without_nodes() -> None:
    assert changes("g", group("g"), pod("p", "2c+1Gi", "g")) == ["1 node more, with 2 cpu, 1Gi memory"]


def test_suggests_a_node_for_a_pod_without_requests() -> None:
    assert changes("g", group("g"), pod("p", "", "g")) == ["1 node more"]


def test_suggests_deleting_the_vcjob_that_owns_a_pod_group() -> None:
    requests = {"cpu": "3"}
    template = {"spec": {"containers": [{"name": "c", "image": "a", "resources": {"requests": requests}}]}}
    spec = {"schedulerName": NAME, "minAvailable": 1, "tasks": [{"name": "w", "replicas": 1, "template": template}]}
    train: Raw = {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
        "metadata": {"name": "train", "namespace": "default"}, "spec": spec}  # fmt: skip
    simulation = Simulation(manifests(train, node("n1")), PLAIN, [NAME])
    simulation.run()
    simulation.change(manifests(group("g"), pod("p", "3c", "g")))
    found = [change.text for change in explain(simulation, "podgroup", "default", "g").changes]
    assert "delete job default/train (1 Pod in queue default, priority 0)" in found


def test_suggests_deleting_a_job_of_no_higher_priority() -> None:
    split: Raw = {"labels": {"app": "a"}, "affinity": {"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}]}}}  # fmt: skip
    zone = {"zone": "z"}
    found = changes(
        "g", node("n1", labels=zone), group("h"), pod("h-0", "1c", "h", on="n1", **split), group("g"),
        pod("p", "1c", "g", **split),
    )  # fmt: skip
    assert "delete PodGroup default/h (1 Pod in queue default, priority 0)" in found


def test_suggests_freeing_chips_of_one_hccs_ring_and_names_their_holder() -> None:
    held = {ASCEND_910: "Ascend910-0,Ascend910-1"}
    other = {ASCEND_910: "Ascend910-4,Ascend910-5"}
    chips = "1c+huawei.com/Ascend910"
    found = changes(
        "g", node("n1", "16c+16Gi+huawei.com/Ascend910=8", {"accelerator-type": "module"}),
        group("a"), pod("a-0", f"{chips}=2", "a", on="n1", annotations=held),
        group("b"), pod("b-0", f"{chips}=2", "b", on="n1", annotations=other),
        group("g"), pod("p", f"{chips}=4", "g"), conf=configuration(["gang", "predicates", "ascend"]),
    )  # fmt: skip
    assert found[0] == "2 more free chips in one HCCS ring on node n1 (held by default/a-0)"


def test_with_several_obstacles_the_change_contains_exactly_what_is_needed() -> None:
    closed = queue("q", capability="1c", state="Closed")
    found = changes(
        "g", node("n1", "2c+8Gi"), *LARGE, closed, group("g", "q"), pod("p", "3c", "g", gated=True), conf=CAPACITY
    )
    assert found == [
        "remove the scheduling gates of 1 Pod: p and open queue q and raise queue q's capability cpu from 1 to 3 and "
        "1 cpu more on node n1"
    ]


def test_only_the_needed_tainted_nodes_are_named() -> None:
    def fenced(name: str, cpu: int, *keys: str) -> Raw:
        return node(name, f"{cpu}c+8Gi", taints=[{"key": key, "effect": "NoSchedule"} for key in keys])

    found = changes(
        "g", fenced("n1", 2, "a"), fenced("n2", 8, "a", "b"), group("g", minimum=3), pods("p", 3, "2c", "g")
    )
    assert found[0] == "remove taint a:NoSchedule from node n2 and remove taint b:NoSchedule from node n2"


def test_no_change_is_reported_when_none_works() -> None:
    it = explained(
        "podgroup", "g", node("n1"), group("g"), pod("p", "1c", "g", selector={"kubernetes.io/hostname": "n9"}),
        search=True,
    )  # fmt: skip
    assert (it.searched, it.changes) == (True, [])


def test_a_change_has_documents_for_what_if() -> None:
    it = explained("podgroup", "g", node("n1"), *LARGE, group("g"), pod("p", "6c", "g"), search=True)
    (document,) = it.changes[0].documents
    assert document == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "annotations": {WHAT_IF: "merge"}},
        "status": {"allocatable": {"cpu": "6"}},
    }


def test_suggests_a_higher_overcommit_factor() -> None:
    it = explained(
        "podgroup", "g", node("n1"), queue("q"), group("h", "q", asks="4c", phase="Inqueue"),
        pod("h-0", "4c", "h", selector={"no": "where"}), group("g", asks="1c"), pod("p", "1c", "g"),
        conf=configuration(["gang", "predicates", "overcommit"]), search=True,
    )  # fmt: skip
    assert "raise overcommit's argument overcommit-factor from 1.2 to 1.25" in [change.text for change in it.changes]


def test_the_overcommit_factor_is_at_most_doubled() -> None:
    conf = configuration(["gang", "predicates", "overcommit"])
    small = changes("g", node("n1"), group("g", asks="9c"), pod("p", "1c", "g"), conf=conf)
    assert small[0] == "raise overcommit's argument overcommit-factor from 1.2 to 2.25"
    large = changes("g", node("n1"), group("g", asks="79c"), pod("p", "1c", "g"), conf=conf)  # factor 19.75
    assert large and not any("overcommit-factor" in text for text in large)


def test_a_configuration_without_queue_plugins_is_explained() -> None:
    found = changes("g", node("n1"), *LARGE, group("g"), pod("p", "5c", "g"), conf=PLAIN)
    assert found[0] == "1 cpu more on node n1"


# --- what a person can carry out --------------------------------------------------------------------------------------
def test_no_node_grows_beyond_the_largest_existing_node() -> None:
    nodes = [node(f"n{number}") for number in range(3)]
    assert changes("g", *nodes, group("g"), pod("p", "403c", "g")) == ["let Pod default/p ask for 4 cpu instead of 403"]
    found = changes("g", node("n9", "8c+8Gi"), *nodes, group("g"), pod("p", "9c", "g"))
    assert not any("more" in text for text in found)


def test_new_nodes_have_an_existing_size() -> None:
    used = [group("h"), pod("h-0", "3c", "h", on="n0", priority=9)]
    found = changes("g", node("n0"), *used, group("g"), pod("p", "3c", "g"))
    assert found == [
        "1 node like n0 more",
        "delete PodGroup default/h (1 Pod in queue default, priority 0)",
        "let Pod default/p ask for 1 cpu instead of 3",
    ]


def test_suggests_smaller_requests_for_all_pods_of_a_gang() -> None:
    found = changes("g", node("n0"), node("n1"), group("g", minimum=4), pods("p", 4, "5c", "g"))
    assert found == ["let each of 4 Pods of PodGroup default/g ask for 2 cpu instead of 5"]


@pytest.mark.parametrize("own", ["", "1c", "4c"])
@pytest.mark.parametrize("level", [{"requests": {"cpu": "5"}}, {"limits": {"cpu": "5"}, "requests": {"cpu": "5"}}])
def test_suggests_smaller_requests_at_the_level_of_the_pod(own: str, level: Raw) -> None:
    it = explained("podgroup", "g", node("n0"), group("g"), pod("p", own, "g", resources=level), search=True)
    change = next(each for each in it.changes if each.text == "let Pod default/p ask for 4 cpu instead of 5")
    (document,) = [each for each in change.documents if each["kind"] == "Pod"]
    assert document["spec"]["resources"] == {part: {"cpu": "4"} for part in level}


def test_a_container_requests_no_more_than_its_pod_may() -> None:
    level = {"requests": {"cpu": "7"}}
    it = explained("podgroup", "g", node("n0"), group("g"), pod("p", "6c", "g", resources=level), search=True)
    (change,) = it.changes
    (document,) = [each for each in change.documents if each["kind"] == "Pod"]
    (container,) = document["spec"]["containers"]
    assert document["spec"]["resources"] == container["resources"] == {"requests": {"cpu": "4"}}


def test_smaller_requests_are_combined_with_changes_to_an_unsuitable_node() -> None:
    fenced: Raw = {"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]}
    found = changes("g", node("n0", **fenced), group("g", minimum=2), pods("p", 2, "5c", "g"))
    assert found == [
        "remove taint dedicated=x:NoSchedule from node n0 and "
        "let each of 2 Pods of PodGroup default/g ask for 2 cpu instead of 5"
    ]


def test_min_resources_shrink_with_the_requests_of_the_pods() -> None:
    conf = configuration(["gang", "overcommit", "predicates"])
    it = explained("podgroup", "g", node("n0"), group("g", asks="9c"), pod("p", "9c", "g"), conf=conf, search=True)
    (change,) = it.changes
    assert change.text == "let Pod default/p ask for 4 cpu instead of 9"
    assert {document["kind"] for document in change.documents} == {"Pod", "PodGroup"}


def test_suggests_a_valid_number_of_chips() -> None:
    ring = {"accelerator-type": "module"}
    found = changes(
        "g", node("n1", "8c+8Gi+huawei.com/Ascend910=8", ring), group("g"), pod("p", "1c+huawei.com/Ascend910=3", "g"),
        conf=configuration(["gang", "predicates", "ascend"]),
    )  # fmt: skip
    assert found == ["let Pod default/p ask for 2 huawei.com/Ascend910 instead of 3"]


def test_suggests_removing_pods_above_the_minimum_of_another_job() -> None:
    found = changes(
        "g", node("n0", "8c+8Gi"), group("h", minimum=2), pods("h", 4, "2c", "h", on="n0"), group("g", minimum=2),
        pods("p", 2, "2c", "g"),
    )  # fmt: skip
    assert "2 Pods fewer of PodGroup default/h, which needs 2: h-3, h-2" in found


def test_scaling_down_a_replica_set_does_not_create_its_pods_again() -> None:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"schedulerName": NAME, "containers": [{"name": "c"}]}}
    meta = {"name": "web", "namespace": "default", "uid": "u"}
    replica_set = {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta,
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": template}}  # fmt: skip
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    replicas = pods("web", 2, "2c", on="n0")
    for made in replicas:
        made["metadata"]["ownerReferences"] = [owner]
    objects = (node("n0"), replica_set, replicas, group("g"), pod("p", "2c", "g"))
    it = explained("podgroup", "g", *objects, search=True)
    change = next(change for change in it.changes if change.kinds == ("size of other jobs",))
    assert [document["spec"] for document in change.documents if document["kind"] == "ReplicaSet"] == [{"replicas": 1}]


# --- card quotas ------------------------------------------------------------------------------------------------------
def carded(name: str, card: str, number: int = 4) -> Raw:
    labels = {"nvidia.com/gpu.product": card, "nvidia.com/gpu.count": str(number)}
    return node(name, f"8c+8Gi+nvidia.com/gpu={number}", labels)


def with_cards(name: str, quota: Raw) -> Raw:
    made = queue(name)
    made["metadata"]["annotations"] = {CARD_QUOTA: json.dumps(quota)}
    return made


CARDS = configuration(["gang", "predicates", "capacity-card"])
EITHER = {CARD_NAME: "NVIDIA-H200|NVIDIA-L40S"}


def test_suggests_raising_the_quota_of_one_of_several_allowed_cards() -> None:
    found = changes(
        "g", carded("n1", "NVIDIA-L40S"), with_cards("q", {"NVIDIA-L40S": 1}), group("g", "q", 2),
        pods("p", 2, "1c+nvidia.com/gpu=1", "g", annotations=EITHER), conf=CARDS,
    )  # fmt: skip
    assert found[0] == "queue q needs 1 NVIDIA-L40S more in its card quota (2 in all)"


def test_a_quota_that_admits_part_of_a_gang_is_named_and_raised() -> None:
    objects = (
        carded("n1", "NVIDIA-H200"), with_cards("q", {"NVIDIA-H200": 3}), group("g", "q", 4),
        pods("p", 4, "1c+nvidia.com/gpu=1", "g", annotations={CARD_NAME: "NVIDIA-H200"}),
    )  # fmt: skip
    it = explained("podgroup", "g", *objects, conf=CARDS, search=True)
    assert GateKind.QUOTA in {gate.kind for gate in it.gates}
    assert it.changes[0].text == "queue q needs 1 NVIDIA-H200 more in its card quota (4 in all)"


def test_a_quota_with_a_malformed_number_is_replaced() -> None:
    found = changes(
        "g", carded("n1", "NVIDIA-H200"), with_cards("q", {"NVIDIA-H200": "three"}), group("g", "q"),
        pod("p", "1c+nvidia.com/gpu=1", "g", annotations={CARD_NAME: "NVIDIA-H200"}), conf=CARDS,
    )  # fmt: skip
    assert found[0] == "queue q needs 1 NVIDIA-H200 more in its card quota (1 in all)"


def test_suggests_a_node_with_a_card_slice_that_no_node_has() -> None:
    slice_ = "NVIDIA-H200/mig-1g.18gb-mixed"
    found = changes(
        "g", node("n1"), with_cards("q", {slice_: 1}), group("g", "q"),
        pod("p", "1c+nvidia.com/mig-1g.18gb=1", "g", annotations={CARD_NAME: slice_}), conf=CARDS,
    )  # fmt: skip
    assert found[0] == "1 node like n1 more, with 1 nvidia.com/mig-1g.18gb, card NVIDIA-H200"


def test_suggests_a_node_with_a_virtual_npu_that_no_node_has() -> None:
    card, resource = "Ascend310P3/vnpu-vir02_1c", "huawei.com/Ascend310P-2c.1cpu"
    found = changes(
        "g", node("n1"), with_cards("q", {card: 1}), group("g", "q"),
        pod("p", f"1c+{resource}=1", "g", annotations={CARD_NAME: card}), conf=CARDS,
    )  # fmt: skip
    assert found[0] == f"1 node like n1 more, with 1 {resource}, card Ascend310P3"


# --- behind others ----------------------------------------------------------------------------------------------------
def behind(number: int, *objects: Raw, place: str = "default") -> list[Raw]:
    """A gang behind a number of equal gangs in its queue, on a full cluster."""
    made = [*objects, group("r", place), pod("r-0", "4c", "r", on="n0", priority=9)]
    for name in [*(f"h{i:03}" for i in range(number)), "g"]:
        made += [group(name, place, 2), *pods(name, 2, "2c", name)]
    return made


FIRST = "raise the priority of PodGroup default/g from 0 to 1 (PriorityClass priority-1, to be created)"


def test_behind_many_jobs_suggests_nodes_for_all_or_a_higher_priority() -> None:
    found = changes("g", *behind(100, node("n0")), conf=DEFAULT)
    assert found[:2] == ["101 nodes like n0 more", f"{FIRST} and 1 node like n0 more"]


def test_behind_many_jobs_suggests_a_limit_for_all_or_a_higher_priority() -> None:
    limited = queue("q", capability="4c")
    found = changes("g", *behind(40, node("n0", "999c+999Gi"), limited, place="q"), conf=ORDERED)
    assert "raise queue q's capability cpu from 4 to 168" in found
    assert f"{FIRST} and raise queue q's capability cpu from 4 to 8" in found


def test_a_limit_that_admits_part_of_a_gang_is_raised_together_with_missing_node_amounts() -> None:
    found = changes(
        "g", node("n0", "8c+8Gi"), queue("q", capability="4c"), group("g", "q", 4), pods("p", 4, "3c", "g"),
        conf=CAPACITY,
    )  # fmt: skip
    assert found[0] == "raise queue q's capability cpu from 4 to 12 and 1 node like n0 more"


# --- what people can carry out ----------------------------------------------------------------------------------------
def test_a_condition_of_a_node_is_ended_and_its_taints_are_not_removed() -> None:
    lost = [{"key": "node.kubernetes.io/not-ready", "effect": effect} for effect in ("NoSchedule", "NoExecute")]
    found = changes("g", node("n1", taints=lost), group("g"), pod("p", "2c", "g"))
    assert found == ["make node n1 ready", "1 node like n1 more"]


def test_a_taint_that_people_set_is_removed_rather_than_a_node_repaired() -> None:
    full_disk = {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}
    nodes = [
        node("n1", taints=[full_disk]),
        node("n2", taints=[{"key": k, "effect": "NoSchedule"} for k in "ab"]),
        node("n3", taints=[full_disk, {"key": "a", "effect": "NoSchedule"}]),
    ]
    found = changes("g", *nodes, group("g", minimum=3), pods("p", 3, "3c", "g"))
    assert found[0] == (
        "remove taint a:NoSchedule from node n2 and remove taint b:NoSchedule from node n2; "
        "end the disk pressure on node n1; end the disk pressure on node n3 and remove taint a:NoSchedule from node n3"
    )


def test_the_taint_of_a_cordoned_node_is_no_change_of_its_own() -> None:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    found = changes("g", node("n1", taints=[taint], unschedulable=True), group("g"), pod("p", "2c", "g"))
    assert found == ["uncordon node n1", "1 node like n1 more"]


@pytest.mark.parametrize(("with_deployment", "with_replica_set"), [(True, True), (False, True), (False, False)])
def test_the_workload_is_deleted_or_scaled_and_not_its_pod_group(with_deployment: bool, with_replica_set: bool) -> None:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"schedulerName": NAME, "containers": [{"name": "c"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": template}

    def above(kind: str, name: str) -> list[Raw]:
        return [{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"u-{name}", "controller": True}]

    def made(kind: str, name: str, **meta: Any) -> Raw:
        meta = {"name": name, "namespace": "default", "uid": f"u-{name}", **meta}
        return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": spec}

    replicas = pods("web-1", 2, "2c", "w", on="n0")
    for each in replicas:
        each["metadata"] |= {"ownerReferences": above("ReplicaSet", "web-1"), "labels": {"app": "a"}}
    workloads = [
        group("w"),
        *([made("Deployment", "web")] if with_deployment else []),
        *([made("ReplicaSet", "web-1", ownerReferences=above("Deployment", "web"))] if with_replica_set else []),
    ]
    name = "Deployment default/web" if with_replica_set else "ReplicaSet default/web-1"
    one = changes("g", node("n0"), *workloads, replicas, group("g"), pod("p", "2c", "g"))
    assert f"1 Pod fewer of {name}, which needs 1: web-1-1" in one
    both = changes("g", node("n0"), *workloads, replicas, group("g"), pod("p", "4c", "g"))
    assert f"delete {name} (2 Pods in queue default, priority 0)" in both


def test_suggests_lower_min_resources_than_the_pods_of_the_group_request() -> None:
    found = changes(
        "g", node("n1", "8c+8Gi"), queue("q", capability="4c"), group("g", "q", 2, asks="6c"), pods("p", 2, "1c", "g"),
        conf=CAPACITY,
    )  # fmt: skip
    assert found == [
        "raise queue q's capability cpu from 4 to 6",
        "lower minResources cpu of PodGroup default/g from 6 to 4",
    ]
    found = changes(
        "g", node("n1", "8c+8Gi"), queue("q", capability="4c"), group("g", "q", 2, asks="6c"), pods("p", 2, "3c", "g"),
        conf=CAPACITY,
    )  # fmt: skip
    assert not any("minResources" in text for text in found)


# --- jobs without Pods ------------------------------------------------------------------------------------------------
def vcjob(cpu: str, replicas: int = 3, **more: str) -> Raw:
    requests = {"cpu": cpu, **more}
    template = {"spec": {"containers": [{"name": "c", "image": "a", "resources": {"requests": requests}}]}}
    tasks = [{"name": "w", "replicas": replicas, "template": template}]
    spec = {"schedulerName": NAME, "minAvailable": replicas, "tasks": tasks}
    meta = {"name": "train", "namespace": "default"}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": spec}


def test_admission_alone_is_no_change_for_a_vcjob_whose_pods_fit_on_no_node() -> None:
    it = explained("job", "train", node("n1"), vcjob("9"), conf=DEFAULT, search=True)
    assert [change.text for change in it.changes] == [
        "let each Pod of task 1 of job default/train ask for 1333m cpu instead of 9"
    ]


@pytest.mark.parametrize("part", ["requests", "limits"])
def test_a_vcjob_without_pods_may_request_less_at_the_level_of_the_pod(part: str) -> None:
    train = vcjob("1")
    train["spec"]["tasks"][0]["template"]["spec"] = {
        "containers": [{"name": "c", "image": "a"}],
        "resources": {part: {"cpu": "9"}},
    }
    it = explained("job", "train", node("n1"), train, conf=DEFAULT, search=True)
    assert [change.text for change in it.changes] == [
        "let each Pod of task 1 of job default/train ask for 1333m cpu instead of 9"
    ]


def test_new_nodes_for_a_vcjob_without_pods_take_its_pods() -> None:
    taint = {"key": "a", "effect": "NoSchedule"}
    it = explained("job", "train", node("n1", taints=[taint]), vcjob("1", 5), conf=DEFAULT, search=True)
    assert it.changes[0].text == "2 nodes like n1 more, without taints"
    full = pod("x", "16c", on="n2", scheduler="another")
    it = explained("job", "train", node("n1"), node("n2", "16c+4Gi"), full, vcjob("9"), conf=DEFAULT, search=True)
    assert it.changes[0].text == "3 nodes like n2 more"


def test_nodes_for_a_vcjob_without_pods_have_the_devices_that_no_node_has() -> None:
    train = vcjob("1", 2, **{"example.com/device": "1"})
    it = explained("job", "train", node("n1"), train, conf=DEFAULT, search=True)
    assert it.changes[0].text == "2 nodes like n1 more, with 1 example.com/device"


# --- labels and requests ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("key", ["kubernetes.io/arch", "nvidia.com/gpu.product", "node.kubernetes.io/instance-type"])
def test_labels_that_describe_hardware_are_those_of_new_nodes_only(key: str) -> None:
    found = changes("g", node("n1"), group("g"), pod("p", "2c", "g", selector={key: "x"}))
    assert found == [f"1 node like n1 more, with label {key}=x"]


def test_smaller_requests_name_the_workload_whose_template_has_them() -> None:
    it = explained("job", "train", node("n1", "2c+4Gi"), vcjob("3", 2), search=True)
    assert [change.text for change in it.changes] == [
        "let each of 2 Pods of job default/train ask for 1 cpu instead of 3"
    ]
