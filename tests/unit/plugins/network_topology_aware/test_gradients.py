"""Which HyperNodes may take a job, and in which order they are tried."""

from typing import Any

import pytest

from scheduler.api.hypernode import CLUSTER_TOP
from scheduler.api.job import Job
from scheduler.api.subjob import SubJob
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


def test_low_tiers_come_first_and_equals_by_name() -> None:
    session = session_of(asked(3, 1))
    assert names(session, job_of(session)[1]) == [["a", "b", "c"], ["s"], [CLUSTER_TOP]]


def test_nothing_above_the_limit_is_named() -> None:
    session = session_of(asked(1, 1))
    assert names(session, job_of(session)[1]) == [["a", "b", "c"]]
    assert names(session, job_of(session)[1], within="s") == [["a", "b"]]


def test_a_sub_job_needs_room_for_all_that_waits_and_a_job_for_what_it_announces() -> None:
    session = session_of(asked(2, 6, asks="1c"))
    job, sub_job = job_of(session)
    assert names(session, sub_job) == [["a"], ["s"]]
    assert names(session, job) == [["a", "b", "c"], ["s"]]
    announced = group("j", asks="9c", networkTopology={"highestTierAllowed": 2})
    session = session_of(announced, pods("j", 1, "1c", "j"))
    assert names(session, job_of(session)[0]) == [["s"]]


def test_room_that_terminating_pods_will_give_back_counts() -> None:
    used = [pod("x", "4c", on="n2"), pod("y", "4c", on="n3", deleting=True)]
    session = session_of(asked(1, 3), used)
    assert names(session, job_of(session)[1]) == [["a", "c"]]


def test_a_job_that_has_tasks_placed_goes_on_around_them_whatever_room_there_is() -> None:
    session = session_of(asked(2, 9), pod("j-9", "1c", "j", on="n1"))
    job, sub_job = job_of(session)
    assert names(session, job) == names(session, sub_job) == [["a"], ["s"]]
    session = session_of(asked(2, 1), pod("j-8", "1c", "j", on="n1"), pod("j-9", "1c", "j", on="n2"))
    assert names(session, job_of(session)[1]) == [["s"]]


def test_a_job_placed_elsewhere_may_use_what_is_asked_about_as_far_as_its_limit_reaches() -> None:
    session = session_of(asked(2, 1), pod("j-9", "1c", "j", on="n1"))
    _, sub_job = job_of(session)
    assert names(session, sub_job, within="b") == [["b"]]
    assert names(session, sub_job, within="c") == []


def test_a_job_that_is_spread_wider_than_its_limit_may_go_nowhere() -> None:
    session = session_of(asked(1, 1), pod("j-8", "1c", "j", on="n0"), pod("j-9", "1c", "j", on="n3"))
    assert names(session, job_of(session)[1]) == []


def test_where_others_may_be_evicted_the_wide_ones_come_first_and_few_are_named() -> None:
    full = [pod(f"x{i}", "4c", on=f"n{i}") for i in range(6)]
    session = session_of(asked(3, 3), full)
    assert names(session, job_of(session)[1]) == []
    assert names(session, job_of(session)[1], evict=True) == [[CLUSTER_TOP], ["s"], ["a", "b", "c"]]
    session = session_of(asked(3, 5), full)
    assert names(session, job_of(session)[1], evict=True) == [[CLUSTER_TOP], ["s"], ["a"]]


def test_where_others_may_be_evicted_no_more_are_named_than_configured_but_others_in_turn() -> None:
    session = session_of(asked(3, 3), **{"hypernode.gradient.evict.max-hypernodes": 4})
    seen = []
    for _ in range(3):
        *wide, narrow = names(session, job_of(session)[1], evict=True)
        assert wide == [[CLUSTER_TOP], ["s"]]
        seen.append(frozenset(narrow))
        session.now += 1
    assert set(seen) == {frozenset("ab"), frozenset("bc"), frozenset("ca")}


@pytest.mark.parametrize("spec", [{}, {"networkTopology": {"mode": "hard"}}], ids=["no topology", "no tier"])
def test_a_job_without_a_limit_may_go_anywhere(spec: Raw) -> None:
    session = session_of(group("j", **spec), pods("j", 1, "1c", "j"))
    assert names(session, session.jobs["default/j"]) == [[CLUSTER_TOP]]


def test_a_plugin_whose_gradients_are_switched_off_names_what_it_is_asked_about() -> None:
    conf = configuration({"gang": {}, "network-topology-aware": {"enabledHyperNodeGradient": False}})
    session = World(NODES, TREE, asked(1, 1)).session(conf)
    assert names(session, job_of(session)[1]) == [[CLUSTER_TOP]]
