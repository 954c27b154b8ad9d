"""The changes that count as arrivals and openings, after which a session should start early."""

from collections.abc import Callable
from typing import Any

import pytest

from scheduler.api.decisions import Decisions
from scheduler.api.kinds import NODE, POD, POD_GROUP, QUEUE, Kind
from scheduler.cache import ClusterCache
from scheduler.framework.cycle import run_cycle
from tests.builders import Raw, configuration, feed, group, node, pod, queue

PLAN = configuration(["gang"], ["predicates"], actions="enqueue, allocate")
ARRIVAL, OPENING, NEITHER = (1, 0), (0, 1), (0, 0)


def filled() -> ClusterCache:
    cache = ClusterCache(["volcano-py"])
    running = [group("old", phase="Running"), pod("runs", "1c", "old", on="n")]
    feed(cache, [queue("default"), node("n", "4c+1Gi"), *running, group("half", minimum=2), pod("first", "1c", "half")])
    return cache


def counted(cache: ClusterCache, change: Callable[[], Any]) -> tuple[int, int]:
    before = cache.changes.arrivals, cache.changes.openings
    change()
    return cache.changes.arrivals - before[0], cache.changes.openings - before[1]


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([group("new")], ARRIVAL),
        ([group("podgroup-new")], NEITHER),
        ([group("podgroup-new"), pod("p", "1c", "podgroup-new")], ARRIVAL),
        ([pod("p", "1c", "podgroup-new"), group("podgroup-new")], ARRIVAL),
        ([pod("p", "1c", "without-a-group")], NEITHER),
        ([pod("second", "1c", "half")], ARRIVAL),
        ([pod("another", "1c", "old")], ARRIVAL),
        ([pod("first", "1c", "half")], NEITHER),
        ([group("half", minimum=1)], ARRIVAL),
        ([group("half", minimum=2)], NEITHER),
        ([node("m", "1c")], OPENING),
        ([node("n", "8c+1Gi")], OPENING),
        ([node("n", "4c+1Gi")], NEITHER),
        ([queue("other")], OPENING),
        ([queue("default")], NEITHER),
        ([pod("runs", "1c", "old", on="n", phase="Succeeded")], OPENING),
        ([pod("other", "1c", on="n")], NEITHER),
    ],
)
def test_what_arrives_and_what_makes_room(objects: list[Raw], expected: tuple[int, int]) -> None:
    cache = filled()
    assert counted(cache, lambda: feed(cache, objects)) == expected


@pytest.mark.parametrize(("minimum", "expected"), [(1, NEITHER), (2, NEITHER), (0, ARRIVAL)])
def test_a_pod_group_that_replaces_a_derived_one_arrives_if_it_differs_and_its_pods_exist(
    minimum: int, expected: tuple[int, int]
) -> None:
    cache, derived = filled(), group("podgroup-new")
    derived["metadata"]["uid"] = ""
    feed(cache, derived, pod("p", "1c", "podgroup-new"))
    cache.assume(run_cycle(cache.snapshot(0.0), PLAN).decisions)
    assert counted(cache, lambda: feed(cache, group("podgroup-new", minimum=minimum))) == expected


@pytest.mark.parametrize(
    ("kind", "namespace", "name", "expected"),
    [
        (POD, "default", "runs", OPENING),
        (POD, "default", "first", NEITHER),
        (POD_GROUP, "default", "half", OPENING),
        (NODE, "", "n", OPENING),
        (NODE, "", "absent", NEITHER),
        (QUEUE, "", "default", OPENING),
    ],
)
def test_what_a_deleted_object_makes_room_for(kind: Kind, namespace: str, name: str, expected: tuple[int, int]) -> None:
    cache = filled()
    assert counted(cache, lambda: cache.delete(kind, namespace, name)) == expected


def test_what_the_scheduler_writes_and_sees_again_starts_no_session() -> None:
    cache = filled()
    feed(cache, [group("new"), pod("p", "1c", "new")])
    decided: Decisions = run_cycle(cache.snapshot(0.0), PLAN).decisions
    assert [bind.task.name for bind in decided.binds] == ["p"] and decided.pod_groups
    assert counted(cache, lambda: cache.assume(decided)) == NEITHER
    phase = next(update.phase for update in decided.pod_groups if update.name == "new")
    seen = [group("new", phase=phase), pod("p", "1c", "new", on="n", phase="Pending"), pod("p", "1c", "new", on="n")]
    assert counted(cache, lambda: feed(cache, seen)) == NEITHER


def test_a_failed_binding_is_repeated_by_the_next_session_and_starts_none() -> None:
    cache = filled()
    feed(cache, [group("new"), pod("p", "1c", "new")])
    decided = run_cycle(cache.snapshot(0.0), PLAN).decisions
    cache.assume(decided)
    assert counted(cache, lambda: cache.bind_failed(decided.binds[0])) == NEITHER


def test_the_listener_is_called_after_the_change() -> None:
    cache, versions = filled(), list[int]()
    before = cache.version
    cache.changes.listener = lambda: versions.append(cache.version)
    feed(cache, [node("m", "1c")])
    assert versions and versions[0] > before
