"""The candidate HyperNodes of a job, and their order."""

from typing import Any

import pytest

from scheduler.api.hypernode import CLUSTER_TOP
from scheduler.api.job import Job
from scheduler.api.sub_job import SubJob
from scheduler.framework.session import Session
from tests.builders import Raw, World, configuration, group, hyper_node, node, pod, pods

NODES = [node(f"n{i}", "4c") for i in range(6)]
TREE = [
    hyper_node("a", 1, "n0", "n1"),
    hyper_node("b", 1, "n2"),
    hyper_node("s", 2, ">a", ">b"),
    hyper_node("c", 1, "n3"),
]


def session_of(*objects: Any, **arguments: Any) -> Session:
    conf = configuration(["gang", "network-topology-aware"], arguments={"network-topology-aware": arguments})
    return World(NODES, TREE, *objects).session(conf)


def job_of(session: Session) -> tuple[Job, SubJob]:
    job = session.jobs["default/j"]
    return job, next(iter(job.sub_jobs.values()))


def asked(tier: int, number: int, asks: str = "1c", **more: Any) -> list[Raw]:
    topology = {"mode": "hard", "highestTierAllowed": tier}
    return [group("j", networkTopology=topology, **more), *pods("j", number, asks, "j")]


def names(session: Session, target: Job | SubJob, within: str = CLUSTER_TOP, evict: bool = False) -> list[list[str]]:
    root = session.hyper_nodes.get(within)
    assert root is not None
    return [[hn.name for hn in gradient] for gradient in session.gradients(target, root, evict)]


def test_candidates_are_grouped_by_tier_the_lowest_first_and_ordered_by_name() -> None:
    session = session_of(asked(3, 1))
    assert names(session, job_of(session)[1]) == [["a", "b", "c"], ["s"], [CLUSTER_TOP]]


def test_hyper_nodes_above_the_highest_allowed_tier_are_no_candidates() -> None:
    session = session_of(asked(1, 1))
    assert names(session, job_of(session)[1]) == [["a", "b", "c"]]
    assert names(session, job_of(session)[1], within="s") == [["a", "b"]]


def test_a_candidate_fits_the_pending_tasks_of_a_sub_job_or_the_min_resources_of_a_job() -> None:
    session = session_of(asked(2, 6, asks="1c"))
    job, sub_job = job_of(session)
    assert names(session, sub_job) == [["a"], ["s"]]
    assert names(session, job) == [["a", "b", "c"], ["s"]]
    announced = group("j", asks="9c", networkTopology={"highestTierAllowed": 2})
    session = session_of(announced, pods("j", 1, "1c", "j"))
    assert names(session, job_of(session)[0]) == [["s"]]


def test_the_resources_of_terminating_pods_count_as_available() -> None:
    used = [pod("x", "4c", on="n2"), pod("y", "4c", on="n3", deleting=True)]
    session = session_of(asked(1, 3), used)
    assert names(session, job_of(session)[1]) == [["a", "c"]]


def test_the_candidates_of_a_job_with_placed_tasks_are_the_hyper_nodes_around_them() -> None:
    session = session_of(asked(2, 9), pod("j-9", "1c", "j", on="n1"))
    job, sub_job = job_of(session)
    assert names(session, job) == names(session, sub_job) == [["a"], ["s"]]
    session = session_of(asked(2, 1), pod("j-8", "1c", "j", on="n1"), pod("j-9", "1c", "j", on="n2"))
    assert names(session, job_of(session)[1]) == [["s"]]


def test_a_job_placed_outside_a_hyper_node_may_use_it_if_a_common_ancestor_is_allowed() -> None:
    session = session_of(asked(2, 1), pod("j-9", "1c", "j", on="n1"))
    _, sub_job = job_of(session)
    assert names(session, sub_job, within="b") == [["b"]]
    assert names(session, sub_job, within="c") == []


def test_a_job_whose_placed_tasks_exceed_its_highest_tier_has_no_candidates() -> None:
    session = session_of(asked(1, 1), pod("j-8", "1c", "j", on="n0"), pod("j-9", "1c", "j", on="n3"))
    assert names(session, job_of(session)[1]) == []


def test_for_evictions_high_tiers_come_first_and_the_number_of_candidates_is_limited() -> None:
    full = [pod(f"x{i}", "4c", on=f"n{i}") for i in range(6)]
    session = session_of(asked(3, 3), full)
    assert names(session, job_of(session)[1]) == []
    assert names(session, job_of(session)[1], evict=True) == [[CLUSTER_TOP], ["s"], ["a", "b", "c"]]
    session = session_of(asked(3, 5), full)
    assert names(session, job_of(session)[1], evict=True) == [[CLUSTER_TOP], ["s"], ["a"]]


def test_for_evictions_the_limit_is_configurable_and_the_selection_rotates() -> None:
    session = session_of(asked(3, 3), **{"hypernode.gradient.evict.max-hypernodes": 4})
    seen = []
    for _ in range(3):
        *wide, narrow = names(session, job_of(session)[1], evict=True)
        assert wide == [[CLUSTER_TOP], ["s"]]
        seen.append(frozenset(narrow))
        session.snapshot.now += 1
    assert set(seen) == {frozenset("ab"), frozenset("bc"), frozenset("ca")}


@pytest.mark.parametrize("spec", [{}, {"networkTopology": {"mode": "hard"}}], ids=["no topology", "no tier"])
def test_the_only_candidate_of_a_job_without_a_highest_tier_is_the_given_hyper_node(spec: Raw) -> None:
    session = session_of(group("j", **spec), pods("j", 1, "1c", "j"))
    assert names(session, session.jobs["default/j"]) == [[CLUSTER_TOP]]


def test_with_gradients_disabled_the_only_candidate_is_the_given_hyper_node() -> None:
    conf = configuration({"gang": {}, "network-topology-aware": {"enabledHyperNodeGradient": False}})
    session = World(NODES, TREE, asked(1, 1)).session(conf)
    assert names(session, job_of(session)[1]) == [[CLUSTER_TOP]]
