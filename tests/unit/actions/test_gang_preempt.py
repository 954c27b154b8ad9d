"""The action gangpreempt: which tasks are evicted so that a whole gang can start, and when no tasks are evicted."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.api.names import EVENT_PREEMPTED, PREEMPTABLE
from scheduler.api.task import TaskStatus
from scheduler.framework.configuration import Configuration
from tests.builders import Raw, World, configuration, group, node, pod, pods, queue

GANG = configuration(
    {"priority": {}, "gang": {"enablePreemptable": False}, "conformance": {}, "capacity": {}},
    ["predicates", "nodeorder"],
    actions="enqueue, allocate, gangpreempt, backfill",
)
NO = {PREEMPTABLE: "false"}
CLASSES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": n}, "value": v}
    for n, v in (("high", 100), ("mid", 50), ("low", 10))
]
PORT: dict[str, Any] = {
    "containers": [
        {
            "name": "main",
            "ports": [{"containerPort": 80, "hostPort": 80}],
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        }
    ]
}
FOUR = [node(f"n{i}", "1c+1Gi") for i in range(4)]
ON = ["n0", "n1", "n2", "n3"]


def job(
    name: str, minimum: int, importance: str, number: int, on: Sequence[str] = (), *, into: str = "q", **rest: Any
) -> list[Raw]:
    """A gang of so many Pods of one core, the first of which run on the nodes given."""
    members = [
        pod(f"{name}-{i}", "1c+1Gi", name, on=on[i] if i < len(on) else "", **rest) for i in range(max(number, len(on)))
    ]
    return [group(name, into, minimum, priority_class=importance), *members]


def gangs(*objects: Raw | Sequence[Raw], conf: Configuration = GANG, nodes: Sequence[Raw] = FOUR) -> World:
    return World(CLASSES, nodes, queue("q"), *objects).run(conf)


def per_job(world: World) -> dict[str, int]:
    """Maps each PodGroup to the number of its evicted Pods."""
    result: dict[str, int] = {}
    for name in world.evicted:
        owner = name.rsplit("-", 1)[0]
        result[owner] = result.get(owner, 0) + 1
    return result


# --- Volcano's own table ---
def test_a_gang_gives_what_it_can_spare_and_runs_on() -> None:
    assert per_job(gangs(job("v", 2, "low", 0, ON), job("p", 2, "high", 2))) == {"v": 2}


def test_several_gangs_give_what_they_can_spare_before_one_is_broken() -> None:
    world = gangs(job("a", 1, "low", 0, ON[:2]), job("b", 1, "low", 0, ON[2:]), job("p", 2, "high", 2))
    assert per_job(world) == {"a": 1, "b": 1}


def test_one_gang_is_broken_where_none_can_spare_anything_the_younger_one() -> None:
    world = gangs(job("a", 2, "low", 0, ON[:2]), job("b", 2, "low", 0, ON[2:]), job("p", 2, "high", 2))
    assert per_job(world) == {"b": 2}


def test_as_many_gangs_are_broken_as_it_takes() -> None:
    world = gangs(job("a", 2, "low", 0, ON[:2]), job("b", 2, "low", 0, ON[2:]), job("p", 4, "high", 4))
    assert per_job(world) == {"a": 2, "b": 2}


def test_a_gang_that_is_broken_goes_with_all_it_has() -> None:
    assert per_job(gangs(job("v", 4, "low", 0, ON), job("p", 2, "high", 2))) == {"v": 4}


def test_what_a_gang_can_spare_goes_with_it_when_it_is_broken() -> None:
    assert per_job(gangs(job("v", 3, "low", 0, ON), job("p", 2, "high", 2))) == {"v": 4}


def test_a_gang_that_gives_one_task_for_a_node_and_one_for_the_quota_goes_with_all_it_has() -> None:
    nodes = [node(n, "1c+1Gi", {"zone": "a" if n == "n0" else "b"}) for n in ON]
    preemptor = job("p", 1, "high", 1, into="small", selector={"zone": "a"})
    world = gangs(queue("small", capability="2c"), job("v", 2, "low", 0, ON[:3], into="small"), preemptor, nodes=nodes)
    assert world.evicted == {"v-0", "v-1", "v-2"}


def test_jobs_of_other_queues_are_left_alone() -> None:
    assert gangs(queue("other"), job("v", 1, "low", 0, ON, into="other"), job("p", 2, "high", 2)).evicted == set()


@pytest.mark.parametrize("importance", ["mid", "high"])
def test_what_is_not_less_important_is_left_alone(importance: str) -> None:
    assert gangs(job("v", 1, importance, 0, ON), job("p", 2, "mid", 2)).evicted == set()


def test_what_is_as_important_is_left_alone_though_no_plugin_says_so() -> None:
    conf = configuration(["gang"], ["predicates"], actions="allocate, gangpreempt")
    assert gangs(job("v", 1, "mid", 0, ON), job("p", 2, "mid", 2), conf=conf).evicted == set()


def test_the_deserved_share_of_a_queue_protects_no_task_from_more_important_jobs_in_that_queue() -> None:
    objects = [*job("v", 1, "low", 0, ON, into="rich"), *job("p", 2, "high", 2, into="rich")]
    assert len(gangs(queue("rich", deserved="9c+9Gi"), objects).evicted) == 2


def test_no_task_is_evicted_where_evicting_all_less_important_tasks_would_not_suffice() -> None:
    world = gangs(job("a", 2, "high", 0, ON[:2]), job("b", 2, "low", 0, ON[2:]), job("p", 4, "mid", 4))
    assert world.evicted == set()


def test_no_role_is_evicted_below_its_minimum() -> None:
    victim = group("v", "q", 3, roles={"ps": 1, "worker": 2}, priority_class="low")
    members = [pod(f"v-{i}", "1c+1Gi", "v", on=ON[i], role="worker" if i < 3 else "ps") for i in range(4)]
    (gone,) = gangs(victim, members, job("p", 1, "high", 1)).evicted
    assert gone != "v-3"


# --- who goes first ---
def test_the_less_important_job_goes_first() -> None:
    world = gangs(job("a", 1, "mid", 0, ON[:2]), job("b", 1, "low", 0, ON[2:]), job("p", 1, "high", 1))
    assert per_job(world) == {"b": 1}


def test_what_a_more_important_gang_can_spare_goes_before_a_less_important_one_is_broken() -> None:
    world = gangs(job("a", 1, "mid", 0, ON[:2]), job("b", 2, "low", 0, ON[2:]), job("p", 1, "high", 1))
    assert per_job(world) == {"a": 1}


def test_the_less_important_pod_of_a_gang_goes_first() -> None:
    members = [pod(f"v-{i}", "1c+1Gi", "v", on=ON[i], priority=1 if i == 1 else 5) for i in range(4)]
    world = gangs(group("v", "q", 2, priority_class="low"), members, job("p", 1, "high", 1))
    assert world.evicted == {"v-1"}


def test_a_gang_below_its_minimum_loses_task_by_task() -> None:
    world = gangs(job("a", 4, "low", 4, ON[:3]), job("b", 1, "low", 0, ON[3:]), job("p", 2, "high", 2))
    assert per_job(world) == {"a": 2}


# --- who stays ---
@pytest.mark.parametrize("where", ["annotations", "labels"])
def test_a_pod_group_that_is_not_preemptable_is_left_alone(where: str) -> None:
    victim = job("v", 1, "low", 0, ON)
    victim[0]["metadata"][where] = NO
    assert gangs(victim, job("p", 2, "high", 2)).evicted == set()


def test_pods_that_are_not_preemptable_stay_and_the_gang_gives_others() -> None:
    victim = job("v", 1, "low", 0, ON)
    for member in victim[1:3]:
        member["metadata"]["annotations"].update(NO)
    assert gangs(victim, job("p", 2, "high", 2)).evicted == {"v-2", "v-3"}


@pytest.mark.parametrize("tiers", [[["priority", "gang", "conformance"]], [["priority", "gang"], ["conformance"]]])
def test_system_critical_pods_stay_and_a_gang_that_has_some_is_not_broken(tiers: list[list[str]]) -> None:
    conf = configuration(*tiers, ["predicates"], actions="allocate, gangpreempt")
    victim = job("v", 3, "low", 0, ON[:3])
    victim[1]["spec"]["priorityClassName"] = "system-node-critical"
    assert gangs(victim, job("b", 1, "low", 0, ON[3:]), job("p", 2, "high", 2), conf=conf).evicted == set()


def test_no_gang_is_broken_if_the_configuration_forbids_it() -> None:
    conf = replace(GANG, action_arguments={"gangpreempt": {"allowWholeBundle": False}})
    assert gangs(job("v", 3, "low", 0, ON), job("p", 2, "high", 2), conf=conf).evicted == set()


def test_a_disruption_budget_is_kept() -> None:
    conf = configuration(["priority", "gang", "pdb"], ["predicates"], actions="allocate, gangpreempt")
    budget = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}}, "status": {"disruptionsAllowed": 1},
    }  # fmt: skip
    victims = job("v", 0, "low", 0, ON, labels={"app": "db"})
    assert len(gangs(budget, victims, job("p", 1, "high", 1), conf=conf).evicted) == 1
    assert gangs(budget, victims, job("p", 2, "high", 2), conf=conf).evicted == set()


def test_pods_without_labels_go_though_there_is_a_budget() -> None:
    conf = configuration(["priority", "gang", "pdb"], ["predicates"], actions="allocate, gangpreempt")
    assert len(gangs(job("v", 0, "low", 0, ON), job("p", 2, "high", 2), conf=conf).evicted) == 2


def test_a_pod_that_has_just_begun_stays_for_its_cooldown_time() -> None:
    conf = configuration(["priority", "gang", "cdp"], ["predicates"], actions="allocate, gangpreempt")
    fresh = job("v", 0, "low", 0, ON, labels={"volcano.sh/cooldown-time": "600s"})
    assert gangs(fresh, job("p", 1, "high", 1), conf=conf).evicted == set()


# --- no more than is needed ---
def test_of_what_a_gang_can_spare_no_more_goes_than_is_needed() -> None:
    eight = [node(f"n{i}", "1c+1Gi") for i in range(8)]
    world = gangs(job("v", 1, "low", 0, [f"n{i}" for i in range(8)]), job("p", 4, "high", 4), nodes=eight)
    assert len(world.evicted) == 4


def test_what_is_free_is_counted() -> None:
    assert len(gangs(job("v", 1, "low", 0, ON[:3]), job("p", 2, "high", 2)).evicted) == 1


def test_no_task_is_evicted_from_a_node_that_the_gang_may_not_use() -> None:
    nodes = [node(n, "1c+1Gi", {"zone": "a" if n in ("n1", "n2") else "b"}) for n in ON]
    world = gangs(job("v", 0, "low", 0, ON), job("p", 2, "high", 2, selector={"zone": "a"}), nodes=nodes)
    assert world.evicted == {"v-1", "v-2"}


def test_a_gang_gives_the_one_that_is_needed_and_keeps_another() -> None:
    nodes = [node(n, "1c+1Gi", {"zone": "a" if n == "n0" else "b"}) for n in ON]
    world = gangs(job("v", 1, "low", 0, ON[:2]), job("p", 1, "high", 1, selector={"zone": "a"}), nodes=nodes)
    assert world.evicted == {"v-0"}


def test_a_task_that_holds_nothing_of_the_missing_resource_is_not_evicted() -> None:
    gpu = "nvidia.com/gpu=1"
    nodes = [node(f"n{i}", "4c+4Gi+nvidia.com/gpu=2") for i in range(2)]
    plain = [group("plain", "q", 0, priority_class="low"), *(pod(f"plain-{n}", "1c", "plain", on=n) for n in ON[:2])]
    cards = [group("card", "q", 0, priority_class="mid")]
    cards += [pod(f"card-{n}{i}", f"1c+{gpu}", "card", on=n) for n in ON[:2] for i in range(2)]
    preemptor = [group("p", "q", 2, priority_class="high"), *pods("p", 2, f"1c+{gpu}", "p")]
    world = gangs(plain, cards, preemptor, nodes=nodes)
    assert len(world.evicted) == 2 and all(name.startswith("card") for name in world.evicted)


def test_a_node_is_emptied_rather_than_two_halved() -> None:
    nodes = [node(f"n{i}", "4c+4Gi") for i in range(2)]
    victims = job("v", 0, "low", 0, ["n0", "n1"] * 4)
    preemptor = [group("p", "q", 1, priority_class="high"), pod("p-0", "4c+4Gi", "p")]
    world = gangs(victims, preemptor, nodes=nodes)
    assert len(world.evicted) == 4
    assert len({eviction.task.node for eviction in world.decisions.evictions}) == 1


def test_two_small_pods_share_the_place_of_one_large_victim() -> None:
    nodes = [node(f"n{i}", "4c+4Gi") for i in range(2)]
    victims = [group("v", "q", 0, priority_class="low"), *(pod(f"v-{n}", "4c+4Gi", "v", on=n) for n in ("n0", "n1"))]
    assert len(gangs(victims, job("p", 2, "high", 2), nodes=nodes).evicted) == 1


def test_a_gang_of_two_sizes_gets_room_for_both() -> None:
    nodes = [node(f"n{i}", "4c+4Gi") for i in range(3)]
    victims = job("v", 2, "low", 0, ["n0"] * 4 + ["n1"] * 4 + ["n2"] * 4)
    preemptor = [
        group("p", "q", 3, priority_class="high"),
        pod("p-ps-0", "3c+3Gi", "p"),
        *pods("p-w", 2, "2c+2Gi", "p"),
    ]
    assert len(gangs(victims, preemptor, nodes=nodes).evicted) == 7


def test_a_gang_that_proves_unneeded_is_not_broken() -> None:
    """The eviction in the first domain does not help, because its nodes are too small. The second domain alone
    suffices."""
    nodes = [*(node(f"s{i}", "1c+1Gi") for i in range(2)), node("large", "2c+2Gi")]
    small = job("b", 2, "low", 0, ["s0", "s1"])
    large = [group("a", "q", 1, priority_class="low"), pod("a-0", "2c+2Gi", "a", on="large")]
    preemptor = [group("p", "q", 1, priority_class="high"), pod("p-0", "2c+2Gi", "p")]
    assert gangs(large, small, preemptor, nodes=nodes).evicted == {"a-0"}


# --- quotas and conditions ---
def test_room_is_made_in_the_quota_where_nodes_are_idle() -> None:
    nodes = [node(f"n{i}", "1c+1Gi") for i in range(6)]
    limited = queue("limited", capability="4c+4Gi")
    victim, preemptor = job("v", 1, "low", 0, ON, into="limited"), job("p", 2, "high", 2, into="limited")
    world = gangs(limited, victim, preemptor, nodes=nodes)
    assert len(world.evicted) == 2
    assert world.outcome is not None
    session = world.outcome.session
    assert {session.nodes.names[row] for row in session.jobs["default/p"].placed.values()} == {"n4", "n5"}


def test_where_only_the_quota_lacks_a_free_node_is_taken_before_one_that_will_be() -> None:
    conf = configuration(["priority", "gang", "capacity"], ["predicates"], actions="allocate, gangpreempt")
    objects = [*job("v", 0, "low", 0, ["n0"], into="limited"), *job("x", 0, "low", 0, ["n1"], deleting=True)]
    preemptor = job("p", 1, "high", 1, into="limited")
    world = gangs(queue("limited", capability="1c+1Gi"), objects, preemptor, conf=conf, nodes=FOUR[:3])
    assert world.evicted == {"v-0"}
    assert world.get("Pod", "p-0")["status"]["nominatedNodeName"] == "n2"


def test_only_the_task_that_holds_the_port_is_evicted() -> None:
    nodes = [node(f"n{i}", "2c+2Gi") for i in range(2)]
    plain, with_port = job("a", 1, "low", 0, ON[:2]), job("b", 0, "mid", 0, ON[:2], **PORT)
    world = gangs(plain, with_port, job("p", 1, "high", 1, **PORT), nodes=nodes)
    assert per_job(world) == {"b": 1}


def test_victims_that_turn_out_to_be_unnecessary_stay() -> None:
    plain, with_port = job("a", 0, "low", 0, ["n0", "n0"]), job("b", 0, "mid", 0, ["n0"], **PORT)
    world = gangs(plain, with_port, job("p", 1, "high", 1, **PORT), nodes=[node("n0", "4c+4Gi")])
    assert per_job(world) == {"b": 1}


@pytest.mark.parametrize("terminating", [False, True])
def test_a_node_that_is_free_or_will_be_is_taken_before_one_that_is_cleared(terminating: bool) -> None:
    """A gang of two would have to be evicted for one of the two Pods; otherwise, full nodes would be preferred."""
    conf = configuration(["priority", "gang"], ["predicates", "binpack"], actions="allocate, gangpreempt")
    going = job("x", 0, "low", 0, ["n2"], deleting=True) if terminating else []
    objects = [*job("v", 2, "low", 0, ON[:2]), *going, *job("p", 2, "high", 2)]
    world = gangs(objects, conf=conf, nodes=FOUR[:3])
    assert per_job(world) == {"v": 2}
    assert world.outcome is not None
    session = world.outcome.session
    assert session.nodes.index["n2"] in session.jobs["default/p"].placed.values()


def test_no_task_is_evicted_for_a_gang_that_could_not_start_anyway() -> None:
    held_back = [*job("p", 2, "high", 1), pod("p-9", "1c+1Gi", "p", gated=True)]
    assert gangs(job("v", 0, "low", 0, ON), held_back).evicted == set()


def test_a_gang_gets_room_for_all_its_tasks_or_none() -> None:
    assert len(gangs(job("v", 1, "low", 0, ON), job("p", 2, "high", 3)).evicted) == 3
    assert gangs(job("v", 1, "low", 0, ON), job("p", 2, "high", 5)).evicted == set()


def test_a_gang_with_a_pod_that_never_preempts_waits() -> None:
    preemptor = job("p", 2, "high", 2)
    preemptor[1]["spec"]["preemptionPolicy"] = "Never"
    assert gangs(job("v", 0, "low", 0, ON), preemptor).evicted == set()


# --- in time ---
def test_the_whole_gang_is_pipelined_and_its_nodes_are_nominated() -> None:
    world = gangs(job("v", 1, "low", 0, ON[:3]), job("p", 2, "high", 2))
    assert world.outcome is not None
    pipelined = world.outcome.session.jobs["default/p"].of(TaskStatus.PIPELINED)
    assert {task.name for task in pipelined.values()} == {"p-0", "p-1"}
    nominated = {world.get("Pod", name)["status"]["nominatedNodeName"] for name in ("p-0", "p-1")}
    assert nominated == {"n3", *(eviction.task.node for eviction in world.decisions.evictions)}


@pytest.mark.parametrize("actions", ["allocate, gangpreempt", "gangpreempt, allocate"])
def test_a_gang_waits_for_those_who_terminate_and_then_takes_its_nodes(actions: str) -> None:
    conf = replace(GANG, actions=tuple(actions.split(", ")))
    world = gangs(job("v", 1, "low", 0, ON), job("p", 2, "high", 2), conf=conf)
    evictions = len(world.evicted)
    for _ in range(3):
        evictions += len(world.run(conf, exits=False).evicted)
    assert evictions == 2
    bound = [name for _ in range(3) for name in world.run(conf, kubelet=True).bound]
    assert set(bound) == {"p-0", "p-1"}


def test_a_gang_waits_for_a_port_that_is_given_up() -> None:
    """The filter of ports does not see that the Pod terminates; the nomination does."""
    world = gangs(job("v", 0, "low", 0, ON, **PORT), job("p", 1, "high", 1, **PORT))
    assert len(world.evicted) == 1
    assert world.run(GANG).evicted == set()


def test_a_gang_that_needs_no_eviction_is_left_to_allocate() -> None:
    conf = replace(GANG, actions=("gangpreempt", "allocate"))
    world = gangs(job("v", 0, "low", 0, ON[:2]), job("p", 2, "high", 2), conf=conf)
    assert world.evicted == set()
    assert set(world.bound) == {"p-0", "p-1"}


def test_what_is_evicted_for_one_gang_counts_once() -> None:
    world = gangs(job("v", 0, "low", 0, ON), job("p", 2, "high", 2), job("r", 1, "high", 1))
    assert len(world.evicted) == 3
    assert world.decisions.eviction_transactions == {"gangpreempt": 2}


# --- Events and conditions ---
def test_the_events_of_the_victims_name_the_gang_that_takes_their_place() -> None:
    world = gangs(job("v", 0, "low", 0, ON[:1]), job("p", 1, "high", 1), nodes=FOUR[:1])
    assert world.events(EVENT_PREEMPTED) == [
        "Makes room on node n0 for Pod default/p-0 of PodGroup default/p (priority 100, queue q)"
    ]
    assert world.events("Evict") == ["Pod is evicted, because of gangpreempt"]


def test_the_rest_of_a_broken_gang_gets_an_event_that_says_why_it_is_evicted() -> None:
    world = gangs(job("v", 4, "low", 0, ON), job("p", 2, "high", 2))
    words = "Goes with its gang, which makes room for PodGroup default/p (priority 100, queue q)"
    assert world.events(EVENT_PREEMPTED).count(words) == 2


def test_a_failed_trial_leaves_no_condition_on_the_gang() -> None:
    nodes = [node(f"n{i}", "2c+2Gi") for i in range(4)]
    with_port = job("b", 0, "low", 0, ON, annotations=NO, **PORT)
    objects = [*job("v", 0, "low", 0, ON), *with_port, *job("p", 2, "high", 2, **PORT)]
    without = replace(GANG, actions=("enqueue", "allocate", "backfill"))
    statuses = [gangs(objects, conf=conf, nodes=nodes).get("PodGroup", "p")["status"] for conf in (GANG, without)]
    assert statuses[0] == statuses[1]
