"""What holds a job, who says so, and with which numbers."""

import json

from scheduler.api.names import CARD_NAME, CARD_QUOTA
from scheduler.explain.explanation import Explanation
from scheduler.framework.configuration_file import parse_configuration
from scheduler.framework.remedies.gates import Gate, Held
from tests.builders import Raw, configuration, group, node, pod, pods, queue
from tests.unit.explain.worlds import DEFAULT, explained

CAPACITY = configuration(["gang", "predicates", "capacity"])
PREEMPTING = parse_configuration(
    "actions: enqueue, allocate, preempt, reclaim, backfill\n"
    "tiers:\n- plugins: [{name: priority}, {name: gang}, {name: conformance}]\n"
    "- plugins: [{name: predicates}, {name: proportion}]\n"
)


def gate(it: Explanation, held: Held) -> Gate:
    found = [gate for gate in it.gates if gate.held is held]
    assert len(found) == 1, it.gates
    return found[0]


def test_a_queue_that_does_not_exist() -> None:
    it = explained("podgroup", "g", node("n1"), group("g", "nowhere"), pod("p", "1c", "g"))
    assert gate(it, Held.QUEUE).message == "queue nowhere does not exist"


def test_a_queue_that_is_closed() -> None:
    closed = queue("q", state="Closed")
    it = explained("podgroup", "g", node("n1"), closed, group("g", "q", asks="1c"), pod("p", "1c", "g"), conf=CAPACITY)
    assert gate(it, Held.QUEUE).plugin == "capacity"
    assert "queue q is Clos" in gate(it, Held.QUEUE).message


def test_a_closed_queue_is_named_though_another_plugin_refuses_first() -> None:
    it = explained(
        "podgroup", "g", node("n1"), queue("q", state="Closed"), group("h"), pod("h0", "4c", "h", on="n1"),
        group("g", "q", asks="4c"), pod("p", "4c", "g"), conf=DEFAULT,
    )  # fmt: skip
    assert gate(it, Held.QUEUE).message == "queue q is Closed: only an Open queue takes jobs"
    assert gate(it, Held.ENQUEUE).plugin == "overcommit"
    assert it.gates[0].held is Held.QUEUE


def test_every_plugin_that_would_not_let_a_job_in_is_named() -> None:
    conf = configuration(["gang", "overcommit", "predicates", "capacity"])
    it = explained(
        "podgroup", "g", node("n1"), queue("q", capability="2c"), group("g", "q", asks="6c"), pod("p", "1c", "g"),
        conf=conf,
    )  # fmt: skip
    assert [(gate.held, gate.plugin) for gate in it.gates] == [
        (Held.ENQUEUE, "overcommit"), (Held.ENQUEUE, "capacity")]  # fmt: skip


def test_a_closed_queue_holds_nothing_where_no_plugin_keeps_queues() -> None:
    it = explained("podgroup", "g", node("n1"), queue("q", state="Closed"), group("g", "q"), pod("p", "9c", "g"))
    assert {gate.held for gate in it.gates} == {Held.NODES}


def test_a_number_of_chips_that_no_pod_may_ask_for_is_named_though_the_job_is_not_let_in() -> None:
    ring = {"accelerator-type": "module"}
    it = explained(
        "podgroup", "g", node("n1", "8c+8Gi+huawei.com/Ascend910=8", ring), queue("q", state="Closed"),
        group("g", "q", asks="99c"), pod("p", "1c+huawei.com/Ascend910=3", "g"), conf=DEFAULT,
    )  # fmt: skip
    assert gate(it, Held.VALIDITY).plugin == "ascend"
    assert gate(it, Held.VALIDITY).message.startswith("Pod default/p asks for 3 huawei.com/Ascend910")
    assert {gate.held for gate in it.gates} == {Held.QUEUE, Held.ENQUEUE, Held.VALIDITY}


