"""The scores of kube-scheduler: their values, and the nodes that they select."""

from typing import Any

import numpy as np
import pytest

from scheduler.api.task import TaskClass
from scheduler.framework.columns import GroupedScore
from scheduler.framework.session import Session
from tests.builders import Raw, World, configuration, group, node, pod, pods

OFF = {
    "leastrequested.weight": 0,
    "balancedresource.weight": 0,
    "nodeaffinity.weight": 0,
    "podaffinity.weight": 0,
    "tainttoleration.weight": 0,
    "imagelocality.weight": 0,
    "podtopologyspread.weight": 0,
}


def conf(**weights: int) -> Any:
    """A configuration with only the given scores enabled."""
    chosen = {f"{name}.weight": weight for name, weight in weights.items()}
    return configuration(["gang"], ["nodeorder"], arguments={"nodeorder": OFF | chosen})


def scores(world: World, name: str = "p", ahead: int | None = None, **weights: int) -> dict[str, float]:
    """Returns node -> score for a pending Pod."""
    session = world.session(conf(**weights))
    job, cls = _class_of(session, name)
    rows = np.arange(len(session.nodes))
    total = np.zeros(len(rows))
    for score in session.scores(cls, job):
        total += score.values(rows, None if ahead is None else np.full(len(rows), ahead))
    return dict(zip(session.nodes.names, total.tolist(), strict=True))


def _class_of(session: Session, name: str) -> tuple[Any, TaskClass]:
    for job in session.jobs.values():
        for task in job.tasks():
            if task.name == name:
                return job, task.cls
    raise LookupError(name)


def test_least_requested_is_the_mean_of_the_free_fractions_truncated_to_integers() -> None:
    world = World(
        node("n1", "10c+10Gi"), node("n2", "10c+10Gi"), pod("r", "3c+1Gi", on="n2"), group("g"), pod("p", "1c+2Gi", "g")
    )

    assert scores(world, leastrequested=1) == {"n1": (90 + 80) // 2, "n2": (60 + 70) // 2}


def test_a_container_without_requests_counts_with_default_requests() -> None:
    world = World(node("n1", "1c+1000Mi"), group("g"), pod("p", "", "g"))

    assert scores(world, leastrequested=1) == {"n1": (90 + 80) // 2}


def test_most_requested_is_the_mean_of_the_used_fractions() -> None:
    world = World(node("n1", "10c+10Gi"), node("n2", "2c+4Gi"), group("g"), pod("p", "1c+1Gi", "g"))

    assert scores(world, mostrequested=2) == {"n1": 20.0, "n2": 2.0 * ((50 + 25) // 2)}


@pytest.mark.parametrize(
    ("asks", "expected"),
    [
        # The balance before is 100 on the empty node, and 80 where only cpu is used.
        ("1c+1Gi", {"empty": 75, "cpu-heavy": 75}),
        ("0c+4Gi", {"empty": 65, "cpu-heavy": 85}),
    ],
)
def test_balanced_allocation_scores_the_change_of_balance_and_75_without_change(
    asks: str, expected: dict[str, int]
) -> None:
    world = World(
        node("empty", "10c+10Gi"),
        node("cpu-heavy", "10c+10Gi"),
        pod("r", "4c", on="cpu-heavy"),
        group("g"),
        pod("p", asks, "g"),
    )

    assert scores(world, balancedresource=1) == expected


def test_pipelined_tasks_count_for_balanced_allocation() -> None:
    world = World(node("n", "4c+4Gi"), group("g"), pod("p", "1c", "g"), pod("q", "2Gi", "g"))
    session = world.session(conf(balancedresource=1))
    job, cls = _class_of(session, "p")
    (score,) = session.scores(cls, job)
    before = float(score.values(np.arange(1), None)[0])

    session.statement().pipeline(job, next(task for task in job.tasks() if task.name == "q"), 0)

    assert (before, float(score.values(np.arange(1), None)[0])) == (68.0, 81.0)


def test_a_score_ahead_equals_the_score_after_placing() -> None:
    nodes = [node("n1", "10c+20Gi"), node("n2", "7c+9Gi")]
    weights = {"leastrequested": 1, "mostrequested": 2, "balancedresource": 3}
    empty = World(nodes, group("g"), pods("p", 2, "1c+2Gi", "g"))
    for placed in range(4):
        filled = World(
            nodes,
            group("g"),
            [pod(f"r{i}-{n}", "1c+2Gi", on=n) for i in range(placed) for n in ("n1", "n2")],
            pods("p", 2, "1c+2Gi", "g"),
        )
        assert scores(empty, "p-0", ahead=placed, **weights) == scores(filled, "p-0", **weights)


def preferred(weight: int, value: str) -> Raw:
    return {
        "weight": weight,
        "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": [value]}]},
    }


def test_preferred_node_affinity_is_scaled_to_the_best_candidate() -> None:
    affinity = {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred(80, "b"), preferred(20, "c")]}
    }
    nodes = [node("n1"), node("n2", labels={"zone": "b"}), node("n3", labels={"zone": "c"})]

    world = World(nodes, group("g"), pod("p", "1c", "g", affinity=affinity))

    assert scores(world, nodeaffinity=2) == {"n1": 0.0, "n2": 200.0, "n3": 50.0}


