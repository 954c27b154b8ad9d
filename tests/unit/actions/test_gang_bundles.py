"""Bundles: the Pods of a gang that can be evicted one by one, and the Pods that can only be evicted together."""

from collections.abc import Sequence

import pytest

from scheduler.actions.eviction.bundles import Bundle, BundlesByJob, bundles_of, by_job_order, by_victim_queue_order
from scheduler.framework.extension import EvictionContext
from scheduler.framework.session import Session
from tests.builders import Raw, World, configuration, group, node, pod, queue

CONF = configuration(["gang"])


def session_with(*objects: Raw | Sequence[Raw]) -> Session:
    return World(node("n", "99c+99Gi"), queue("q"), queue("r"), group("preemptor", "r"), *objects).session(CONF)


def running(job: str, number: int, role: str = "") -> list[Raw]:
    return [pod(f"{job}-{role or 'w'}-{i}", "1c", job, on="n", role=role) for i in range(number)]


def fall_apart(session: Session, name: str = "g") -> list[Bundle]:
    job = session.jobs[f"default/{name}"]
    bundles = bundles_of(session, job, [task for task in job.tasks() if task.node])
    return [*bundles.spare, *bundles.whole]


def everybody(session: Session) -> BundlesByJob:
    return BundlesByJob(session, session.eviction_candidates.present)


def for_queue_r(session: Session) -> EvictionContext:
    """A gang of queue r that needs two cores."""
    one = next(iter(session.jobs["default/a"].tasks())).cls.request
    return EvictionContext(session.jobs["default/preemptor"], 2 * one, across_queues=True)


def names(bundles: Sequence[Bundle]) -> list[list[str]]:
    return [sorted(task.name for task in bundle.tasks) for bundle in bundles]


@pytest.mark.parametrize(("minimum", "alone", "together"), [(0, 4, 0), (1, 3, 1), (3, 1, 3), (4, 0, 4)])
def test_tasks_beyond_the_minimum_are_evicted_one_by_one_and_the_rest_together(
    minimum: int, alone: int, together: int
) -> None:
    bundles = fall_apart(session_with(group("g", "q", minimum), running("g", 4)))
    assert [len(b.tasks) for b in bundles if not b.whole] == [1] * alone
    assert [len(b.tasks) for b in bundles if b.whole] == [together] * bool(together)


def test_a_gang_below_its_minimum_is_evicted_one_by_one() -> None:
    bundles = fall_apart(session_with(group("g", "q", 5), running("g", 4)))
    assert [(len(b.tasks), b.whole) for b in bundles] == [(1, False)] * 4


def test_each_role_keeps_its_minimum() -> None:
    gang = group("g", "q", 3, roles={"ps": 2, "worker": 1})
    bundles = fall_apart(session_with(gang, running("g", 2, "ps"), running("g", 3, "worker")))
    assert names(bundles) == [["g-worker-2"], ["g-worker-1"], ["g-ps-0", "g-ps-1", "g-worker-0"]]


def test_a_pod_that_waits_and_asks_for_nothing_counts_for_its_role() -> None:
    members = [pod(f"g-ps-{i}", "1c", "g", on="n", role="ps", priority=1) for i in range(2)]
    members += [pod(f"g-worker-{i}", "1c", "g", on="n", role="worker", priority=5) for i in range(2)]
    waiting = pod("g-ps-9", "", "g", role="ps")
    bundles = fall_apart(session_with(group("g", "q", 2, roles={"ps": 2}), members, waiting))
    assert names(bundles) == [["g-ps-1"], ["g-worker-1"], ["g-ps-0", "g-worker-0"]]


def test_roles_do_not_count_where_their_minimums_are_more_than_the_gangs() -> None:
    gang = group("g", "q", 2, roles={"ps": 2, "worker": 2})
    bundles = fall_apart(session_with(gang, running("g", 2, "ps"), running("g", 2, "worker")))
    assert [len(b.tasks) for b in bundles] == [1, 1, 2]


def test_a_role_without_a_minimum_gives_what_the_gang_can_spare() -> None:
    gang = group("g", "q", 2, roles={"ps": 1})
    bundles = fall_apart(session_with(gang, running("g", 1, "ps"), running("g", 2, "worker")))
    assert names(bundles) == [["g-worker-1"], ["g-ps-0", "g-worker-0"]]


def test_the_least_important_is_the_first_that_is_spared() -> None:
    members = [pod(f"g-w-{i}", "1c", "g", on="n", priority=p) for i, p in enumerate([5, 1, 9])]
    assert names(fall_apart(session_with(group("g", "q", 1), members))) == [["g-w-1"], ["g-w-0"], ["g-w-2"]]


def test_the_worst_job_comes_first_but_no_gang_before_all_that_can_be_spared() -> None:
    session = session_with(group("a", "q", 1), running("a", 2), group("b", "q", 1), running("b", 2))
    ordered = by_job_order(session, for_queue_r(session), everybody(session))
    assert [(b.job.name, b.whole) for b in ordered] == [("b", False), ("a", False), ("b", True), ("a", True)]


def test_of_gangs_of_one_queue_the_one_comes_first_that_gives_most_for_what_it_loses() -> None:
    session = session_with(group("a", "q", 4), running("a", 4), group("b", "q", 2), running("b", 2))
    ordered = by_victim_queue_order(session, for_queue_r(session), everybody(session))
    assert [b.job.name for b in ordered] == ["b", "a"]


def test_what_a_gang_asks_for_elsewhere_counts_as_lost_with_it() -> None:
    waiting = [pod(f"b-x-{i}", "1c", "b") for i in range(3)]
    session = session_with(group("a", "q", 3), running("a", 3), group("b", "q", 2), running("b", 2), waiting)
    ordered = by_victim_queue_order(session, for_queue_r(session), everybody(session))
    assert [b.job.name for b in ordered] == ["a", "b"]
