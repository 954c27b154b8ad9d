"""Pods that are resized in place: their classes, the idle amounts of their nodes, and when a session should start."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.decisions import Bind, Decisions
from scheduler.api.resource import CPU_INDEX
from scheduler.api.task import TaskStatus
from scheduler.cache import ClusterCache
from tests.builders import Raw, feed, group, node, pod, queue
from tests.examples import examples

RESIZING = [{"type": "PodResizeInProgress", "status": "True"}]
INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]


def resized(name: str, cores: int, allocated: int, applied: int, *, conditions: Any = RESIZING, **rest: Any) -> Raw:
    """A running Pod whose spec requests ``cores``."""
    raw = pod(name, f"{cores}c", on="n", **rest)
    status: Raw = {"name": "main", "allocatedResources": {"cpu": str(allocated)}, "resources": {}}
    status["resources"] = {"requests": {"cpu": str(applied)}}
    raw["status"] |= {"containerStatuses": [status], "conditions": conditions}
    return raw


def cache_with(*objects: Raw) -> ClusterCache:
    cache = ClusterCache(["volcano-py"])
    feed(cache, queue("default"), node("n", "16c+1Gi"), *objects)
    return cache


def idle(cache: ClusterCache) -> float:
    """The idle cores of the node."""
    return float(cache.snapshot(0.0).nodes.idle[CPU_INDEX, 0]) / 1000


def openings(cache: ClusterCache, change: Callable[[], None]) -> int:
    before = cache.changes.openings
    change()
    return cache.changes.openings - before


def test_a_pod_is_of_another_class_than_the_others_of_its_template_while_it_is_resized() -> None:
    cache = cache_with(resized("a", 2, 2, 2), resized("b", 2, 2, 2))
    assert len({task.cls for task in cache.tasks()}) == 1 and idle(cache) == 12
    feed(cache, resized("b", 2, 6, 2))
    assert len({task.cls for task in cache.tasks()}) == 2 and idle(cache) == 8
    feed(cache, resized("b", 2, 2, 2))
    assert len({task.cls for task in cache.tasks()}) == 1 and idle(cache) == 12


def test_pods_that_hold_equal_amounts_are_of_one_class_whatever_the_spec_says() -> None:
    cache = cache_with(resized("a", 1, 6, 6), resized("b", 6, 6, 1), resized("c", 6, 6, 6))
    assert len({task.cls for task in cache.tasks()}) == 1 and idle(cache) == -2


@pytest.mark.parametrize(
    ("before", "after", "left", "opened"),
    [
        (resized("p", 6, 6, 6), resized("p", 1, 6, 6), 10, 0),
        (resized("p", 1, 6, 6), resized("p", 1, 1, 6), 10, 0),
        (resized("p", 1, 1, 6), resized("p", 1, 1, 1), 15, 1),
        (resized("p", 1, 1, 1), resized("p", 6, 1, 1), 10, 0),
        (resized("p", 6, 1, 1), resized("p", 6, 1, 1, conditions=INFEASIBLE), 15, 1),
        (resized("p", 1, 1, 6, scheduler="another"), resized("p", 1, 1, 1, scheduler="another"), 15, 1),
    ],
)
def test_a_session_starts_when_a_resize_has_freed_room(before: Raw, after: Raw, left: float, opened: int) -> None:
    cache = cache_with(before)
    idle(cache)
    assert openings(cache, lambda: feed(cache, after)) == opened
    assert idle(cache) == left


CORES = st.integers(1, 9)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), CORES, CORES, CORES, st.booleans()), min_size=1, max_size=8))
def test_node_and_job_hold_the_sum_of_what_their_pods_hold(steps: list[tuple[str, int, int, int, bool]]) -> None:
    cache, held = cache_with(group("g", phase="Running")), dict[str, int]()
    for name, spec, allocated, applied, infeasible in steps:
        conditions = INFEASIBLE if infeasible else RESIZING
        feed(cache, resized(name, spec, allocated, applied, conditions=conditions, group="g"))
        held[name] = max(allocated, applied) if infeasible else max(spec, allocated, applied)
        assert idle(cache) == 16 - sum(held.values())
        (job,) = cache.snapshot(0.0).jobs.values()
        assert job.allocated[CPU_INDEX] == 1000 * sum(held.values())


def test_a_pod_that_is_resized_while_it_is_being_bound_holds_its_new_requests() -> None:
    cache = cache_with(group("g"), pod("p", "2c", "g"))
    (task,) = cache.tasks()
    cache.assume(Decisions(binds=[bind := Bind(task, "n", {})]))
    assert idle(cache) == 14
    feed(cache, pod("p", "5c", "g"))
    assert cache.tasks()[0].status is TaskStatus.BINDING and idle(cache) == 11
    feed(cache, pod("p", "3c", "g"))
    assert idle(cache) == 13
    cache.bind_failed(bind)
    (task,) = cache.tasks()
    assert (task.status, task.cls.request[CPU_INDEX], idle(cache)) == (TaskStatus.PENDING, 3000, 16)


def test_a_malformed_amount_of_a_status_is_reported_once_and_the_rest_counts() -> None:
    broken = resized("p", 2, 6, 2)
    broken["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"] = "many"
    cache = cache_with(broken)
    assert idle(cache) == 10
    (malformed,) = cache.take_malformed()
    assert (malformed.kind, malformed.name) == ("Pod", "p")
    assert malformed.field == "status.containerStatuses[main].resources.requests[cpu]"
    assert "many" in malformed.problem
    feed(cache, broken)
    assert cache.take_malformed() == []
