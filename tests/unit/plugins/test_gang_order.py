"""gang: a gang that is below its minimum and holds nodes comes first among jobs of its priority."""

from typing import Any

import pytest

from scheduler.framework.configuration import Configuration
from tests.builders import Raw, World, configuration, gang, group, node, pod, pods

NODES = [node(f"n{i}", "4c") for i in (1, 2, 3)]
CLASSES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": n}, "value": v}
    for n, v in (("low", 10), ("high", 1000))
]
USUAL = (["priority", "gang"], ["drf", "predicates", "proportion", "nodeorder"])


def broken(name: str = "old", minimum: int = 3, **more: Any) -> list[Raw]:
    """A gang with one Pod on each of n1 and n2, and one that waits."""
    return [
        group(name, minimum=minimum, phase="Running", **more),
        pod(f"{name}-0", "4c", name, on="n1"),
        pod(f"{name}-1", "4c", name, on="n2"),
        pod(f"{name}-2", "4c", name),
    ]


def fresh(**more: Any) -> list[Raw]:
    return [group("fresh", phase="Inqueue", **more), pod("fresh-0", "4c", "fresh")]


def bound(conf: Configuration, *objects: Any) -> list[str]:
    return sorted(bind.task.name for bind in World(*NODES, CLASSES, *objects).run(conf).decisions.binds)


def test_a_gang_below_its_minimum_that_holds_nodes_comes_first() -> None:
    assert bound(configuration(*USUAL), fresh(), broken()) == ["old-2"]


@pytest.mark.parametrize(
    "tiers",
    [
        (["gang", "priority"], ["drf", "predicates"]),
        (["priority"], ["drf", "gang", "predicates"]),
        (["drf"], ["predicates"], ["gang"]),
        (["priority", "drf", "gang", "predicates"],),
    ],
)
def test_it_comes_first_wherever_the_plugins_stand(tiers: tuple[list[str], ...]) -> None:
    assert bound(configuration(*tiers), fresh(), broken()) == ["old-2"]


@pytest.mark.parametrize("tiers", [USUAL, (["gang", "priority"], ["drf", "predicates"])])
def test_a_job_of_higher_priority_comes_before_it(tiers: tuple[list[str], ...]) -> None:
    assert bound(configuration(*tiers), fresh(priority_class="high"), broken(priority_class="low")) == ["fresh-0"]


def test_without_the_job_order_of_priority_it_comes_first_of_all() -> None:
    conf = configuration({"priority": {"enableJobOrder": False}, "gang": {}, "drf": {}, "predicates": {}})
    assert bound(conf, fresh(priority_class="high"), broken(priority_class="low")) == ["old-2"]


def test_an_argument_orders_it_like_other_jobs_below_their_minimum() -> None:
    conf = configuration(*USUAL, arguments={"gang": {"incompleteFirst": False}})
    assert bound(conf, fresh(), broken()) == ["fresh-0"]


def test_without_the_job_order_of_gang_other_plugins_decide() -> None:
    conf = configuration({"priority": {}, "gang": {"enableJobOrder": False}}, ["drf", "predicates"])
    assert bound(conf, fresh(), broken()) == ["fresh-0"]


def test_a_gang_that_has_its_minimum_does_not_come_first() -> None:
    assert bound(configuration(*USUAL), fresh(), broken(minimum=2)) == ["fresh-0"]


def test_a_gang_whose_pods_all_terminate_does_not_come_first() -> None:
    waiting: list[Raw] = [group("old", phase="Running"), pod("old-0", "1c", "old", on="n1", deleting=True)]
    taken: list[Raw] = [pod(f"taken-{n}", "4c", on=n, phase="Running") for n in ("n2", "n3")]
    objects: list[Raw] = [*gang("fresh", 1, "4c"), *waiting, pod("old-1", "4c", "old"), *taken]
    world = World(node("n1", "5c"), NODES[1:], objects).run(configuration(["priority", "gang"], ["predicates"]))
    assert [bind.task.name for bind in world.decisions.binds] == ["fresh-0"]


def test_a_gang_that_lacks_a_role_comes_first() -> None:
    members = [
        group("old", minimum=2, roles={"master": 1, "worker": 1}, phase="Running"),
        pod("old-worker-0", "4c", "old", on="n1", role="worker"),
        pod("old-worker-1", "4c", "old", on="n2", role="worker"),
        pod("old-master-0", "4c", "old", role="master"),
    ]
    assert bound(configuration(*USUAL), fresh(), members) == ["old-master-0"]


def test_a_gang_that_cannot_be_completed_keeps_no_node_from_others() -> None:
    lacking = [group("old", minimum=4, phase="Running"), pod("old-0", "4c", "old", on="n1")]
    conf = configuration(["priority", "gang"], ["drf", "predicates"])
    assert bound(conf, fresh(), lacking, pods("old-new", 3, "4c", "old")) == ["fresh-0"]
