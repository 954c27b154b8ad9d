"""The reasons why no Pod is evicted, and the priority at which a Pod would be evicted."""

from typing import Any

from scheduler.explain.explanation import Explanation
from scheduler.framework.configuration_file import parse_configuration
from scheduler.framework.remedies.gates import GateKind
from tests.builders import Raw, configuration, group, node, pod, pods, queue
from tests.unit.explain.small_clusters import changes, explained

PREEMPTING = configuration(["priority", "gang"], ["predicates"], actions="enqueue, allocate, preempt, backfill")
GANGS = parse_configuration(
    'actions: "enqueue, allocate, gangpreempt, gangreclaim, backfill"\n'
    "tiers:\n- plugins: [{name: priority}, {name: gang}, {name: conformance}]\n"
    "- plugins: [{name: predicates}, {name: proportion}]\n"
)
SPARING = parse_configuration(
    'actions: "enqueue, allocate, gangpreempt, backfill"\n'
    "configurations: [{name: gangpreempt, arguments: {allowWholeBundle: false}}]\n"
    "tiers:\n- plugins: [{name: priority}, {name: gang}]\n- plugins: [{name: predicates}]\n"
)


def of_class(name: str, value: int) -> Raw:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


MID, TOP = of_class("mid", 50), of_class("top", 51)


def message(it: Explanation, held: GateKind) -> str:
    (found,) = [gate.message for gate in it.gates if gate.kind is held]
    return found


# --- queues ---
def test_a_queue_that_has_no_more_than_it_deserves_is_named_although_the_first_tier_decides() -> None:
    conf = configuration(["priority", "gang"], ["predicates", "capacity"], actions="enqueue, allocate, reclaim")
    queues = [queue("a", deserved="2c"), queue("b", deserved="2c")]
    held = [group("h", "b", 0), *pods("h", 2, "1c", "h", on="n", annotations={"volcano.sh/preemptable": "true"})]
    it = explained("podgroup", "g", node("n", "2c"), queues, held, group("g", "a"), pod("p", "1c", "g"), conf=conf)
    assert message(it, GateKind.RECLAIM) == (
        "of 2 Pods of other queues that can be reclaimed from, 0 may be evicted (capacity spares 2)"
    )


# --- priorities ---
def holding(priority_class: str = "mid") -> list[Raw]:
    return [node("n1"), MID, group("h", priority_class=priority_class), *pods("h", 4, "1c", "h", on="n1")]


def test_suggests_a_priority_that_preempts_and_lists_the_victims() -> None:
    it = explained("podgroup", "g", holding(), group("g"), pod("p", "2c", "g"), conf=PREEMPTING, search=True)
    change = it.changes[-1]
    assert (
        change.text
        == "raise the priority of PodGroup default/g from 0 to 51 (PriorityClass priority-51, to be created)"
    )
    assert change.evicted == ("default/h-3", "default/h-2")
    assert [(document["kind"], document.get("value")) for document in change.documents] == [
        ("PodGroup", None),
        ("PriorityClass", 51),
    ]


def test_an_existing_priority_class_is_used() -> None:
    found = changes("g", holding(), TOP, group("g"), pod("p", "2c", "g"), conf=PREEMPTING)
    assert "raise the priority of PodGroup default/g from 0 to 51 (PriorityClass top)" in found


def test_an_existing_priority_class_with_the_generated_name_is_kept() -> None:
    found = changes("g", holding(), of_class("priority-51", 7), group("g"), pod("p", "2c", "g"), conf=PREEMPTING)
    assert any("from 0 to 51 (PriorityClass priority-51-2, to be created)" in text for text in found)


def test_no_priority_above_the_highest_is_suggested() -> None:
    highest = of_class("highest", 1_000_000_000)
    objects = (node("n1"), highest, group("h", priority_class="highest"), pods("h", 4, "1c", "h", on="n1"))
    found = changes("g", *objects, group("g"), pod("p", "2c", "g"), conf=PREEMPTING)
    assert not any("priority of" in text for text in found)


