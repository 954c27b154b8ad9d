"""Metrics of waiting jobs, of the amounts of the cluster and who holds them, and of the states of chips."""

from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry

from scheduler.api.device_states import Availability
from scheduler.api.names import ASCEND_910
from scheduler.framework.figures import DeviceCounts, Figures
from scheduler.observability import cluster_figures
from scheduler.observability.cluster_figures import ChipFigures, ClusterFigures
from scheduler.observability.session_figures import SessionFigures
from scheduler.observability.waiting_figures import MAX_JOBS, WaitingFigures
from tests.builders import Raw, World, configuration, group, node, pod, pods, queue
from tests.unit.plugins.ascend.chips import config_map, device_info, job, names, npu_node, npu_pod
from tests.unit.plugins.capacity_card.cards import GPU, gpu_node

Samples = dict[tuple[str, ...], float]


def samples(collector: Any, name: str) -> Samples:
    """Maps the values of the labels of a metric to its value."""
    registry = CollectorRegistry()
    registry.register(collector)
    return {
        tuple(sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name
    }


def waiting(world: World, *plugins: str) -> WaitingFigures:
    world.run(configuration(["gang", "predicates", *plugins]))
    assert world.outcome is not None
    figures = WaitingFigures()
    figures.update(world.outcome.session.jobs)
    return figures


def created(second: int, *objects: Raw) -> list[Raw]:
    """Objects that were created in a second of 1970."""
    for each in objects:
        each["metadata"]["creationTimestamp"] = f"1970-01-01T00:{second // 60:02}:{second % 60:02}Z"
    return list(objects)


def test_waiting_jobs_are_counted_by_queue_and_reason_with_the_longest_wait() -> None:
    figures = waiting(
        World(
            node("n", "4c"),
            queue("a"),
            queue("b"),
            created(100, group("early", "a", 2), *pods("early", 2, "6c", "early")),
            created(200, group("late", "a", 2), *pods("late", 2, "6c", "late")),
            created(300, group("large", "b", asks="100c")),
            created(300, group("runs", "b"), *pods("runs", 1, "1c", "runs")),
        ),
        "overcommit",
    )

    assert samples(figures, "volcano_py_waiting_jobs") == {("a", "no_node"): 2, ("b", "not_admitted"): 1}
    assert samples(figures, "volcano_py_waiting_since_seconds") == {("a", "no_node"): 100, ("b", "not_admitted"): 300}
    assert samples(figures, "volcano_py_longest_waiting_job_since_seconds") == {
        ("default", "early", "a", "no_node"): 100,
        ("default", "late", "a", "no_node"): 200,
        ("default", "large", "b", "not_admitted"): 300,
    }


def test_a_restarted_job_waits_since_its_new_pods_were_created() -> None:
    world = World(node("n", "4c"), created(100, group("g")), created(900, *pods("g", 1, "6c", "g")))
    assert samples(waiting(world), "volcano_py_waiting_since_seconds") == {("default", "no_node"): 900}


def test_a_job_with_its_minimum_is_no_waiting_job_though_another_of_its_pods_waits() -> None:
    world = World(node("n", "4c"), group("g", minimum=1), *pods("g", 5, "1c", "g"))
    figures = waiting(world)
    assert samples(figures, "volcano_py_waiting_jobs") == {}
    assert samples(figures, "volcano_py_pending_pods")[("no_node",)] == 1


def test_only_the_longest_waiting_jobs_have_series_of_their_own() -> None:
    jobs = [created(i, group(f"g{i}"), *pods(f"g{i}", 1, "6c", f"g{i}")) for i in range(MAX_JOBS + 5)]
    figures = waiting(World(node("n", "4c"), *jobs))
    longest = samples(figures, "volcano_py_longest_waiting_job_since_seconds")
    assert {name for _, name, *_ in longest} == {f"g{i}" for i in range(MAX_JOBS)}
    assert samples(figures, "volcano_py_waiting_jobs") == {("default", "no_node"): MAX_JOBS + 5}


def test_amounts_of_the_cluster_are_split_into_online_offline_and_other_pods() -> None:
    service = pods("web", 2, "1c+1Gi", "web")
    for each in service:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
        each["metadata"]["ownerReferences"] = [owner]
    foreign = pod("proxy", "2c", on="n", phase="Running", scheduler="default-scheduler")
    world = World(node("n", "16c+32Gi"), group("web"), *service, group("t"), *pods("t", 3, "1c+2Gi", "t"), foreign)
    world.run(configuration(["gang", "predicates"]))
    assert world.outcome is not None
    session, figures = world.outcome.session, ClusterFigures()
    held = SessionFigures().update(session.jobs, session.queues, session.dimensions, {})
    figures.update(*held, session.nodes, session.dimensions)

    allocated = samples(figures, "volcano_py_cluster_allocated")
    assert {key: value for key, value in allocated.items() if key[1] != "pods" and value} == {
        ("online", "cpu"): 2,
        ("online", "memory"): 2 * 2**30,
        ("offline", "cpu"): 3,
        ("offline", "memory"): 6 * 2**30,
        ("other", "cpu"): 2,
    }
    assert [allocated[workload, "pods"] for workload in ("online", "offline", "other")] == [2, 3, 1]
    assert samples(figures, "volcano_py_cluster_allocatable")[("cpu",)] == 16


def chips_of(*objects: Any) -> ChipFigures:
    world = World(*objects)
    world.run(configuration(["gang", "ascend", "predicates"]))
    assert world.outcome is not None
    figures = ChipFigures()
    figures.update(world.outcome.session.figures())
    return figures


def test_chips_are_counted_by_state_for_the_cluster_and_by_node() -> None:
    info = device_info("n", [1, 2, 3, 4], Unhealthy=[5], Recovering=[6], NetworkUnhealthy=[4])
    held = npu_pod("held", 1, on="n", annotations={ASCEND_910: names([0])})
    figures = chips_of(
        npu_node("n"), npu_node("m", annotations={ASCEND_910: ""}), node("plain"), info, held, job("j", 2)
    )

    assert samples(figures, "volcano_py_node_chips") == {
        ("n", ASCEND_910, "free"): 1,
        ("n", ASCEND_910, "degraded"): 1,
        ("n", ASCEND_910, "allocated"): 3,
        ("n", ASCEND_910, "unhealthy"): 2,
        ("n", ASCEND_910, "unknown"): 1,
        ("m", ASCEND_910, "unknown"): 8,
    }
    assert samples(figures, "volcano_py_chips") == {
        (ASCEND_910, "free"): 1,
        (ASCEND_910, "degraded"): 1,
        (ASCEND_910, "allocated"): 3,
        (ASCEND_910, "unhealthy"): 2,
        (ASCEND_910, "unknown"): 9,
    }


def test_chips_of_a_node_without_allocatable_chips_are_unhealthy() -> None:
    broken = npu_node("n")
    broken["status"]["capacity"] = dict(broken["status"]["allocatable"])
    broken["status"]["allocatable"][ASCEND_910] = "0"
    figures = chips_of(broken, npu_node("m"))
    assert samples(figures, "volcano_py_node_chips") == {
        ("n", ASCEND_910, "unhealthy"): 8,
        ("m", ASCEND_910, "free"): 8,
    }


def test_a_malformed_report_leaves_the_chips_of_its_node_unknown() -> None:
    figures = chips_of(npu_node("n"), config_map("n", "{"), npu_node("m"))
    found = samples(figures, "volcano_py_node_chips")
    assert sum(number for (name, *_), number in found.items() if name == "n") == 8
    assert found["m", ASCEND_910, "free"] == 8


def test_a_cluster_without_chips_has_no_series() -> None:
    assert samples(chips_of(node("plain")), "volcano_py_chips") == {}


def test_nodes_with_series_of_their_own_are_limited_and_those_with_unusable_chips_come_first() -> None:
    number, sick = cluster_figures.NODES + 10, cluster_figures.NODES + 3
    counts = np.zeros((number, len(Availability)), dtype=np.int64)
    counts[:, list(Availability).index(Availability.FREE)] = 8
    counts[sick, list(Availability).index(Availability.UNHEALTHY)] = 1
    figures = ChipFigures()
    figures.update([Figures(devices=[DeviceCounts("r", [f"n{i:05}" for i in range(number)], counts)])])

    nodes = {name for name, *_ in samples(figures, "volcano_py_node_chips")}
    assert len(nodes) == cluster_figures.NODES
    assert f"n{sick:05}" in nodes
    assert samples(figures, "volcano_py_node_chips_omitted_nodes") == {("r",): 10}
    assert samples(figures, "volcano_py_chips")[("r", "free")] == 8 * number


def test_a_scrape_sees_one_session_even_if_another_ends_meanwhile() -> None:
    world = World(node("n", "4c"), *(each for name in "ab" for each in (group(name), *pods(name, 1, "1c", name))))
    world.run(configuration(["gang", "predicates"]))
    assert world.outcome is not None
    session, figures = world.outcome.session, SessionFigures()
    first, second = session.jobs
    figures.update(session.jobs, session.queues, session.dimensions, {first: session.now})
    numbers = {}
    for family in figures.collect():
        numbers[family.name] = len(family.samples)
        figures.update(session.jobs, session.queues, session.dimensions, {second: session.now})
    assert [numbers[f"volcano_e2e_job_scheduling_{word}"] for word in ("start_time", "last_time", "duration")] == [
        1,
        1,
        1,
    ]


def broken(node: Raw, healthy: int) -> Raw:
    """A node of whose GPUs only some are healthy."""
    node["status"]["capacity"] = dict(node["status"]["allocatable"])
    node["status"]["allocatable"][GPU] = str(healthy)
    return node


def not_ready(node: Raw) -> Raw:
    node["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    return node


def test_cards_are_counted_by_model_and_state() -> None:
    world = World(
        gpu_node("a", "H200"),
        broken(gpu_node("b", "H200"), healthy=6),
        not_ready(gpu_node("c", "H20")),
        node("plain", "8c"),
        group("g"),
        *pods("g", 1, f"1c+{GPU}=3", "g"),
    )
    world.run(configuration(["gang", "predicates"]))
    assert world.outcome is not None
    session, figures = world.outcome.session, ClusterFigures()
    nothing = session.dimensions.zeros()
    figures.update(nothing, nothing, session.nodes, session.dimensions)

    assert samples(figures, "volcano_py_cards") == {
        ("H200", "free"): 11,
        ("H200", "allocated"): 3,
        ("H200", "unhealthy"): 2,
        ("H200", "unknown"): 0,
        ("H20", "free"): 0,
        ("H20", "allocated"): 0,
        ("H20", "unhealthy"): 0,
        ("H20", "unknown"): 8,
    }
