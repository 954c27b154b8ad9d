"""The action backfill: Pods without requests get a node that the predicates allow, whatever is in use."""

from tests.builders import World, configuration, group, node, pod

CONF = configuration(["gang"])


def test_a_pod_without_requests_is_placed_on_a_full_node() -> None:
    world = World(node("n1", "1c"), pod("full", "1c", on="n1"), group("a"), pod("p", "", "a"))
    assert world.run(CONF).bound == {"p": "n1"}


def test_a_best_effort_member_counts_towards_its_gang_and_is_bound_with_it() -> None:
    world = World(node("n1", "2c"), group("a", minimum=3), pod("x", "1c", "a"), pod("y", "1c", "a"), pod("z", "", "a"))
    assert world.run(CONF).bound == {"x": "n1", "y": "n1", "z": "n1"}


def test_a_gated_best_effort_pod_waits_and_blocks_no_other_pod() -> None:
    world = World(node("n1"), group("a"), pod("p", "", "a", gated=True), group("b"), pod("q", "", "b"))
    assert world.run(CONF).bound == {"q": "n1"}


def test_without_nodes_a_best_effort_pod_waits() -> None:
    world = World(group("a"), pod("p", "", "a")).run(CONF)
    assert world.bound == {}
    assert world.get("Pod", "p")["status"]["conditions"][0]["message"] == "all nodes are unavailable"


def test_a_job_that_is_not_admitted_to_its_queue_is_passed_over() -> None:
    world = World(node("n1"), group("a", phase="Pending"), pod("p", "", "a"))
    assert world.run(configuration(["gang"], actions="backfill")).bound == {}


def test_a_pod_that_preempt_pipelined_without_an_eviction_is_bound_at_once() -> None:
    name = {"metadata": {"name": "high"}}
    important = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **name, "value": 9}
    victim = [group("low"), pod("v", "1c", "low", on="n1")]
    preemptor = [group("a", priority_class="high"), pod("a-x-0", "", "a"), pod("a-x-1", "1c", "a", priority=9)]
    world = World(important, node("n1", "1c"), victim, preemptor)
    world.run(configuration(["priority"], actions="enqueue, preempt, backfill"))
    assert (world.evicted, world.bound) == ({"v"}, {"a-x-0": "n1"})
