"""The Pods of a PodGroup that are placed and counted together."""

from typing import Any

import pytest

from scheduler.api.job import Job
from scheduler.api.task import TaskStatus
from scheduler.cache import ClusterCache
from tests.builders import NAME, Raw, feed, group, node, pod

TIER_1 = {"mode": "hard", "highestTierAllowed": 1}


def policy(name: str, *keys: str, **more: Any) -> Raw:
    return {"name": name, "matchLabelKeys": list(keys), **more}


def job_of(*policies: Raw, pods: list[Raw], minimum: int = 1, **spec: Any) -> tuple[Job, ClusterCache]:
    cache = ClusterCache([NAME])
    if policies:
        spec["subGroupPolicy"] = list(policies)
    feed(cache, node("n1"), group("a", minimum=minimum, **spec), pods)
    return cache.snapshot(0).jobs["default/a"], cache


def labelled(*values: str, key: str = "g", **more: Any) -> list[Raw]:
    return [pod(f"p-{i}", "1c", "a", labels={key: value}, **more) for i, value in enumerate(values)]


def names(job: Job) -> dict[str, list[str]]:
    return {key: sorted(task.name for task in sub_job.tasks.values()) for key, sub_job in job.sub_jobs.items()}


def test_an_ordinary_job_has_no_sub_jobs() -> None:
    job, _ = job_of(pods=labelled("0", "1"))
    assert not job.sub_jobs and not job.has_sub_groups and not job.has_topology


def test_a_job_with_a_topology_is_one_sub_job_with_the_minimum_of_the_job() -> None:
    job, _ = job_of(pods=labelled("0", "1"), minimum=2, networkTopology=TIER_1)
    (sub_job,) = job.sub_jobs.values()
    assert sub_job.key == job.key and sub_job.policy is None and sub_job.minimum == 2
    assert job.has_topology and not job.has_sub_groups


def test_pods_are_grouped_by_the_values_of_the_label_keys() -> None:
    job, _ = job_of(policy("w", "g", subGroupSize=2, minSubGroups=1), pods=labelled("1", "0", "1"))
    assert names(job) == {"default/a/w/1": ["p-0", "p-2"], "default/a/w/0": ["p-1"]}
    assert [(s.minimum, s.index) for s in job.sub_jobs.values()] == [(2, 1), (2, 0)]
    assert job.sub_group_minimum == {"w": 1} and job.has_sub_groups


def test_values_of_two_label_keys_are_not_confused_with_a_joined_name() -> None:
    pods = [pod("p-0", "1c", "a", labels={"x": "1-2", "y": "3"}), pod("p-1", "1c", "a", labels={"x": "1", "y": "2-3"})]
    job, _ = job_of(policy("w", "x", "y"), pods=pods)
    assert len(job.sub_jobs) == 2


def test_sub_groups_of_two_policies_are_separate() -> None:
    one, other = pod("p-0", "1c", "a", labels={"x": "b-c"}), pod("p-1", "1c", "a", labels={"y": "c"})
    job, _ = job_of(policy("a", "x"), policy("a-b", "y"), pods=[one, other])
    assert [sub_job.policy for sub_job in job.sub_jobs.values()] == ["a", "a-b"]


def test_a_pod_belongs_to_the_first_matching_policy_or_to_the_sub_job_without_policy() -> None:
    big = policy("big", "g", labelSelector={"matchLabels": {"size": "big"}})
    pods = [
        pod("p-0", "1c", "a", labels={"g": "0", "size": "big"}),
        pod("p-1", "1c", "a", labels={"g": "0"}),
        pod("p-2", "1c", "a", labels={"g": ""}),
        pod("p-3", "1c", "a"),
    ]
    job, _ = job_of(big, policy("any", "g"), pods=pods, minimum=4)
    assert names(job) == {"default/a/big/0": ["p-0"], "default/a/any/0": ["p-1"], "default/a": ["p-2", "p-3"]}
    assert job.sub_jobs["default/a"].minimum == 1