def test_cards_that_cannot_stand_for_each_other_are_named() -> None:
    whole = {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.count": "4"}
    sliced = {"nvidia.com/gpu.product": "NVIDIA-H100", "nvidia.com/gpu.count": "4"}
    either = {CARD_NAME: "NVIDIA-H200|NVIDIA-H100/mig-1g.10gb-mixed"}
    it = explained(
        "podgroup", "g", node("n1", "8c+8Gi+nvidia.com/gpu=4", whole),
        node("n2", "8c+nvidia.com/mig-1g.10gb=4", sliced), group("g", asks="99c"),
        pod("p", "1c+nvidia.com/gpu=1", "g", annotations=either),
        conf=configuration(["gang", "overcommit", "predicates", "capacity-card"]),
    )  # fmt: skip
    assert gate(it, Held.VALIDITY).plugin == "capacity-card"
    assert "cannot stand for each other" in gate(it, Held.VALIDITY).message


def test_a_job_that_is_not_let_in_is_told_by_which_plugin_and_with_which_numbers() -> None:
    it = explained("podgroup", "g", node("n1"), group("g", asks="6c"), pod("p", "1c", "g"), conf=DEFAULT)
    assert {gate.held for gate in it.gates} == {Held.ENQUEUE}
    by_plugin = {gate.plugin: gate.shortages for gate in it.gates}
    (shortage,) = by_plugin["overcommit"]
    assert (shortage.resource, shortage.asked, shortage.limit, shortage.kind) == ("cpu", 6000, 4800, "Cluster")


def test_a_queue_that_may_not_have_more_is_told_with_the_queue_that_has_the_limit() -> None:
    hierarchy = configuration({"gang": {}, "predicates": {}, "capacity": {"enableHierarchy": True}})
    it = explained(
        "podgroup", "g", node("n1", "16c+16Gi"), queue("dept", capability="2c"), queue("team", parent="dept"),
        group("g", "team"), pod("p", "3c", "g"), conf=hierarchy,
    )  # fmt: skip
    (shortage,) = gate(it, Held.QUOTA).shortages
    assert (shortage.kind, shortage.name, shortage.asked, shortage.limit) == ("Queue", "team", 3000, 2000)
    assert [(row.queue, row.capability) for row in it.queues] == [("team", None), ("dept", 2000)]


def test_a_card_quota_that_is_used_up() -> None:
    limited = queue("q")
    limited["metadata"]["annotations"] = {CARD_QUOTA: json.dumps({"NVIDIA-H200": 1})}
    labels = {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.count": "4"}
    it = explained(
        "podgroup", "g", node("n1", "8c+8Gi+nvidia.com/gpu=4", labels), limited, group("g", "q", 2),
        pods("p", 2, "1c+nvidia.com/gpu=1", "g", annotations={CARD_NAME: "NVIDIA-H200"}),
        conf=configuration(["gang", "predicates", "capacity-card"]),
    )  # fmt: skip
    assert gate(it, Held.QUOTA).plugin == "capacity-card"
    (shortage,) = gate(it, Held.QUOTA).shortages
    assert (shortage.resource, shortage.asked, shortage.used, shortage.limit) == ("NVIDIA-H200", 1000, 1000, 1000)


def test_a_resource_quota_of_the_namespace() -> None:
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
    (shortage,) = gate(it, Held.ENQUEUE).shortages
    assert (shortage.kind, shortage.name, shortage.missing) == ("ResourceQuota", "default/rq", 2000)


def test_a_gang_with_fewer_pods_than_it_needs() -> None:
    it = explained("podgroup", "g", node("n1"), group("g", minimum=3), pods("p", 2, "1c", "g"))
    assert gate(it, Held.VALIDITY).plugin == "gang"
    assert "there are 2 Pods, and 3 are needed" in [gate.message for gate in it.gates]


def test_a_gang_of_which_some_find_a_place() -> None:
    it = explained("podgroup", "g", node("n1"), group("g", minimum=3), pods("p", 3, "2c", "g"))
    assert gate(it, Held.GANG).message == "0 of 3 Pods have a node, 2 more find one"
    assert it.placeable == 2


def test_scheduling_gates_hold_a_job_with_too_few_pods_without() -> None:
    it = explained(
        "podgroup", "g", node("n1"), group("g", minimum=2), pod("a", "1c", "g"), pod("b", "1c", "g", gated=True)
    )
    assert gate(it, Held.GATES).message == "1 of 2 Pods have scheduling gates, which leaves 1 of the 2 needed"


def test_nodes_that_refuse_for_the_same_reasons_are_one_group_with_the_numbers() -> None:
    tainted: Raw = {"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]}
    it = explained(
        "podgroup", "g", node("n1", "1c+8Gi"), node("n2", "2c+8Gi"), node("n3", "8c+8Gi", **tainted),
        node("n4", "1c+8Gi", **tainted), group("g"), pod("p", "4c", "g"),
    )  # fmt: skip
    taint = "node(s) had untolerated taint(s)"
    assert [(group.names, group.reasons) for group in it.nodes] == [
        (("n1", "n2"), ("Insufficient cpu",)),
        (("n3",), (taint,)),
        (("n4",), ("Insufficient cpu", taint)),
    ]
    (short,) = it.nodes[0].shortages
    assert (short.resource, short.asked, short.free, short.name) == ("cpu", 4000, 2000, "n2")


def test_nobody_is_preempted_and_it_is_told_who_spares_whom() -> None:
    it = explained(
        "pod", "p", node("n1", "2c+4Gi"), group("h", minimum=2), pods("h", 2, "1c", "h", on="n1", priority=1),
        group("g"), pod("p", "1c", "g", priority=5), conf=PREEMPTING,
    )  # fmt: skip
    message = gate(it, Held.PREEMPT).message
    assert "of 2 Pods of other jobs in queue default, 0 may be evicted" in message
    assert "gang spares 2" in message


def test_nobody_is_preempted_by_a_pod_that_never_preempts() -> None:
    it = explained(
        "pod", "p", node("n1", "2c+4Gi"), group("h"), pod("h-0", "2c", "h", on="n1"), group("g"),
        pod("p", "1c", "g", preemptionPolicy="Never"), conf=PREEMPTING,
    )  # fmt: skip
    assert gate(it, Held.PREEMPT).message == "p has preemptionPolicy Never"


def test_a_refusal_without_words_is_told_with_the_name_of_the_plugin() -> None:
    late = configuration(
        ["gang", "predicates"], ["proportion"], actions="enqueue, allocate"
    )  # a group without Pods of its own takes part too
    it = explained("podgroup", "g", node("n1"), group("g"), pod("p", "9c", "g"), conf=late)
    assert all(gate.message for gate in it.gates)
