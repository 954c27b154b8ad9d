"""Scores of nodes and HyperNodes: tasks with a topology stay close together, other tasks are packed."""

from typing import Any

import numpy as np
import pytest

from scheduler.api.hypernode import CLUSTER_TOP
from scheduler.api.node import Column
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.session import Session
from tests.builders import Raw, World, configuration, group, hyper_node, node, pod, pods

NODES = [node(f"n{i}", "10c+10Gi") for i in range(6)]
TREE = [
    hyper_node("a", 1, "n0", "n1"),
    hyper_node("b", 1, "n2", "n3"),
    hyper_node("s", 2, ">a", ">b"),
    hyper_node("c", 1, "n4"),
]
HARD = {"mode": "hard", "highestTierAllowed": 3}


def session_of(*objects: Any, **arguments: Any) -> Session:
    conf = configuration(["gang", "network-topology-aware"], arguments={"network-topology-aware": arguments})
    return World(NODES, TREE, *objects).session(conf)


def waiting(session: Session) -> list[Task]:
    return sorted(session.jobs["default/j"].of(TaskStatus.PENDING).values(), key=lambda task: task.name)


def scores(session: Session) -> Column:
    """The score of each node for the pending tasks of the job."""
    job, rows = session.jobs["default/j"], np.arange(len(session.nodes))
    session.plugin_session.placing = next(iter(job.sub_jobs.values()), None)
    return sum(
        (score.values(rows, None) for score in session.scores(waiting(session)[0].cls, job)), np.zeros(len(rows))
    )


# --- tasks of gangs ---
def gang(number: int, *placed: str, asks: str = "1c", **spec: Any) -> list[Raw]:
    there = [pod(f"j-{90 + i}", asks, "j", on=name) for i, name in enumerate(placed)]
    return [group("j", networkTopology=HARD, **spec), *pods("j", number, asks, "j"), *there]


def test_for_the_first_task_of_a_gang_all_nodes_score_0() -> None:
    assert not scores(session_of(gang(2))).any()


def test_nodes_that_share_a_lower_tier_with_placed_tasks_score_higher() -> None:
    session = session_of(gang(3, "n0"))
    assert scores(session).tolist() == pytest.approx([125, 125, 50, 50, 0, 0])


def test_the_weight_scales_the_score_and_a_negative_weight_counts_as_1() -> None:
    assert scores(session_of(gang(3, "n0"), weight=10)).tolist() == pytest.approx([1250, 1250, 500, 500, 0, 0])
    assert scores(session_of(gang(3, "n0"), weight=-5)).tolist() == scores(session_of(gang(3, "n0"))).tolist()


def test_the_closeness_to_a_gang_is_that_to_the_lowest_hyper_node_around_it() -> None:
    session = session_of(gang(2, "n0", "n2"))
    assert scores(session).tolist() == pytest.approx([75, 75, 75, 75, 0, 0])


def test_scores_follow_placements_and_undone_placements() -> None:
    session = session_of(gang(3))
    before = scores(session).tolist()
    statement = session.statement()
    statement.allocate(session.jobs["default/j"], waiting(session)[:1], [4])
    near = scores(session)
    assert near[4] == 100 and not near[[0, 1, 2, 3, 5]].any()
    statement.discard()
    assert scores(session).tolist() == before


def test_a_node_in_no_hyper_node_scores_0() -> None:
    assert scores(session_of(gang(2, "n0")))[5] == 0
    assert not scores(session_of(gang(2, "n5"))).any()


# --- other tasks ---
def loose(asks: str = "1c", **spec: Any) -> list[Raw]:
    return [group("j", **spec), *pods("j", 4, asks, "j")]


def test_a_task_without_a_topology_prefers_nodes_in_no_hyper_node_and_then_those_in_use() -> None:
    found = scores(session_of(loose(), pod("x", "4c", on="n2")))
    assert found[5] == max(found) and found[2] == found[3] > found[0] == found[1]


def test_the_weights_of_tiers_decrease_by_the_fading_factor() -> None:
    session = session_of(loose("2c"), pod("x", "4c", on="n2"))
    shares = np.array([1, 0.8, 0.64]) / 2.44
    of_b, of_s = 6 / 20, 6 / 40
    assert scores(session)[2] == pytest.approx(100 * (shares[0] * of_b + shares[1] * of_s))
    assert scores(session)[4] == pytest.approx(100 * (shares[0] * 2 / 10 + shares[1]))


@pytest.mark.parametrize("fading", [0, 0.5, 1, 2])
def test_the_weights_of_tiers_add_up_to_1_for_any_factor(fading: float) -> None:
    session = session_of(loose(), **{"hypernode.binpack.normal-pod.fading": fading})
    found = scores(session)
    assert (found >= 0).all() and (found <= 100 + 1e-9).all() and found[5] > found[0]


def test_a_full_hyper_node_scores_0() -> None:
    found = scores(session_of(loose("8c"), pod("x", "9c", on="n4")))
    assert found[4] == pytest.approx(100 * 0.8 / 2.44)


