"""The gates that hold a job, with their plugins and numbers."""

import json

from scheduler.api.names import CARD_NAME, CARD_QUOTA
from scheduler.explain.explanation import Explanation
from scheduler.framework.configuration_file import parse_configuration
from scheduler.framework.remedies.gates import Gate, GateKind
from tests.builders import Raw, configuration, group, node, pod, pods, queue
from tests.unit.explain.small_clusters import DEFAULT, explained

CAPACITY = configuration(["gang", "predicates", "capacity"])
PREEMPTING = parse_configuration(
    "actions: enqueue, allocate, preempt, reclaim, backfill\n"
    "tiers:\n- plugins: [{name: priority}, {name: gang}, {name: conformance}]\n"
    "- plugins: [{name: predicates}, {name: proportion}]\n"
)


def gate(it: Explanation, held: GateKind) -> Gate:
    found = [gate for gate in it.gates if gate.kind is held]
    assert len(found) == 1, it.gates
    return found[0]


def test_a_missing_queue_is_reported() -> None:
    it = explained("podgroup", "g", node("n1"), group("g", "nowhere"), pod("p", "1c", "g"))
    assert gate(it, GateKind.QUEUE).message == "queue nowhere does not exist"


def test_a_closed_queue_is_reported() -> None:
    closed = queue("q", state="Closed")
    it = explained("podgroup", "g", node("n1"), closed, group("g", "q", asks="1c"), pod("p", "1c", "g"), conf=CAPACITY)
    assert gate(it, GateKind.QUEUE).plugin == "capacity"
    assert "queue q is Clos" in gate(it, GateKind.QUEUE).message


def test_a_closed_queue_is_reported_although_another_plugin_refuses_first() -> None:
    it = explained(
        "podgroup", "g", node("n1"), queue("q", state="Closed"), group("h"), pod("h0", "4c", "h", on="n1"),
        group("g", "q", asks="4c"), pod("p", "4c", "g"), conf=DEFAULT,
    )  # fmt: skip
    assert gate(it, GateKind.QUEUE).message == "queue q is Closed: only an Open queue takes jobs"
    assert gate(it, GateKind.ENQUEUE).plugin == "overcommit"
    assert it.gates[0].kind is GateKind.QUEUE


def test_every_plugin_that_refuses_admission_is_reported() -> None:
    conf = configuration(["gang", "overcommit", "predicates", "capacity"])
    it = explained(
        "podgroup", "g", node("n1"), queue("q", capability="2c"), group("g", "q", asks="6c"), pod("p", "1c", "g"),
        conf=conf,
    )  # fmt: skip
    assert [(gate.kind, gate.plugin) for gate in it.gates] == [
        (GateKind.ENQUEUE, "overcommit"), (GateKind.ENQUEUE, "capacity")]  # fmt: skip


def test_a_closed_queue_is_no_gate_without_a_queue_plugin() -> None:
    it = explained("podgroup", "g", node("n1"), queue("q", state="Closed"), group("g", "q"), pod("p", "9c", "g"))
    assert {gate.kind for gate in it.gates} == {GateKind.NODES}


def test_an_invalid_number_of_chips_is_reported_for_a_job_that_is_not_admitted() -> None:
    ring = {"accelerator-type": "module"}
    it = explained(
        "podgroup", "g", node("n1", "8c+8Gi+huawei.com/Ascend910=8", ring), queue("q", state="Closed"),
        group("g", "q", asks="99c"), pod("p", "1c+huawei.com/Ascend910=3", "g"), conf=DEFAULT,
    )  # fmt: skip
    assert gate(it, GateKind.VALIDITY).plugin == "ascend"
    assert gate(it, GateKind.VALIDITY).message.startswith("Pod default/p asks for 3 huawei.com/Ascend910")
    assert {gate.kind for gate in it.gates} == {GateKind.QUEUE, GateKind.ENQUEUE, GateKind.VALIDITY}


