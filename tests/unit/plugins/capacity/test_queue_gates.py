"""The queue admission gate: it is removed from Pods when their queue has room."""

from typing import Any

from msgspec.structs import replace

from scheduler.api.names import QUEUE_ALLOCATION_GATE, SCHEDULING_GATES_QUEUE_ADMISSION
from scheduler.framework.configuration import Configuration
from tests.builders import Raw, World, configuration, group, hyper_node, node, only, pod, pods, queue

ON = frozenset({SCHEDULING_GATES_QUEUE_ADMISSION})
ASKS = {QUEUE_ALLOCATION_GATE: "true"}
GATE: dict[str, Any] = {"schedulingGates": [{"name": QUEUE_ALLOCATION_GATE}]}
FOREIGN: dict[str, Any] = {"schedulingGates": [{"name": QUEUE_ALLOCATION_GATE}, {"name": "example.com/hold"}]}
NODES = [node("n1", "4c+8Gi"), node("n2", "4c+8Gi")]


def scheduling(*plugins: str, actions: str = "enqueue, allocate, backfill", **flags: Any) -> Configuration:
    tier = {name: flags.get(name, {}) for name in (*plugins, "gang", "predicates")}
    return replace(configuration(tier, actions=actions), features=ON)


CAPACITY = scheduling("capacity")


def gated(prefix: str, number: int, in_group: str, asks: str = "1c", **rest: Any) -> list[Raw]:
    """Pods with the gate that the webhook adds."""
    return pods(prefix, number, asks, in_group, annotations=ASKS, **{**GATE, **rest})


def ungated(world: World) -> set[str]:
    """The Pods whose gate the last session removed."""
    return {ungate.task.name for ungate in world.decisions.ungates}


def has_gate(world: World, name: str) -> bool:
    return bool(world.get("Pod", name)["spec"].get("schedulingGates"))


# --- taking gates off ---
def test_gates_are_removed_up_to_the_room_of_the_queue_before_pods_are_placed() -> None:
    world = World(*NODES, queue("q", capability="3c"), group("g", "q"), gated("g", 5, "g"))
    world.run(CAPACITY)
    assert (ungated(world), world.bound) == ({"g-0", "g-1", "g-2"}, {})
    world.run(CAPACITY)
    assert (ungated(world), set(world.bound)) == (set(), {"g-0", "g-1", "g-2"})
    assert has_gate(world, "g-3") and has_gate(world, "g-4")


def test_a_pod_whose_gate_remains_gets_the_used_and_reserved_amounts() -> None:
    world = World(*NODES, queue("q", capability="3c"), group("g", "q", 4), gated("g", 4, "g"))
    world.run(CAPACITY, 2)
    (condition,) = world.get("PodGroup", "g")["status"]["conditions"]
    assert "queue q has all it may have in use" in condition["message"]
    assert "asked 1, used 3, limit 3" in condition["message"]


def test_a_cluster_in_which_pods_stay_behind_their_gates_causes_no_writes() -> None:
    for minimum in (1, 4):
        world = World(*NODES, queue("q", capability="3c"), group("g", "q", minimum), gated("g", 4, "g"))
        world.run(CAPACITY, 5, kubelet=True)
        assert not world.decisions


def test_without_the_feature_gate_no_gate_is_removed() -> None:
    world = World(*NODES, queue("q", capability="3c"), group("g", "q"), gated("g", 2, "g"))
    world.run(replace(CAPACITY, features=frozenset()), 2)
    assert (ungated(world), world.bound) == (set(), {})


def test_gates_without_the_annotation_or_with_other_gates_remain() -> None:
    world = World(
        *NODES,
        group("g"),
        pod("not-asked-for", "1c", "g", **GATE),
        pod("not-alone", "1c", "g", annotations=ASKS, **FOREIGN),
    )
    assert ungated(world.run(CAPACITY)) == set()


def test_other_queue_plugins_can_refuse_to_remove_a_gate() -> None:
    world = World(*NODES, queue("q", capability="3c"), group("g", "q"), gated("g", 5, "g"))
    assert ungated(world.run(scheduling("proportion"))) == {"g-0", "g-1", "g-2"}


