"""The plugin rescheduling: periodic evictions from busy nodes, at most as many as idle nodes can take."""

from typing import Any

import pytest

from scheduler.api.usage import NodeUsage
from scheduler.framework.configuration import Configuration
from tests.builders import World, configuration, group, node, pod

HALF = {"thresholds": {"cpu": 20, "memory": 20}, "targetThresholds": {"cpu": 50, "memory": 50}}


def conf(parameters: dict[str, Any] | None = None, **arguments: Any) -> Configuration:
    if parameters is not None:
        arguments["strategies"] = [{"name": "lowNodeUtilization", "params": parameters}]
    settings = {"interval": "0s", **arguments}
    return configuration(["rescheduling"], actions="shuffle", arguments={"rescheduling": settings})


def world(loads: dict[str, tuple[float, float]], *pods: Any, age: float = 0.0, **cordoned: Any) -> World:
    """Nodes with 10 cpus and 10 GiB, and these loads of cpu and memory in per cent."""
    nodes = [node(name, "10c+10Gi", **cordoned.get(name, {})) for name in loads]
    made = World(nodes, group("g", phase="Running"), *pods)
    made.cluster.cache.take_usage({n: NodeUsage(*load, made.cluster.now - age) for n, load in loads.items()})
    return made


def second_round(made: World, settings: Configuration) -> set[str]:
    """Returns the Pods that the second session evicts; the first session begins the interval."""
    assert made.run(settings).evicted == set()
    return made.run(settings).evicted


def running(name: str, asks: str = "1c+1Gi", on: str = "n1", **rest: Any) -> Any:
    return pod(name, asks, "g", on=on, **rest)


def test_pods_are_evicted_from_a_busy_node_until_it_is_below_the_target() -> None:
    made = world({"n1": (75, 10), "n2": (5, 5)}, *(running(f"p{i}", priority=i) for i in range(5)))
    assert second_round(made, conf(HALF)) == {"p0", "p1", "p2"}


def test_evictions_stop_when_the_idle_nodes_would_reach_the_target() -> None:
    made = world({"n1": (95, 10), "n2": (15, 5), "n3": (40, 40)}, *(running(f"p{i}", "2c") for i in range(5)))
    assert len(second_round(made, conf(HALF))) == 2


def test_an_idle_node_above_the_target_takes_no_pods() -> None:
    loose = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50, "memory": 50}}
    made = world({"n1": (90, 10), "n2": (5, 60)}, running("p"))
    assert second_round(made, conf(loose)) == set()


@pytest.mark.parametrize(
    "loads",
    [{"n1": (75, 5), "n2": (25, 5)}, {"n1": (45, 5), "n2": (5, 5)}, {"n1": (5, 5), "n2": (5, 5)}, {"n1": (75, 5)}],
)
def test_no_pod_is_evicted_without_both_idle_and_busy_nodes(loads: dict[str, tuple[float, float]]) -> None:
    assert second_round(world(loads, running("p")), conf(HALF)) == set()


def test_a_cordoned_node_is_not_idle() -> None:
    made = world({"n1": (75, 5), "n2": (5, 5)}, running("p"), n2={"unschedulable": True})
    assert second_round(made, conf(HALF)) == set()


def test_nodes_without_current_measurements_are_ignored() -> None:
    assert second_round(world({"n1": (75, 5), "n2": (5, 5)}, running("p"), age=301), conf(HALF)) == set()


def test_without_a_monitoring_system_no_pod_is_evicted() -> None:
    made = World(node("n1"), group("g", phase="Running"), running("p"))
    assert second_round(made, conf(HALF)) == set()


def test_victims_come_from_the_busiest_node_by_priority_and_qos() -> None:
    whole = {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]}
    made = world(
        {"n1": (70, 10), "n2": (90, 10), "n3": (15, 5)},
        running("other-node"),
        running("important", on="n2", priority=9),
        running("guaranteed", "", on="n2", **whole),
        running("burstable", on="n2"),
        running("nothing", "", on="n2"),
    )
    made.run(conf(HALF), cycles=2)
    order = ["nothing", "burstable", "guaranteed", "important", "other-node"]
    assert [eviction.task.name for eviction in made.decisions.evictions] == order


def test_pods_of_the_same_name_in_two_namespaces_are_distinct() -> None:
    double, owner = running("p", on="n3"), group("g", phase="Running")
    double["metadata"]["namespace"] = owner["metadata"]["namespace"] = "other"
    made = world({"n1": (75, 10), "n2": (5, 5), "n3": (40, 40)}, owner, double, running("p"))
    settings = conf(HALF)
    made.run(settings, cycles=2)
    assert [eviction.task.key for eviction in made.decisions.evictions] == ["default/p"]


def test_without_strategies_the_default_strategy_evicts_no_pod() -> None:
    made = world({"n1": (99, 99), "n2": (5, 5)}, running("p"))
    assert second_round(made, conf()) == set()


def test_rounds_start_one_interval_apart_and_after_the_first_interval() -> None:
    made = world({"n1": (75, 10), "n2": (5, 5)}, *(running(f"p{i}", "100m") for i in range(9)))
    settings = conf(HALF, interval="3s")
    assert [bool(made.run(settings).evicted) for _ in range(4)] == [False, False, False, True]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"interval": "soon"}, "argument interval: 'soon' is not a duration; using '5m0s'"),
        ({"metricsPeriod": "5m"}, "argument metricsPeriod: '5m' is not measured; using '10m'"),
        ({"strategies": 7}, "argument strategies: 7 is not a list; using nothing"),
        ({"strategies": [{"name": "else"}]}, "argument strategies: 'else' is not a known strategy; using nothing"),
        ({"strategies": ["x"]}, "argument strategies: 'x' is not a known strategy; using nothing"),
        (
            {"strategies": [{"name": "lowNodeUtilization", "params": {"thresholds": {"cpu": "20"}}}]},
            "argument params.thresholds.cpu: '20' is not a number but a string: write it without quotes; using 100",
        ),
    ],
)
def test_an_invalid_argument_is_reported(arguments: dict[str, Any], problem: str) -> None:
    assert world({"n1": (0, 0)}).session(conf(**arguments)).problems == [f"plugin rescheduling: {problem}"]