def test_the_weights_of_resources_are_configurable() -> None:
    used = [pod("x", "5c", on="n0"), pod("y", "+5Gi", on="n2")]
    by_cpu = scores(session_of(loose("1c+1Gi"), used, **{"hypernode.binpack.memory": 0}))
    by_memory = scores(session_of(loose("1c+1Gi"), used, **{"hypernode.binpack.cpu": 0}))
    assert by_cpu[0] > by_cpu[2] and by_memory[2] > by_memory[0]


def test_packing_can_be_disabled() -> None:
    found = scores(session_of(loose(), pod("x", "4c", on="n2"), **{"hypernode.binpack.normal-pod.enable": False}))
    assert not found.any()


def test_without_hyper_nodes_there_is_no_score() -> None:
    session = World(NODES, loose()).session(configuration(["gang", "network-topology-aware"]))
    assert not scores(session).any()


def test_in_one_job_sub_groups_with_a_topology_stay_close_and_others_are_packed() -> None:
    policy = {"name": "w", "matchLabelKeys": ["g"], "networkTopology": HARD}
    members = [pod("j-0", "1c", "j", labels={"g": "0"}), pod("j-1", "1c", "j", on="n0", labels={"g": "0"})]
    session = session_of(group("j", subGroupPolicy=[policy]), members, pod("j-9", "1c", "j"))
    job = session.jobs["default/j"]
    found = {}
    for key, sub_job in job.sub_jobs.items():
        session.plugin_session.placing = sub_job
        parts = session.scores(waiting(session)[0].cls, job)
        found[key] = sum((part.values(np.arange(6), None) for part in parts), np.zeros(6))
    assert found["default/j/w/0"].argmax() == 0 and found["default/j"].argmax() == 5


# --- runs ---
@pytest.mark.parametrize(
    "objects", [gang(8), gang(8, "n2"), loose(), loose("3c")], ids=["gang", "grows", "loose", "big"]
)
def test_a_run_of_tasks_is_placed_as_if_they_were_placed_one_by_one(objects: list[Raw]) -> None:
    def place(at_once: int) -> list[int]:
        world = World(NODES, TREE, objects, pod("x", "4c", on="n3"))
        session = world.session(configuration(["gang", "predicates", "nodeorder", "network-topology-aware"]))
        job = session.jobs["default/j"]
        session.plugin_session.placing = next(iter(job.sub_jobs.values()), None)
        tasks, rows = waiting(session), []
        while tasks:
            chosen = session.view(tasks[0].cls, job).choose(
                min(at_once, len(tasks)), session.hyper_nodes.top.rows.view()
            )
            assert chosen
            session.statement().allocate(job, tasks[: len(chosen)], chosen)
            rows += chosen
            del tasks[: len(chosen)]
        return rows

    assert place(8) == place(1) == place(3)


# --- HyperNodes ---
def hyper_node_scores(session: Session, *names: str) -> list[float]:
    sub_job = next(iter(session.jobs["default/j"].sub_jobs.values()))
    found = [session.hyper_nodes.get(name) for name in names]
    result: list[float] = session.hyper_node_scores(sub_job, [hn for hn in found if hn is not None]).tolist()
    return result


def test_the_hyper_node_with_the_highest_utilization_scores_best_and_one_that_is_too_small_scores_0() -> None:
    session = session_of(gang(4, asks="2c"), pod("x", "4c", on="n2"), pod("y", "5c", on="n4"))
    assert hyper_node_scores(session, "a", "b", "c", "s", CLUSTER_TOP) == pytest.approx(
        [40, 60, 0, 100 * 12 / 40, 100 * 17 / 60]
    )


def test_among_equal_hyper_nodes_the_one_with_more_tasks_of_the_sub_job_scores_higher() -> None:
    session = session_of(gang(1, "n0", "n0", "n2"), pod("x", "1c", on="n3"))
    of_a, of_b = hyper_node_scores(session, "a", "b")
    assert of_a - of_b == pytest.approx(100 * (2 / 4 - 1 / 4))


def test_placements_of_the_session_count_as_utilization_until_they_are_undone() -> None:
    session = session_of(gang(4))
    before = hyper_node_scores(session, "a", "b")
    statement = session.statement()
    statement.allocate(session.jobs["default/j"], waiting(session)[:2], [0, 1])
    assert hyper_node_scores(session, "a", "b")[0] > before[0]
    statement.discard()
    assert hyper_node_scores(session, "a", "b") == before


def test_an_unknown_resource_is_ignored() -> None:
    session = session_of(gang(1), **{"hypernode.binpack.resources": "example.com/gpu, ", "weight": "heavy"})
    assert hyper_node_scores(session, "a") == pytest.approx([100 * 1 / 20])
    assert session.problems == ["plugin network-topology-aware: argument weight: 'heavy' is not an integer; using 1"]
