"""gang: a job with sub-groups is ready, or pipelined, when as many sub-groups are as its policies require."""

from typing import Any

import pytest

from scheduler.actions.order import SubJobOrder
from scheduler.api.task import TaskStatus
from scheduler.framework.session import Session
from tests.builders import Raw, World, configuration, group, node, pod

CONF = configuration(["priority", "gang"])


def policy(name: str, size: int, minimum: int) -> Raw:
    keys = {"matchLabelKeys": ["g"], "labelSelector": {"matchLabels": {"policy": name}}}
    return {"name": name, "subGroupSize": size, "minSubGroups": minimum, **keys}


def members(name: str, *sizes: int, **more: Any) -> list[Raw]:
    groups = [g for g, size in enumerate(sizes) for _ in range(size)]
    return [pod(f"{name}-{i}", "1c", "a", labels={"g": str(g), "policy": name}, **more) for i, g in enumerate(groups)]


def session_of(*pods: list[Raw], policies: list[Raw], minimum: int = 0) -> Session:
    return World(node("n1"), group("a", minimum=minimum, subGroupPolicy=policies), *pods).session(CONF)


def give(session: Session, status: TaskStatus, *names: str) -> None:
    job = session.jobs["default/a"]
    for task in [task for task in job.of(TaskStatus.PENDING).values() if task.name in names]:
        job.move(task, TaskStatus.PENDING, status)


def test_a_job_misses_the_tasks_of_the_sub_groups_that_are_closest_to_their_size() -> None:
    session = session_of(members("w", 3, 3, 3), policies=[policy("w", 3, 2)])
    job = session.jobs["default/a"]
    assert session.job_missing(job) == 6
    give(session, TaskStatus.ALLOCATED, "w-0", "w-3", "w-4")
    assert session.job_missing(job) == 3
    give(session, TaskStatus.ALLOCATED, "w-1", "w-2", "w-5")
    assert session.job_ready(job)


def test_each_policy_counts_and_so_do_sub_groups_without_pods() -> None:
    session = session_of(members("w", 2), members("v", 1), policies=[policy("w", 2, 1), policy("v", 1, 2)])
    assert session.job_missing(session.jobs["default/a"]) == 2 + 1 + 1


def test_a_policy_without_a_minimum_is_ignored() -> None:
    session = session_of(members("w", 5), policies=[policy("w", 9, 0)])
    assert session.job_ready(session.jobs["default/a"])


def test_a_job_is_pipelined_when_enough_sub_groups_are() -> None:
    session = session_of(members("w", 2, 2), policies=[policy("w", 2, 1)])
    job = session.jobs["default/a"]
    give(session, TaskStatus.PIPELINED, "w-0", "w-2")
    assert not session.job_pipelined(job)
    give(session, TaskStatus.ALLOCATED, "w-1")
    assert session.job_pipelined(job) and not session.job_ready(job)


def test_each_sub_group_has_its_own_readiness() -> None:
    session = session_of(members("w", 2, 2), policies=[policy("w", 2, 1)])
    job = session.jobs["default/a"]
    first, second = (job.sub_jobs[f"default/a/w/{g}"] for g in "01")
    give(session, TaskStatus.ALLOCATED, "w-0")
    assert [session.sub_job_missing(job, part) for part in (first, second)] == [1, 2]
    give(session, TaskStatus.PIPELINED, "w-1")
    assert session.sub_job_pipelined(job, first) and not session.sub_job_ready(job, first)
    assert not session.sub_job_pipelined(job, second)


def test_a_job_with_too_few_sub_groups_is_not_valid() -> None:
    session = session_of(members("w", 2), policies=[policy("w", 2, 2)])
    found = session.job_valid(session.jobs["default/a"])
    assert found is not None and found.reason == "NotEnoughPodsOfTask"
    assert found.message == "Not enough valid subGroups of each task for gang-scheduling (w: 1/2)"
    session = session_of(members("w", 2, 1), policies=[policy("w", 2, 2)])
    assert session.job_valid(session.jobs["default/a"]) is None


# --- the order of sub-jobs ---
def ordered(session: Session) -> list[str]:
    job = session.jobs["default/a"]
    keys = [sub_job.key for sub_job in sorted(job.sub_jobs.values(), key=SubJobOrder(session, job).key)]
    return [key.removeprefix(f"{job.key}/").replace("/", "-") for key in keys]


def test_sub_jobs_are_ordered_by_the_index_in_their_label_and_then_by_name() -> None:
    pods = [pod(f"w-{g}", "1c", "a", labels={"g": g, "policy": "w"}) for g in ("10", "9", "b", "a")]
    assert ordered(session_of(pods, policies=[policy("w", 1, 0)])) == ["w-a", "w-b", "w-9", "w-10"]


def test_required_sub_jobs_come_first_and_ready_ones_last() -> None:
    pods = [*members("w", 1, 1), *members("v", 1), *members("u", 1, on="n1")]
    policies = [policy("u", 1, 0), policy("w", 1, 1), policy("v", 1, 0)]
    assert ordered(session_of(pods, policies=policies)) == ["w-0", "v-0", "w-1", "u-0"]


@pytest.mark.parametrize(("running", "expected"), [(True, ["v-0", "w-1", "w-0"]), (False, ["w-0", "v-0", "w-1"])])
def test_a_ready_sub_job_counts_towards_the_minimum_of_its_policy(running: bool, expected: list[str]) -> None:
    first = members("w", 1, **({"on": "n1"} if running else {}))
    second = [pod("w-9", "1c", "a", labels={"g": "1", "policy": "w"})]
    policies = [policy("w", 1, 1), policy("v", 1, 0)]
    assert ordered(session_of(first, second, members("v", 1), policies=policies)) == expected
