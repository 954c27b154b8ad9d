"""The distance over which jobs may spread in the network: their requirements, in tiers of the cluster."""

from typing import Any

import pytest

from scheduler.api.job import Job
from scheduler.api.kinds import HYPER_NODE
from tests.builders import Raw, World, configuration, group, hyper_node, node, pod

TREE = [
    node("n1"),
    hyper_node("leaf", 1, "n1", tier_name="rack"),
    hyper_node("spine", 4, ">leaf", tier_name="row"),
]
TOP = 5


def job_of(**spec: Any) -> Job:
    world = World(TREE, group("a", **spec), pod("p-0", "1c", "a", labels={"g": "0"}))
    return world.session(configuration(["gang"])).jobs["default/a"]


def sub_groups(topology: Raw | None) -> list[Raw]:
    return [{"name": "w", "matchLabelKeys": ["g"], **({"networkTopology": topology} if topology else {})}]


@pytest.mark.parametrize(
    ("topology", "limit"),
    [
        ({"mode": "hard", "highestTierAllowed": 1}, 1),
        ({"highestTierAllowed": 2}, 2),
        ({"mode": "hard", "highestTierName": "row"}, 4),
        ({"mode": "hard", "highestTierAllowed": 0, "highestTierName": "row"}, 0),
        ({"mode": "hard", "highestTierName": "nowhere"}, None),
        ({"mode": "hard"}, None),
        ({"mode": "soft"}, TOP),
        ({"mode": "soft", "highestTierAllowed": 1}, TOP),
    ],
    ids=["tier", "no mode", "name", "both", "unknown name", "no tier", "soft", "soft with a tier"],
)
def test_what_is_asked_for_becomes_the_highest_tier_allowed(topology: Raw, limit: int | None) -> None:
    job = job_of(networkTopology=topology)
    (sub_job,) = job.sub_jobs.values()
    assert job.tier_limit == sub_job.tier_limit == limit
    assert job.has_tier_limit == (limit is not None) and job.has_topology


def test_a_job_that_asks_for_nothing_has_no_limit() -> None:
    job = job_of()
    assert job.tier_limit is None and not job.has_tier_limit


@pytest.mark.parametrize(
    ("of_job", "of_groups", "limits"),
    [
        (None, {"mode": "hard", "highestTierAllowed": 1}, (None, 1)),
        ({"mode": "hard", "highestTierAllowed": 4}, {"mode": "hard", "highestTierAllowed": 1}, (4, 1)),
        ({"mode": "hard", "highestTierAllowed": 4}, {"mode": "soft"}, (4, 4)),
        (None, {"mode": "soft"}, (None, TOP)),
        ({"mode": "hard", "highestTierAllowed": 4}, None, (4, None)),
    ],
)
def test_sub_groups_have_limits_of_their_own_and_soft_ones_that_of_the_job(
    of_job: Raw | None, of_groups: Raw | None, limits: tuple[int | None, int | None]
) -> None:
    job = job_of(subGroupPolicy=sub_groups(of_groups), **({"networkTopology": of_job} if of_job else {}))
    (sub_job,) = job.sub_jobs.values()
    assert (job.tier_limit, sub_job.tier_limit) == limits and job.has_tier_limit


def test_an_unknown_tier_name_is_reported_and_the_job_is_placed_without_it() -> None:
    world = World(TREE, group("a", networkTopology={"highestTierName": "nowhere"}), pod("p-0", "1c", "a"))
    world.run(configuration(["gang"]))
    assert world.bound == {"p-0": "n1"}
    assert world.events("Malformed") == [
        "spec.networkTopology.highestTierName: no HyperNode has the tier name 'nowhere'; "
        "the job is placed as if it asked for no tier"
    ]


def test_limits_follow_the_hyper_nodes_of_the_moment() -> None:
    world = World(TREE, group("a", networkTopology={"mode": "soft"}), pod("p-0", "1c", "a"))
    first = world.session(configuration(["gang"])).jobs["default/a"].tier_limit
    world.cluster.cache.delete(HYPER_NODE, "", "spine")
    assert (first, world.session(configuration(["gang"])).jobs["default/a"].tier_limit) == (TOP, 2)