def test_cards_that_are_not_interchangeable_are_reported() -> None:
    whole = {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.count": "4"}
    sliced = {"nvidia.com/gpu.product": "NVIDIA-H100", "nvidia.com/gpu.count": "4"}
    either = {CARD_NAME: "NVIDIA-H200|NVIDIA-H100/mig-1g.10gb-mixed"}
    it = explained(
        "podgroup", "g", node("n1", "8c+8Gi+nvidia.com/gpu=4", whole),
        node("n2", "8c+nvidia.com/mig-1g.10gb=4", sliced), group("g", asks="99c"),
        pod("p", "1c+nvidia.com/gpu=1", "g", annotations=either),
        conf=configuration(["gang", "overcommit", "predicates", "capacity-card"]),
    )  # fmt: skip
    assert gate(it, GateKind.VALIDITY).plugin == "capacity-card"
    assert "cannot stand for each other" in gate(it, GateKind.VALIDITY).message


def test_a_refused_admission_names_the_plugin_and_the_numbers() -> None:
    it = explained("podgroup", "g", node("n1"), group("g", asks="6c"), pod("p", "1c", "g"), conf=DEFAULT)
    assert {gate.kind for gate in it.gates} == {GateKind.ENQUEUE}
    by_plugin = {gate.plugin: gate.shortages for gate in it.gates}
    (shortage,) = by_plugin["overcommit"]
    assert (shortage.resource, shortage.asked, shortage.limit, shortage.kind) == ("cpu", 6000, 4800, "Cluster")


def test_an_exhausted_quota_names_the_queue_with_the_limit() -> None:
    hierarchy = configuration({"gang": {}, "predicates": {}, "capacity": {"enableHierarchy": True}})
    it = explained(
        "podgroup", "g", node("n1", "16c+16Gi"), queue("dept", capability="2c"), queue("team", parent="dept"),
        group("g", "team"), pod("p", "3c", "g"), conf=hierarchy,
    )  # fmt: skip
    (shortage,) = gate(it, GateKind.QUOTA).shortages
    assert (shortage.kind, shortage.name, shortage.asked, shortage.limit) == ("Queue", "team", 3000, 2000)
    assert [(row.queue, row.capability) for row in it.queues] == [("team", None), ("dept", 2000)]


def test_an_exhausted_card_quota_is_reported() -> None:
    limited = queue("q")
    limited["metadata"]["annotations"] = {CARD_QUOTA: json.dumps({"NVIDIA-H200": 1})}
    labels = {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.count": "4"}
    it = explained(
        "podgroup", "g", node("n1", "8c+8Gi+nvidia.com/gpu=4", labels), limited, group("g", "q", 2),
        pods("p", 2, "1c+nvidia.com/gpu=1", "g", annotations={CARD_NAME: "NVIDIA-H200"}),
        conf=configuration(["gang", "predicates", "capacity-card"]),
    )  # fmt: skip
    assert gate(it, GateKind.QUOTA).plugin == "capacity-card"
    (shortage,) = gate(it, GateKind.QUOTA).shortages
    assert (shortage.resource, shortage.asked, shortage.used, shortage.limit) == ("NVIDIA-H200", 1000, 1000, 1000)


def test_an_exhausted_resource_quota_is_reported() -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "rq", "namespace": "default"},
        "spec": {"hard": {"cpu": "2"}},
    }
    it = explained(
        "podgroup", "g", node("n1"), quota, group("g", asks="3c"), pod("p", "1c", "g"),
        conf=configuration(["gang", "predicates", "resourcequota"]),
    )  # fmt: skip
    (shortage,) = gate(it, GateKind.ENQUEUE).shortages
    assert (shortage.kind, shortage.name, shortage.missing) == ("ResourceQuota", "default/rq", 2000)


def test_a_gang_with_missing_pods_is_reported() -> None:
    it = explained("podgroup", "g", node("n1"), group("g", minimum=3), pods("p", 2, "1c", "g"))
    assert gate(it, GateKind.VALIDITY).plugin == "gang"
    assert "there are 2 Pods, and 3 are needed" in [gate.message for gate in it.gates]


def test_reports_how_many_pods_of_a_gang_find_a_node() -> None:
    it = explained("podgroup", "g", node("n1"), group("g", minimum=3), pods("p", 3, "2c", "g"))
    assert gate(it, GateKind.GANG).message == "0 of 3 Pods have a node, 2 more find one"
    assert it.placeable == 2


def test_scheduling_gates_hold_a_job_with_too_few_other_pods() -> None:
    it = explained(
        "podgroup", "g", node("n1"), group("g", minimum=2), pod("a", "1c", "g"), pod("b", "1c", "g", gated=True)
    )
    assert gate(it, GateKind.GATES).message == "1 of 2 Pods have scheduling gates, which leaves 1 of the 2 needed"


