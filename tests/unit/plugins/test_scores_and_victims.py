"""The scores of binpack, the admission of overcommit, and the victims of gang, priority, drf and conformance."""

from typing import Any

import numpy as np
import pytest

from scheduler.framework.extension import PREEMPTABLE
from tests.builders import Raw, World, configuration, group, node, pod, pods, queue

GPU, FOO = "nvidia.com/gpu", "example.com/foo"


# --- binpack ---
def packed() -> list[Raw]:
    return [
        node("n1", "2c+4Gi"), node("n2", f"4c+16Gi+{GPU}=4"), node("n3", f"2c+4Gi+{FOO}=16"), group("g"),
        pod("p1", "1c+1Gi", "g", on="n1"), pod("p2", "1.5c", "g", on="n3"),
        pod("p3", f"2c+10Gi+{GPU}=2", "g"), pod("p4", f"3c+4Gi+{FOO}=3", "g"),
    ]  # fmt: skip


def binpack_scores(name: str, arguments: dict[str, Any]) -> list[float]:
    session = World(packed()).session(configuration(["binpack"], arguments={"binpack": arguments}))
    job = session.jobs["default/g"]
    cls = next(task.cls for task in job.tasks() if task.name == name)
    return [round(float(v), 4) for score in session.scores(cls, job) for v in score.values(np.arange(3), None)]


WEIGHTED = {
    "binpack.weight": 10, "binpack.cpu": 2, "binpack.memory": 3, "binpack.resources": f"{GPU}, {FOO}",
    f"binpack.resources.{GPU}": 7, f"binpack.resources.{FOO}": 8,
}  # fmt: skip
EVEN = {"binpack.resources": GPU, f"binpack.resources.{GPU}": 23}


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("p1", WEIGHTED, [700, 137.5, 0]),
        ("p2", WEIGHTED, [0, 375, 0]),
        ("p3", WEIGHTED, [0, 531.25, 0]),
        ("p4", WEIGHTED, [0, 173.0769, 0]),
        ("p1", EVEN, [75, 15.625, 0]),
        ("p2", EVEN, [0, 37.5, 0]),
        ("p3", EVEN, [0, 50.5, 0]),
        ("p4", EVEN, [0, 50, 0]),
        ("p1", {"binpack.weight": 0}, []),
        ("p1", {"binpack.cpu": -5, "binpack.memory": -1}, [75, 15.625, 0]),
        ("p1", {"binpack.weight": "10"}, [75, 15.625, 0]),
        ("p1", {"binpack.cpu": 3, "binpack.resources": "cpu"}, [87.5, 20.3125, 0]),
    ],
)
def test_binpack_scores_nodes_by_utilization(name: str, arguments: dict[str, Any], expected: list[float]) -> None:
    assert binpack_scores(name, arguments) == expected


# --- overcommit ---
@pytest.mark.parametrize(
    ("asks", "factor", "enters"),
    [
        ("2c+2G", 1.2, True),
        ("2c+2G", 0.8, True),
        ("7c", 0.8, True),
        ("7c", 1, False),
        ("7.2c", 1.2, True),
        ("7.3c", 1.2, False),
        ("20c", 1.2, False),
        (None, 1.2, True),
        ("2c", float("nan"), True),
        ("20c", float("inf"), False),
    ],
)
def test_overcommit_admits_up_to_a_multiple_of_the_cluster(asks: str | None, factor: float, enters: bool) -> None:
    conf = configuration(["overcommit"], actions="enqueue", arguments={"overcommit": {"overcommit-factor": factor}})
    world = World(node("n", "6c+20Gi"), group("a", asks=asks), pod("p", "1c", "a")).run(conf)
    assert world.phase("a") == ("Inqueue" if enters else "Pending")


def test_earlier_reservations_count() -> None:
    conf = configuration(["overcommit"], actions="enqueue")
    world = World(
        node("n", "10c"),
        pod("busy", "8c", on="n"),
        group("a", asks="4c"),
        pod("p", "4c", "a"),
        group("b", asks="1c"),
        pod("q", "1c", "b"),
    ).run(conf)
    assert (world.phase("a"), world.phase("b")) == ("Inqueue", "Pending")
    (message,) = [m for m in world.events("Unschedulable") if "overused" in m]
    assert "overused cpu" in message and "asked 1, reserved 4" in message


