"""usage: busy nodes take no new Pods, idle nodes are preferred, and recently placed Pods count with estimates."""

from typing import Any

import numpy as np
import pytest

from scheduler.api.objects import Container, PodSpec, ResourceRequirements
from scheduler.api.usage import NodeUsage
from scheduler.framework.configuration import Configuration
from scheduler.framework.configuration_file import parse_configuration
from scheduler.plugins.usage.estimated_load import pod_limits
from tests.builders import Raw, World, configuration, group, node, pod, pods

CPU_BUSY = "the CPU load of the node exceeds the upper limit."
MEMORY_BUSY = "the memory load of the node exceeds the upper limit."


def conf(flags: dict[str, bool] | None = None, **arguments: Any) -> Configuration:
    return configuration({"gang": {}, "predicates": {}, "usage": flags or {}}, arguments={"usage": arguments})


def world(loads: dict[str, tuple[float, float]], *objects: Any, age: float = 0.0) -> World:
    """Nodes with 8 cpus and 16 GiB, and these loads of cpu and memory in per cent, measured ``age`` seconds ago."""
    made = World([node(name, "8c+16Gi") for name in loads], *objects)
    now = made.cluster.now
    made.cluster.cache.take_usage({name: NodeUsage(*load, now - age) for name, load in loads.items()})
    return made


def gang(number: int, asks: str = "1c+1Gi", **rest: Any) -> list[Raw]:
    return [group("g"), *pods("g", number, asks, "g", **rest)]


def spread(made: World) -> dict[str, int]:
    nodes = list(made.bound.values())
    return {name: nodes.count(name) for name in sorted(set(nodes))}


# --- thresholds ---
@pytest.mark.parametrize(("load", "reason"), [((81, 0), CPU_BUSY), ((0, 81), MEMORY_BUSY), ((90, 90), CPU_BUSY)])
def test_a_busy_node_takes_no_new_pods_with_the_reason(load: tuple[float, float], reason: str) -> None:
    made = world({"n1": load}, gang(1)).run(conf())
    assert made.bound == {}
    assert f"1 {reason}" in made.get("Pod", "g-0")["status"]["conditions"][0]["message"]


def test_a_node_at_the_threshold_takes_pods() -> None:
    assert world({"n1": (80, 80)}, gang(1)).run(conf()).bound == {"g-0": "n1"}


def test_thresholds_are_arguments() -> None:
    made = world({"n1": (60, 0), "n2": (0, 60)}, gang(1)).run(conf(thresholds={"cpu": 50, "mem": 70}))
    assert made.bound == {"g-0": "n2"}


def test_thresholds_can_be_disabled() -> None:
    assert world({"n1": (99, 99)}, gang(1)).run(conf({"enablePredicate": False})).bound == {"g-0": "n1"}


def test_measurements_older_than_five_minutes_are_ignored() -> None:
    made = world({"n1": (99, 99), "n2": (0, 0)}, gang(1), age=301).run(conf())
    assert made.bound == {"g-0": "n1"}


def test_a_node_without_measurements_does_not_count_as_idle() -> None:
    made = World(node("n1"), node("n2"), gang(1))
    made.cluster.cache.take_usage({"n2": NodeUsage(70, 70, made.cluster.now)})
    assert made.run(conf()).bound == {"g-0": "n2"}


def test_without_a_monitoring_system_the_plugin_has_no_effect() -> None:
    made = World(node("n1"), gang(1)).run(conf())
    assert made.bound == {"g-0": "n1"} and not made.session(conf()).problems


# --- scores ---
@pytest.mark.parametrize(
    ("weights", "best"),
    [({}, "n3"), ({"cpu.weight": 0}, "n1"), ({"memory.weight": 0}, "n2"), ({"usage.weight": 0}, "n1")],
)
def test_the_node_with_the_least_weighted_load_scores_best(weights: dict[str, Any], best: str) -> None:
    loads: dict[str, tuple[float, float]] = {"n1": (70, 10), "n2": (10, 75), "n3": (35, 35)}
    assert world(loads, gang(1)).run(conf(**weights)).bound == {"g-0": best}


def test_estimates_of_placed_pods_spread_a_gang() -> None:
    # Each Pod counts 700m and 717Mi: n1 is the less used node until it has two of them.
    assert spread(world({"n1": (10, 10), "n2": (20, 20)}, gang(4)).run(conf())) == {"n1": 3, "n2": 1}


def test_estimates_are_higher_on_busy_nodes() -> None:
    raised: dict[str, Any] = {"estimator": {"request_ratio": 1.0, "risk_threshold": 0.1, "risk_factor": 3.0}}
    loads: dict[str, tuple[float, float]] = {"n1": (11, 11), "n2": (9, 9)}
    made = world(loads, gang(3)).run(conf(**raised))
    # n2 first, at its request: 9+12.5 %; then n1, which is above the threshold already, at no more than the limit.
    assert [made.bound[name] for name in ("g-0", "g-1", "g-2")] == ["n2", "n1", "n2"]


def test_the_burst_ratio_counts_a_part_of_the_limit_above_the_request() -> None:
    plain = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "8"}}}]}
    burst = world({"n1": (0, 0), "n2": (5, 0)}, gang(2, "", **plain)).run(conf(estimator={"burst_ratio": 0.5}))
    assert spread(burst) == {"n1": 1, "n2": 1}
    assert spread(world({"n1": (0, 0), "n2": (5, 0)}, gang(2, "", **plain)).run(conf())) == {"n1": 2}