def test_fewer_prefer_no_schedule_taints_score_higher_and_without_taints_there_is_no_score() -> None:
    soft = [{"key": f"k{i}", "effect": "PreferNoSchedule"} for i in range(2)]
    nodes = [node("n1"), node("n2", taints=soft[:1]), node("n3", taints=soft)]

    world = World(nodes, group("g"), pod("p", "1c", "g"))

    assert scores(world, tainttoleration=3) == {"n1": 300.0, "n2": 150.0, "n3": 0.0}
    assert scores(World(node("n1"), group("g"), pod("p", "1c", "g")), tainttoleration=3) == {"n1": 0.0}


def test_preferred_pod_affinity_is_scaled_to_the_candidates() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "podAffinityTerm": term}]}
    nodes = [node("a1", labels={"zone": "a"}), node("b1", labels={"zone": "b"}), node("c1", labels={"zone": "c"})]
    web = [pod("w", on="a1", labels={"app": "web"}), *[pod(f"v{i}", on="b1", labels={"app": "web"}) for i in range(2)]]

    near = World(nodes, web, group("g"), pod("p", "1c", "g", affinity={"podAffinity": preferred}))
    far = World(nodes, web, group("g"), pod("p", "1c", "g", affinity={"podAntiAffinity": preferred}))

    assert scores(near, podaffinity=1) == {"a1": 50.0, "b1": 100.0, "c1": 0.0}
    assert scores(far, podaffinity=1) == {"a1": 50.0, "b1": 0.0, "c1": 100.0}


def test_the_preferred_terms_of_existing_pods_count() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "new"}}, "topologyKey": "zone"}
    preferred = {
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm": term}]}
    }
    nodes = [node("a1", labels={"zone": "a"}), node("b1", labels={"zone": "b"})]

    world = World(
        nodes, pod("old", on="b1", affinity=preferred), group("g"), pod("p", "1c", "g", labels={"app": "new"})
    )

    assert scores(world, podaffinity=1) == {"a1": 0.0, "b1": 100.0}


def test_schedule_anyway_constraints_spread_pods_evenly() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "s"}},
    }
    world = World(
        [node(f"n{i}", "9c") for i in range(3)],
        group("g", minimum=6),
        pods("p", 6, "1c", "g", labels={"app": "s"}, topologySpreadConstraints=[constraint]),
    ).run(conf(podtopologyspread=1))

    assert sorted(list(world.bound.values()).count(f"n{i}") for i in range(3)) == [2, 2, 2]


def test_an_image_counts_by_its_size_and_the_fraction_of_nodes_that_have_it() -> None:
    mebibyte = 1024 * 1024
    nodes = [node("n1"), node("n2")]
    nodes[1]["status"]["images"] = [{"names": ["registry.example/train:latest"], "sizeBytes": 1000 * mebibyte}]
    body = [{"name": "main", "image": "registry.example/train"}]

    world = World(nodes, group("g"), pod("p", "", "g", containers=body))

    assert scores(world, imagelocality=1) == {"n1": 0.0, "n2": float(100 * (500 - 23) // (1000 - 23))}


def test_an_image_scores_equally_on_all_nodes_that_have_it() -> None:
    mebibyte = 1024 * 1024
    nodes = [node("n1"), node("n2"), node("n3"), node("n4")]
    for there in nodes[:2]:
        there["status"]["images"] = [{"names": ["train:v1"], "sizeBytes": 1000 * mebibyte}]

    world = World(nodes, group("g"), pod("p", "", "g", containers=[{"name": "main", "image": "train:v1"}]))

    both = float(100 * (500 - 23) // (1000 - 23))
    assert scores(world, imagelocality=1) == {"n1": both, "n2": both, "n3": 0.0, "n4": 0.0}


def test_an_image_volume_counts_like_a_container_image() -> None:
    mebibyte = 1024 * 1024
    nodes = [node("n1"), node("n2")]
    nodes[1]["status"]["images"] = [{"names": ["registry.example/model:v1"], "sizeBytes": 1000 * mebibyte}]
    volume = {"name": "model", "image": {"reference": "registry.example/model:v1"}}

    world = World(nodes, group("g"), pod("p", "", "g", volumes=[volume]))

    assert scores(world, imagelocality=1) == {"n1": 0.0, "n2": float(100 * (500 - 23) // (1000 - 23))}


@pytest.mark.parametrize("key", ["kubernetes.io/hostname", "zone"])
def test_one_node_of_each_group_scores_like_all_nodes_of_the_group(key: str) -> None:
    """One of six nodes in two zones has selected Pods; a second constraint makes the score depend on the number of
    domains."""
    constraints = [
        {
            "maxSkew": 1,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels},
            "topologyKey": k,
        }
        for k, labels in ((key, {"app": "x"}), ("rack", {"app": "y"}))
    ]
    nodes = [node(f"n{i}", labels={"zone": "ab"[i % 2], "rack": "r" if i < 3 else "s"}) for i in range(6)]
    there = [pod("x1", on="n0", labels={"app": "x"}), pod("x2", on="n0", labels={"app": "x"})]
    others = [pod(f"y{i}", on="n5", labels={"app": "y"}) for i in range(3)]
    world = World(nodes, there, others, group("g"), pod("p", "", "g", topologySpreadConstraints=constraints))
    session = world.session(conf(podtopologyspread=1))
    job, cls = _class_of(session, "p")
    (score,) = session.scores(cls, job)
    assert isinstance(score, GroupedScore)
    rows = np.arange(6)
    traits = np.array(score.traits(rows))
    _, first, inverse, sizes = np.unique(traits, axis=1, return_index=True, return_inverse=True, return_counts=True)

    assert len(first) < len(rows)
    by_group = score.of_groups(rows[first], sizes)
    assert by_group[inverse].tolist() == score.values(rows, None).tolist()
    assert len(set(by_group.tolist())) > 1