def test_a_policy_without_label_keys_matches_no_pod() -> None:
    job, _ = job_of(policy("w", labelSelector={"matchLabels": {"g": "0"}}), pods=labelled("0"))
    assert names(job) == {"default/a": ["p-0"]}


def test_sub_groups_have_the_topology_of_their_policy_and_other_pods_that_of_the_job() -> None:
    pods = [*labelled("0"), pod("q-0", "1c", "a")]
    job, _ = job_of(policy("w", "g"), policy("v", "h", networkTopology=TIER_1), pods=pods, networkTopology=TIER_1)
    topologies = {key: sub_job.topology is not None for key, sub_job in job.sub_jobs.items()}
    assert topologies == {"default/a/w/0": False, "default/a": True}


def test_a_session_updates_the_counts_of_sub_jobs() -> None:
    pods = [*labelled("0", "0", "0"), pod("be-0", "", "a", labels={"g": "0"})]
    job, _ = job_of(policy("w", "g", subGroupSize=4), pods=pods)
    (sub_job,) = job.sub_jobs.values()
    first, second, *_ = job.of(TaskStatus.PENDING).values()
    assert (sub_job.missing, sub_job.ready, sub_job.pipelined) == (3, False, False)
    job.move(first, TaskStatus.PENDING, TaskStatus.ALLOCATED)
    job.move(second, TaskStatus.PENDING, TaskStatus.PIPELINED)
    assert (sub_job.ready_count, sub_job.waiting_count, sub_job.missing) == (1, 1, 2)
    third = next(task for task in job.of(TaskStatus.PENDING).values() if not task.cls.best_effort)
    job.move(third, TaskStatus.PENDING, TaskStatus.ALLOCATED)
    assert (sub_job.ready, sub_job.pipelined) == (False, True)
    job.move(second, TaskStatus.PIPELINED, TaskStatus.ALLOCATED)
    assert (sub_job.ready, sub_job.missing) == (True, 0)
    job.move(first, TaskStatus.ALLOCATED, TaskStatus.RELEASING)
    assert sub_job.missing == 1


def test_pods_on_nodes_count_and_the_highest_priority_is_that_of_the_sub_job() -> None:
    pods = [*labelled("0", on="n1"), pod("q-0", "1c", "a", labels={"g": "0"}, priority=7)]
    job, _ = job_of(policy("w", "g"), pods=pods)
    (sub_job,) = job.sub_jobs.values()
    assert sub_job.ready_count == 1 and sub_job.priority == 7


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"networkTopology": {"mode": "strict"}}, "spec.networkTopology.mode: 'strict' is neither hard nor soft"),
        (
            {"subGroupPolicy": [policy("w", "g", networkTopology={"mode": "x"})]},
            "spec.subGroupPolicy[0].networkTopology.mode: 'x' is neither hard nor soft",
        ),
        (
            {"subGroupPolicy": [policy("w", "g", subGroupSize=0)]},
            "spec.subGroupPolicy[0].subGroupSize: 0 is below 1; taken for 1",
        ),
        (
            {"subGroupPolicy": [policy("w", "g", minSubGroups=-1)]},
            "spec.subGroupPolicy[0].minSubGroups: -1 is below 0; taken for 0",
        ),
        (
            {"subGroupPolicy": [policy("w", "g", labelSelector={"matchExpressions": [{"key": "k", "operator": "~"}]})]},
            "spec.subGroupPolicy[0].labelSelector: k: operator '~' is not known",
        ),
    ],
    ids=["mode", "mode of a policy", "size", "minimum", "selector"],
)
def test_a_malformed_field_is_reported_and_the_job_is_kept(spec: Raw, problem: str) -> None:
    job, cache = job_of(pods=labelled("0"), **spec)
    assert [f"{m.field}: {m.problem}" for m in cache.take_malformed()] == [problem]
    assert all(sub_job.minimum >= 1 for sub_job in job.sub_jobs.values())
    assert not any(number < 0 for number in (job.sub_group_minimum or {}).values())
