"""Further data that the cache keeps for plugins: measured usage, tasks without a job, original objects."""

import msgspec
import numpy as np

from scheduler.api.kinds import CONFIG_MAP, NODE, POD, QUEUE
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX
from scheduler.api.usage import NodeUsage
from scheduler.cache import ClusterCache
from tests.builders import NAME, configuration, feed, group, node, pod

SHOWING = configuration(["extender"])


def cache() -> ClusterCache:
    return ClusterCache([NAME])


# --- how busy nodes are ---
def test_usage_columns_follow_the_order_of_nodes_and_mark_missing_measurements() -> None:
    live = cache()
    feed(live, node("n2"), node("n1"), node("n3"))
    assert live.snapshot(0.0).usage is None
    before = live.version
    live.take_usage({"n2": NodeUsage(20.0, 30.0, 100.0), "n1": NodeUsage(1.0, 2.0, 300.0), "gone": NodeUsage(9, 9, 9)})
    usage = live.snapshot(0.0).usage
    assert usage is not None and live.version > before
    assert (usage.cpu.tolist(), usage.memory.tolist()) == ([1.0, 20.0, 0.0], [2.0, 30.0, 0.0])
    assert usage.known(410.0).tolist() == [True, False, False]


def test_a_node_without_a_new_measurement_keeps_the_last_one_while_nodes_are_added_and_removed() -> None:
    live = cache()
    feed(live, node("n1"), node("n2"))
    live.take_usage({"n1": NodeUsage(1.0, 1.0, 1.0), "n2": NodeUsage(2.0, 2.0, 1.0)})
    live.take_usage({"n2": NodeUsage(3.0, 3.0, 2.0)})
    older = live.snapshot(0.0).usage
    feed(live, node("n0"))
    live.delete(NODE, "", "n1")
    usage = live.snapshot(0.0).usage
    assert usage is not None and older is not None
    assert usage.cpu.tolist() == [0.0, 3.0] and older.cpu.tolist() == [1.0, 3.0]
    assert np.isneginf(usage.moment[0])


def test_an_empty_measurement_changes_nothing() -> None:
    live = cache()
    before = live.version
    live.take_usage({})
    assert live.version == before and live.snapshot(0.0).usage is None


def test_a_node_without_capacity_has_the_allocatable_amounts() -> None:
    live = cache()
    machine = node("n1", "4c+8Gi")
    machine["status"]["capacity"] = {"cpu": "5", "memory": "many"}
    feed(live, machine)
    (problem,) = live.take_malformed()
    assert problem.field == "status.capacity[memory]"
    capacity = live.snapshot(0.0).nodes.capacity
    assert capacity[[CPU_INDEX, MEMORY_INDEX], 0].tolist() == [5000.0, 8 * 2.0**30]


# --- tasks of no job ---
def test_the_snapshot_lists_tasks_on_nodes_without_a_job() -> None:
    live = cache()
    feed(live, node("n1"), group("g"), pod("mine", "1c", "g", on="n1"))
    feed(live, pod("other", "1c", on="n1", scheduler="x"), pod("orphan", "1c", "gone", on="n1"))
    feed(live, pod("done", "1c", on="n1", scheduler="x", phase="Succeeded"), pod("waiting", "1c", "gone"))
    assert {task.name for task in live.snapshot(0.0).tasks_without_job} == {"other", "orphan"}
    feed(live, group("gone"))
    live.delete(POD, "default", "other")
    assert {task.name for task in live.snapshot(0.0).tasks_without_job} == set()


# --- objects as they were written ---
def test_originals_are_kept_only_while_a_plugin_needs_them_and_must_be_stored_again() -> None:
    live = cache()
    feed(live, node("n1"))
    assert not live.wants_original(NODE) and live.snapshot(0.0).originals == {}
    live.configure(SHOWING)
    assert live.wants_original(NODE) and not live.wants_original(CONFIG_MAP)
    live.keep_original(NODE, "", "n1", msgspec.Raw(b'{"a":1}'))
    live.keep_original(QUEUE, "", "q", {"b": 2})
    snapshot = live.snapshot(0.0)
    assert snapshot.original("Node", "n1") == msgspec.Raw(b'{"a":1}')
    assert snapshot.original("Queue", "q") == msgspec.Raw(b'{"b":2}')
    assert snapshot.original("Node", "n2") is None and snapshot.original("Pod", "x/y") is None
    live.delete(NODE, "", "n1")
    assert live.snapshot(0.0).original("Node", "n1") is None and snapshot.original("Node", "n1") is not None
    live.configure(configuration(["gang"]))
    assert live.snapshot(0.0).originals == {}


def test_originals_of_unscheduled_pods_of_other_schedulers_are_not_kept() -> None:
    live = cache()
    live.configure(SHOWING)
    feed(live, pod("mine"), pod("theirs", scheduler="x"))
    for name in ("mine", "theirs"):
        live.keep_original(POD, "default", name, {})
    assert set(live.snapshot(0.0).originals["Pod"]) == {"default/mine"}