def test_the_allocated_part_of_an_admitted_job_is_not_counted_twice() -> None:
    world = World(
        node("n", "10c"),
        group("a", minimum=2, asks="8c", phase="Inqueue"),
        pod("there", "4c", "a", on="n"),
        group("b", asks="4c"),
        pod("q", "4c", "b"),
    ).run(configuration(["overcommit"], actions="enqueue"))
    assert world.phase("b") == "Inqueue", "12 less 4 in use and 4 reserved"


# --- victims ---
def contested(**high: Any) -> World:
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": n}, "value": v}
        for n, v in (("high", 1000), ("low", 10))
    ]
    return World(
        classes,
        node("n", "9c"),
        group("low", minimum=2, priority_class="low"),
        pods("l", 4, "1c", "low", on="n"),
        group("equal", minimum=0, priority_class="high"),
        pod("e", "1c", "equal", on="n"),
        group("high", minimum=1, priority_class="high"),
        pod("h", "1c", "high", **high),
        pod("h2", "1c", "high", on="n", priority=-1),
    )


def victims(world: World, *plugins: str) -> set[str]:
    session = world.session(configuration(plugins))
    tasks = sorted((t for job in session.jobs.values() for t in job.tasks()), key=lambda t: t.name)
    (preemptor,) = [t for t in tasks if t.name == "h"]
    return {t.name for t in session.ask(PREEMPTABLE, preemptor, [t for t in tasks if t is not preemptor and t.node])}


def test_gang_allows_only_victims_beyond_the_minimum() -> None:
    assert victims(contested(), "gang") == {"l-0", "l-1", "e"}


def test_priority_allows_victims_in_lower_jobs_and_lower_tasks_of_the_own_job() -> None:
    assert victims(contested(), "priority") == {"l-0", "l-1", "l-2", "l-3", "h2"}


def test_drf_allows_victims_in_jobs_whose_share_is_at_least_that_of_the_preemptor() -> None:
    assert victims(contested(), "drf") == {"l-0", "l-1"}


def test_conformance_protects_system_critical_pods() -> None:
    world = World(
        node("n", "9c"),
        group("a"),
        pod("h", "1c", "a"),
        pod("c", "1c", "a", on="n", priorityClassName="system-node-critical"),
        pod("d", "1c", "a", on="n"),
    )
    assert victims(world, "conformance") == {"d"}


# --- proportion ---
def deserved(world: World) -> dict[str, float]:
    session = world.session(configuration(["proportion"]))
    (plugin,) = session.plugins
    return {name: round(float(book.deserved[0])) for name, book in plugin._books.items()}  # type: ignore[attr-defined]


def asking(*wants: tuple[str, int, int, dict[str, str]]) -> World:
    parts: list[Raw] = [node("n", "12c+100Gi")]
    for name, weight, number, limits in wants:
        parts += [queue(name, weight, **limits), group(name, name), *pods(name, number, "1c", name)]
    return World(parts)


def test_the_cluster_is_divided_by_weight_and_remainders_go_to_other_queues() -> None:
    assert deserved(asking(("a", 1, 20, {}), ("b", 2, 20, {}))) == {"a": 4000, "b": 8000}
    assert deserved(asking(("a", 1, 20, {}), ("b", 2, 20, {}), ("c", 3, 3, {}))) == {"a": 3000, "b": 6000, "c": 3000}


def test_a_deserved_share_is_between_the_guarantee_and_the_capability() -> None:
    limits = {"capability": "2c"}
    assert deserved(asking(("a", 1, 20, limits), ("b", 1, 20, {}))) == {"a": 2000, "b": 10000}
    assert deserved(asking(("a", 1, 20, {"guarantee": "9c"}), ("b", 1, 20, {})))["a"] == 9000
    assert deserved(asking(("a", 1, 20, {"guarantee": "9c"}), ("b", 1, 20, {})))["b"] <= 3000 + 3000


def test_a_queue_without_jobs_has_no_deserved_share() -> None:
    assert deserved(
        World(node("n", "12c"), queue("idle", 100), queue("a"), group("a", "a"), pods("p", 20, "1c", "a"))
    ) == {"a": 12000}