def test_nodes_with_the_same_reasons_form_one_group_with_numbers() -> None:
    tainted: Raw = {"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]}
    it = explained(
        "podgroup", "g", node("n1", "1c+8Gi"), node("n2", "2c+8Gi"), node("n3", "8c+8Gi", **tainted),
        node("n4", "1c+8Gi", **tainted), group("g"), pod("p", "4c", "g"),
    )  # fmt: skip
    taint = "node(s) had untolerated taint {dedicated: x}"
    assert [(group.names, group.reasons) for group in it.nodes] == [
        (("n1", "n2"), ("Insufficient cpu",)),
        (("n3",), (taint,)),
        (("n4",), ("Insufficient cpu", taint)),
    ]
    (short,) = it.nodes[0].shortages
    assert (short.resource, short.asked, short.free, short.name) == ("cpu", 4000, 2000, "n2")


def tainted(name: str, *taints: str) -> Raw:
    """A node with NoSchedule taints, written ``key=value``."""
    parts = [taint.partition("=") for taint in taints]
    return node(name, taints=[{"key": key, "value": value, "effect": "NoSchedule"} for key, _, value in parts])


def test_taints_that_a_pod_does_not_tolerate_are_named_with_the_number_of_their_nodes() -> None:
    tolerated: Raw = {"tolerations": [{"key": "spot", "operator": "Exists"}]}
    nodes = [tainted("n1", "team=b", "spot"), tainted("n2", "team=b"), tainted("n3", "team=c"), tainted("n4", "full")]
    it = explained("podgroup", "g", *nodes, group("g"), pod("p", "1c", "g", **tolerated))
    assert [gate.message for gate in it.gates if gate.plugin == "predicates"] == [
        "p: 2 nodes have the taint team=b:NoSchedule, which it does not tolerate",
        "p: 1 node has the taint full:NoSchedule, which it does not tolerate",
        "p: 1 node has the taint team=c:NoSchedule, which it does not tolerate",
    ]
    assert [(group.names, group.reasons) for group in it.nodes] == [
        (("n1", "n2"), ("node(s) had untolerated taint {team: b}",)),
        (("n3",), ("node(s) had untolerated taint {team: c}",)),
        (("n4",), ("node(s) had untolerated taint {full: }",)),
    ]


def test_of_many_taints_the_most_frequent_are_named() -> None:
    nodes = [tainted(f"n{i}", f"own={i}", "all=x") for i in range(6)]
    it = explained("podgroup", "g", *nodes, group("g"), pod("p", "1c", "g"))
    first, *_, last = [gate.message for gate in it.gates if gate.plugin == "predicates"]
    assert first == "p: 6 nodes have the taint all=x:NoSchedule, which it does not tolerate"
    assert last == "p: nodes have 2 other taints, which it does not tolerate"


def test_reports_which_plugins_protect_which_pods_from_preemption() -> None:
    it = explained(
        "pod", "p", node("n1", "2c+4Gi"), group("h", minimum=2), pods("h", 2, "1c", "h", on="n1", priority=1),
        group("g"), pod("p", "1c", "g", priority=5), conf=PREEMPTING,
    )  # fmt: skip
    message = gate(it, GateKind.PREEMPT).message
    assert "of 2 Pods of other jobs in queue default, 0 may be evicted" in message
    assert "gang spares 2" in message


def test_a_pod_with_preemption_policy_never_preempts_no_pod() -> None:
    it = explained(
        "pod", "p", node("n1", "2c+4Gi"), group("h"), pod("h-0", "2c", "h", on="n1"), group("g"),
        pod("p", "1c", "g", preemptionPolicy="Never"), conf=PREEMPTING,
    )  # fmt: skip
    assert gate(it, GateKind.PREEMPT).message == "p has preemptionPolicy Never"


def test_a_refusal_without_a_reason_names_the_plugin() -> None:
    late = configuration(
        ["gang", "predicates"], ["proportion"], actions="enqueue, allocate"
    )  # a group without Pods of its own takes part too
    it = explained("podgroup", "g", node("n1"), group("g"), pod("p", "9c", "g"), conf=late)
    assert all(gate.message for gate in it.gates)