def test_the_gate_of_a_best_effort_pod_is_removed() -> None:
    world = World(*NODES, queue("q", capability="1c"), group("g", "q"), gated("g", 1, "g", asks=""))
    world.run(CAPACITY, 2)
    assert set(world.bound) == {"g-0"}


def test_gates_of_a_job_with_a_hard_topology_are_removed_before_placement() -> None:
    topology = {"mode": "hard", "highestTierAllowed": 1}
    world = World(
        *NODES,
        *(hyper_node("s1", 1, "n1"), hyper_node("s2", 1, "n2"), hyper_node("top", 2, ">s1", ">s2")),
        queue("q", capability="3c"),
        group("g", "q", 2, networkTopology=topology),
        gated("g", 4, "g"),
    )
    conf = scheduling("capacity", "network-topology-aware")
    assert ungated(world.run(conf)) == {"g-0", "g-1", "g-2"}
    assert len(set(world.run(conf).bound.values())) == 1


# --- room that is kept ---
def test_room_of_an_ungated_pod_without_a_node_stays_reserved() -> None:
    world = World(
        *NODES,
        queue("q", capability="3c"),
        *(group("g", "q"), pod("g-0", "2c", "g", annotations=ASKS, selector={"zone": "none"})),
        *(group("h", "q"), pods("h", 2, "1c", "h")),
        *(group("i", "q"), gated("i", 1, "i")),
    )
    world.run(CAPACITY)
    assert (set(world.bound), ungated(world)) == ({"h-0"}, set())


def test_room_of_an_ungated_pod_is_reserved_in_the_ancestors() -> None:
    world = World(
        *NODES,
        *(queue("top", capability="3c", parent="root"), queue("a", parent="top"), queue("b", parent="top")),
        *(group("ga", "a"), group("gb", "b"), gated("ga", 3, "ga"), gated("gb", 3, "gb")),
    )
    world.run(scheduling("capacity", capacity={"enableHierarchy": True}))
    assert len(ungated(world)) == 3


def test_of_too_many_ungated_pods_the_first_ones_are_placed() -> None:
    world = World(*NODES, queue("q", capability="3c"), group("g", "q"), pods("g", 5, "1c", "g", annotations=ASKS))
    assert set(world.run(CAPACITY).bound) == {"g-0", "g-1", "g-2"}


def test_a_discarded_gang_keeps_its_reservation() -> None:
    world = World(
        *NODES,
        queue("q", capability="6c"),
        *(
            group("big", "q", 2),
            pods("big", 2, "3c", "big", annotations=ASKS, selector={"kubernetes.io/hostname": "n1"}),
        ),
        *(group("small", "q"), pods("small", 1, "1c", "small")),
    )
    assert world.run(CAPACITY).bound == {}


def test_an_evicted_pod_keeps_no_reservation() -> None:
    conf = scheduling(
        "priority",
        "capacity",
        actions="allocate, preempt",
        capacity=only("enabledAllocatable"),
        gang=only("enableJobStarving"),
        priority=only("enableJobOrder", "enableTaskOrder", "enablePreemptable"),
    )
    important = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 9,
    }
    world = World(
        *(node("n1", "1c+8Gi"), important, queue("q", capability="1c")),
        *(group("low", "q", phase="Running"), pod("low", "1c", "low", on="n1", annotations=ASKS)),
        *(group("high", "q", phase="Inqueue", priority_class="high"), pod("high", "1c", "high", annotations=ASKS)),
    )
    assert world.run(conf).evicted == {"low"}


# --- admission ---
def test_pods_with_this_gate_count_at_admission_and_pods_with_other_gates_do_not() -> None:
    world = World(
        *NODES,
        queue("q", capability="4c"),
        *(group("g", "q", 3, asks="3c"), gated("g", 3, "g")),
        *(group("h", "q", 3, asks="3c"), gated("h", 3, "h")),
    )
    world.run(CAPACITY)
    assert (world.phase("g"), world.phase("h")) == ("Inqueue", "Pending")
    world = World(
        *NODES,
        queue("q", capability="4c"),
        *(group("g", "q", 3, asks="3c"), gated("g", 3, "g", **FOREIGN)),
        *(group("h", "q", 3, asks="3c"), gated("h", 3, "h")),
    )
    world.run(CAPACITY)
    assert (world.phase("g"), world.phase("h")) == ("Inqueue", "Inqueue")