def test_no_priority_is_tried_without_an_evicting_action() -> None:
    assert not any("priority of" in text for text in changes("g", holding(), group("g"), pod("p", "2c", "g")))


# --- gangs for gangs ---
def test_gangs_of_no_lower_priority_are_not_evicted_for_a_gang() -> None:
    it = explained("podgroup", "g", holding(), group("g", minimum=2), pods("p", 2, "2c", "g"), conf=GANGS)
    assert message(it, GateKind.GANG_PREEMPT) == (
        "of 4 Pods of other jobs in queue default, 0 may be evicted (their priority spares 4)"
    )
    assert (
        message(it, GateKind.GANG_RECLAIM)
        == "proportion: with 2 Pods more queue default would have more than it deserves"
    )


def test_reports_how_many_pods_of_the_gang_would_fit_after_evictions() -> None:
    objects: list[Any] = [
        node("n1"), MID, group("h"), pod("h", "2c", "h", on="n1"), group("i", priority_class="mid"),
        pod("i", "2c", "i", on="n1"), group("g", minimum=2, priority_class="mid"), pods("p", 2, "2c", "g"),
    ]  # fmt: skip
    it = explained("podgroup", "g", *objects, conf=GANGS)
    assert message(it, GateKind.GANG_PREEMPT) == (
        "of 2 Pods of other jobs in queue default, 1 may be evicted (their priority spares 1); without them there "
        "would be room for 1 of 2 Pods"
    )


def test_reports_gangs_that_must_stay_whole() -> None:
    it = explained(
        "podgroup", "g", node("n1"), MID, group("h", minimum=4), pods("h", 4, "1c", "h", on="n1"),
        group("g", priority_class="mid"), pod("p", "2c", "g"), conf=SPARING,
    )  # fmt: skip
    assert message(it, GateKind.GANG_PREEMPT) == (
        "of 4 Pods of other jobs in queue default, 0 may be evicted (allowWholeBundle: false spares 4)"
    )


def test_reports_gangs_that_do_not_allow_eviction() -> None:
    never = group("h", annotations={"volcano.sh/preemptable": "false"})
    it = explained(
        "podgroup", "g", node("n1"), MID, never, pods("h", 4, "1c", "h", on="n1"), group("g", priority_class="mid"),
        pod("p", "2c", "g"), conf=SPARING,
    )  # fmt: skip
    assert message(it, GateKind.GANG_PREEMPT).endswith("0 may be evicted (their PodGroup spares 4)")


def test_queues_that_are_not_reclaimable_lose_nothing_to_a_gang() -> None:
    it = explained(
        "podgroup", "g", node("n1"), queue("q"), queue("kept", reclaimable=False), group("h", "kept"),
        pods("h", 4, "1c", "h", on="n1"), group("g", "q"), pod("p", "1c", "g"), conf=GANGS,
    )  # fmt: skip
    assert (
        message(it, GateKind.GANG_RECLAIM)
        == "there is no Pod of other queues that can be reclaimed from that may be evicted"
    )


def test_a_job_with_a_network_topology_does_not_preempt_on_single_nodes() -> None:
    it = explained(
        "podgroup", "g", holding(), group("g", networkTopology={"mode": "soft"}), pod("p", "2c", "g"), conf=PREEMPTING
    )
    assert message(it, GateKind.PREEMPT) == "it asks for a network topology: single nodes are of no use to it"


# --- how long it may wait ---
def test_reports_when_sla_admits_a_job() -> None:
    conf = configuration(["gang", "sla", "overcommit"], ["predicates"], arguments={"sla": {"sla-waiting-time": "1h"}})
    it = explained("podgroup", "g", node("n1"), group("g", asks="9c"), pod("p", "2c", "g"), conf=conf)
    (gate,) = [gate for gate in it.gates if gate.plugin == "sla"]
    assert gate.kind is GateKind.ENQUEUE
    assert gate.message.startswith("it is admitted once it has waited 1h0m0s, that is in 59m")