def test_best_effort_pods_count_with_a_fixed_amount() -> None:
    # 8 cpus: 2 of them are 25 %.
    made = world({"n1": (0, 0), "n2": (10, 0)}, gang(2, "")).run(conf(estimator={"be_cpu": "2", "be_mem": 0}))
    assert spread(made) == {"n1": 1, "n2": 1}


def test_recently_started_pods_count_with_their_estimate() -> None:
    def best(started: str) -> dict[str, str]:
        young = pod("young", "4c+1Gi", "old", on="n1")
        young["status"]["startTime"] = started
        made = world({"n1": (0, 0), "n2": (10, 0)}, group("old", phase="Running"), young, gang(1))
        return made.run(conf()).bound

    assert best("2020-01-01T00:00:00Z") == {"g-0": "n2"}
    assert best("2019-12-31T23:00:00Z") == {"g-0": "n1"}


def test_pods_without_a_job_count() -> None:
    made = world({"n1": (0, 0), "n2": (10, 0)}, pod("other", "4c+1Gi", on="n1", scheduler="other"), gang(1))
    assert made.run(conf()).bound == {"g-0": "n2"}


def test_a_pod_counts_as_unmeasured_for_the_interval_of_the_metrics_source() -> None:
    def best(interval: str) -> dict[str, str]:
        young = pod("young", "4c+1Gi", "old", on="n1")
        young["status"]["startTime"] = "2019-12-31T23:59:00Z"
        made = world({"n1": (0, 0), "n2": (10, 0)}, group("old", phase="Running"), young, gang(1))
        text = "actions: allocate\ntiers:\n- plugins: [{name: gang}, {name: predicates}, {name: usage}]\n"
        text += f"metrics: {{type: prometheus, address: 'http://p', interval: {interval}}}\n"
        return made.run(parse_configuration(text)).bound

    assert best("30s") == {"g-0": "n1"} and best("10m") == {"g-0": "n2"}


def test_undoing_a_placement_restores_the_load() -> None:
    made = world({"n1": (10, 10), "n2": (20, 20)}, gang(2), group("h", minimum=1), pod("h-0", "1c+1Gi", "h"))
    session = made.session(conf(estimator={"request_ratio": 0.777}))
    job, other = session.jobs["default/g"], session.jobs["default/h"]
    (task,) = other.tasks()
    before = session.view(task.cls, other).choose(3)
    statement = session.statement()
    statement.allocate(job, list(job.tasks()), (0, 0))
    assert session.view(task.cls, other).choose(1) == [1]
    statement.discard()
    assert session.view(task.cls, other).choose(3) == before


def test_an_eviction_subtracts_the_estimate_and_undoing_it_restores_the_load() -> None:
    young = pod("young", "4c+1Gi", "old", on="n1")
    young["status"]["startTime"] = "2020-01-01T00:00:00Z"
    grown = pod("grown", "4c+1Gi", "old", on="n1")
    grown["status"]["startTime"] = "2019-01-01T00:00:00Z"
    made = world({"n1": (10, 10), "n2": (30, 10)}, group("old", phase="Running"), young, grown, gang(1, "100m"))
    session = made.session(conf())
    old, job = session.jobs["default/old"], session.jobs["default/g"]
    (waiting,) = job.tasks()
    view = session.view(waiting.cls, job)
    both = np.ones(2, dtype=bool)
    best = list(view.best_first(both, both))
    tasks = {task.name: task for task in old.tasks()}
    statement = session.statement()
    statement.evict(old, tasks["young"], "test")
    assert list(view.best_first(both, both)) == [0, 1]
    statement.evict(old, tasks["grown"], "test")
    statement.discard()
    assert list(view.best_first(both, both)) == best == [1, 0]


# --- arguments ---
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"usage.weight": -1}, "argument usage.weight: -1 is less than 0; using 5"),
        ({"thresholds": {"cpu": 101}}, "argument thresholds.cpu: 101 is more than 100; using 80"),
        ({"thresholds": 7}, "argument thresholds: 7 is not a mapping; using nothing"),
        ({"estimator": {"risk_factor": 0.5}}, "argument estimator.risk_factor: 0.5 is less than 1; using 1.2"),
        ({"estimator": {"be_cpu": "much"}}, "argument estimator.be_cpu: 'much' is not a quantity; using 250"),
        ({"estimator": {"be_mem": -3}}, "argument estimator.be_mem: -3 is negative; using 209715200"),
    ],
)
def test_an_argument_out_of_its_bounds_is_reported_and_the_default_applies(
    arguments: dict[str, Any], problem: str
) -> None:
    assert world({"n1": (0, 0)}).session(conf(**arguments)).problems == [f"plugin usage: {problem}"]


# --- limits ---
def container(limits: dict[str, str | int | float], **rest: Any) -> Container:
    return Container(resources=ResourceRequirements(limits=limits), **rest)


def test_the_limit_of_a_pod_is_the_larger_of_containers_and_init_containers() -> None:
    spec = PodSpec(
        containers=[container({"cpu": "1"}), container({"cpu": "1", "memory": "1Gi"})],
        init_containers=[container({"cpu": "500m"}, restart_policy="Always"), container({"memory": "3Gi"})],
        overhead={"cpu": "100m", "memory": "0"},
    )
    assert pod_limits(spec).tolist() == [2600.0, 3 * 2**30]


def test_pod_level_limits_replace_container_limits_and_invalid_limits_are_ignored() -> None:
    level = ResourceRequirements(limits={"cpu": "3", "memory": "lots"})
    assert pod_limits(PodSpec(containers=[container({"cpu": "1"})], resources=level)).tolist() == [3000.0, 0.0]
