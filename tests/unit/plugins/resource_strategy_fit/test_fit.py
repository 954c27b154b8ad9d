"""resource-strategy-fit: strategies, scarce resources and proportions."""

from typing import Any

import numpy as np
import pytest

from scheduler.framework.session import Session
from tests.builders import Raw, World, configuration, group, node, pod

GPU = "nvidia.com/gpu"
PACK_GPU = {"resources": {GPU: {"type": "MostAllocated", "weight": 2}, "cpu": {"type": "LeastAllocated"}}}


def opened(*objects: Any, **arguments: Any) -> Session:
    conf = configuration(["resource-strategy-fit"], arguments={"resource-strategy-fit": arguments})
    return World(*objects).session(conf)


def scores(session: Session, name: str = "a", ahead: int = 0) -> list[float]:
    """The score of each node for the only Pod of the job."""
    job = session.jobs[f"default/{name}"]
    (task,) = job.tasks()
    rows = np.arange(len(session.nodes))
    total = np.zeros(len(rows))
    for score in session.scores(task.cls, job):
        total += score.values(rows, np.full(len(rows), ahead))
    return [round(value, 3) for value in total.tolist()]


def waiting(asks: str, **annotations: str) -> list[Raw]:
    keys = {f"volcano.sh/resource-strategy-{key.replace('_', '-')}": text for key, text in annotations.items()}
    return [group("a", phase="Inqueue"), pod("a-0", asks, "a", annotations=keys)]


TWO = [node("n1", "4c+8Gi+nvidia.com/gpu=4"), node("n2", "8c+8Gi+nvidia.com/gpu=8")]
USED = pod("used", "2c+nvidia.com/gpu=2", on="n1", scheduler="other")


# --- strategies ---
def test_by_default_nodes_with_more_free_resources_are_preferred() -> None:
    assert scores(opened(TWO, USED, waiting("1c+2Gi"))) == [500.0, 812.5], "(1/4 + 3/4) / 2 and (7/8 + 3/4) / 2"


def test_each_resource_has_its_own_strategy_and_weight() -> None:
    session = opened(TWO, USED, waiting(f"1c+{GPU}=1"), **PACK_GPU)
    assert scores(session) == [round(1000 * (0.75 * 2 + 0.25) / 3, 3), round(1000 * (0.125 * 2 + 0.875) / 3, 3)]


def test_a_score_ahead_equals_the_score_after_placing_tasks() -> None:
    assert scores(opened(TWO, waiting("1c")), ahead=1) == [500.0, 750.0]


def test_a_node_on_which_a_resource_does_not_fit_scores_zero() -> None:
    assert scores(opened(TWO, USED, waiting(f"1c+{GPU}=3"), **PACK_GPU))[0] == 0.0


@pytest.mark.parametrize(("weight", "score"), [(1, 75.0), (-3, 750.0)])
def test_the_weight_multiplies_the_score_and_a_negative_one_is_replaced_by_the_default(
    weight: int, score: float
) -> None:
    assert scores(opened(TWO[0], waiting("1c"), resourceStrategyFitWeight=weight)) == [score]


def test_weight_zero_disables_the_strategies() -> None:
    assert scores(opened(TWO[0], waiting("1c"), resourceStrategyFitWeight=0)) == [0.0]


def test_an_exact_name_precedes_the_longest_prefix_and_that_shorter_ones() -> None:
    most, least = {"type": "MostAllocated"}, {"type": "LeastAllocated"}
    asks = waiting(f"{GPU}=1")
    assert scores(opened(TWO[0], asks, resources={GPU: most, "nvidia.com/*": least})) == [250.0]
    assert scores(opened(TWO[0], asks, resources={"nvidia.com/*": most, "nvidia*": least})) == [250.0]


def test_an_invalid_strategy_and_weight_are_reported() -> None:
    session = opened(TWO[0], waiting("1c"), resources={"cpu": {"type": "Half", "weight": 0}})
    assert scores(session) == [750.0]
    assert [problem.split(";")[0] for problem in session.problems] == [
        "plugin resource-strategy-fit: argument resources.cpu.type: 'Half' is neither LeastAllocated nor MostAllocated",
        "plugin resource-strategy-fit: argument resources.cpu.weight: 0 is less than 1",
    ]


@pytest.mark.parametrize("weight", ["-1", "1" + "0" * 400])
def test_an_out_of_bounds_weight_of_a_pod_is_reported_and_scores_zero(weight: str) -> None:
    session = opened(TWO, waiting("1c", scoring_type="MostAllocated", weight=f'{{"cpu": {weight}}}'))
    assert scores(session) == [0.0, 0.0]
    assert [m.field for m in session.malformed] == ["metadata.annotations[volcano.sh/resource-strategy-weight]"]


def test_an_asterisk_alone_is_reported_and_ignored() -> None:
    session = opened(TWO[0], waiting("1c"), resources={"*": {"type": "MostAllocated"}})
    assert scores(session) == [750.0], "the default"
    assert any("resources.*" in problem for problem in session.problems)


def test_resources_of_a_wrong_type_are_reported_and_the_default_applies() -> None:
    session = opened(TWO[0], waiting("1c"), resources=["cpu"])
    assert scores(session) == [750.0]
    assert any("argument resources: " in problem for problem in session.problems)


def test_annotations_of_a_pod_override_the_strategy() -> None:
    own = waiting("1c", scoring_type="MostAllocated", weight='{"cpu": 3}')
    assert scores(opened(TWO[0], own)) == [250.0]


@pytest.mark.parametrize(
    ("annotations", "key"),
    [
        ({"scoring_type": "MostAllocated"}, "weight"),
        ({"scoring_type": "MostAllocated", "weight": "cpu=3"}, "weight"),
        ({"scoring_type": "Middling", "weight": "{}"}, "scoring-type"),
    ],
)
def test_an_invalid_strategy_of_a_pod_is_reported_and_scores_zero(annotations: dict[str, str], key: str) -> None:
    session = opened(TWO[0], waiting("1c", **annotations))
    assert scores(session) == [0.0]
    assert [m.field for m in session.malformed] == [f"metadata.annotations[volcano.sh/resource-strategy-{key}]"]


# --- scarce resources ---
def sra(**more: Any) -> dict[str, Any]:
    given = {"enable": True, "resources": f"{GPU}, rdma/hca", "weight": 10, **more}
    return {"resourceStrategyFitWeight": 0, "sra": given}


def test_nodes_score_by_the_scarce_resources_that_they_lack() -> None:
    nodes = [node("n1", "4c"), node("n2", f"4c+{GPU}=1"), node("n3", f"4c+{GPU}=1+rdma/hca=1")]
    assert scores(opened(nodes, waiting("1c"), **sra())) == [1000.0, 500.0, 0.0]
    assert scores(opened(nodes, waiting("1c"), **sra(resourceWeight={GPU: 3}))) == [1000.0, 250.0, 0.0]


def test_a_node_without_a_requested_resource_scores_zero() -> None:
    nodes = [node("n1", "4c"), node("n2", f"4c+{GPU}=1")]
    assert scores(opened(nodes, waiting(f"1c+{GPU}=1"), **sra())) == [0.0, 500.0]


def test_the_scarcity_score_requires_enable_and_a_weight() -> None:
    assert scores(opened(node("n1", "4c"), waiting("1c"), **sra(enable=False))) == [0.0]
    assert scores(opened(node("n1", "4c"), waiting("1c"), **sra(weight=0))) == [0.0]


# --- proportions ---
def proportional(**rates: float) -> Any:
    named = {f"{GPU}.{key}": rate for key, rate in rates.items()}
    arguments = {"proportional": {"enable": True, "resources": GPU, "resourceProportion": named}}
    return configuration(
        ["gang"], ["predicates", "resource-strategy-fit"], arguments={"resource-strategy-fit": arguments}
    )


def jobs(number: int, asks: str) -> list[Raw]:
    return [group("a", phase="Inqueue"), *(pod(f"a-{i}", asks, "a") for i in range(number))]


def test_pods_without_cards_leave_cpu_for_idle_cards() -> None:
    world = World(node("n1", f"16c+64Gi+{GPU}=2"), jobs(10, "2c")).run(proportional(cpu=4))
    assert len(world.bound) == 4
    expected = f"1 proportional of resource {GPU} check failed"
    assert any(expected in message for message in world.events("FailedScheduling"))


def test_pods_without_cards_leave_memory_for_idle_cards() -> None:
    world = World(node("n1", f"64c+10G+{GPU}=2"), jobs(10, "1G")).run(proportional(cpu=0, memory=4))
    assert len(world.bound) == 2, "two cards need 4 GB each"


def test_pods_with_cards_are_not_limited_by_proportions() -> None:
    assert len(World(node("n1", f"16c+64Gi+{GPU}=2"), jobs(1, f"16c+{GPU}=1")).run(proportional(cpu=4)).bound) == 1


def test_nodes_without_cards_are_not_limited_by_proportions() -> None:
    assert (
        len(World(node("n1", "16c+64Gi"), node("n2", f"1c+1Gi+{GPU}=1"), jobs(8, "2c")).run(proportional()).bound) == 8
    )
