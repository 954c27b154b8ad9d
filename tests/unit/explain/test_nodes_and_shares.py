"""More nodes raise the amounts that a queue may use if plugins divide the cluster. They are proposed although the Pods
of the job would find room on the existing nodes. More weight is proposed too."""

from typing import Any

import pytest

from scheduler.framework.configuration import Configuration
from tests.builders import Raw, configuration, gang, group, node, pod, pods, queue
from tests.unit.explain.small_clusters import DEFAULT, changes

GPU = "nvidia.com/gpu"


def wanting(queue_: str, number: int, asks: str = f"1c+{GPU}=1") -> list[Raw]:
    """Jobs that count in the shares of queues and find no node."""
    jobs = [group(f"w{i}", queue_) for i in range(number)]
    return jobs + [pod(f"w{i}-0", asks, f"w{i}", selector={"disk": "none"}) for i in range(number)]


def test_a_node_is_proposed_that_raises_what_the_queue_deserves() -> None:
    found = changes(
        "x", node("g", f"16c+24Gi+{GPU}=2"), node("p", "4c+8Gi"), queue("q1"), wanting("q1", 1),
        gang("x", 2, f"1c+{GPU}=1"), conf=DEFAULT,
    )  # fmt: skip
    assert found == ["1 node like g more"]


def test_more_weight_is_proposed_too_and_no_more_than_is_needed() -> None:
    """Of three GPUs, the queue deserves one and a half with weight 1, and two with weight 2."""
    found = changes(
        "x", node("g", f"16c+24Gi+{GPU}=3"), node("p", "4c+8Gi"), queue("q1"), wanting("q1", 2),
        gang("x", 2, f"1c+{GPU}=1"), conf=DEFAULT,
    )  # fmt: skip
    assert found[:2] == ["raise queue default's weight from 1 to 2", "1 node like g more"]


@pytest.mark.parametrize("action", ["reclaim", "gangreclaim"])
def test_weight_is_proposed_where_more_of_it_lets_the_queue_reclaim(action: str) -> None:
    conf = configuration(["priority", "gang"], ["predicates", "proportion"], actions=f"enqueue, allocate, {action}")
    held = [group("h", "q1", 0), *pods("h", 4, "1c", "h", on="n", annotations={"volcano.sh/preemptable": "true"})]
    found = changes("x", node("n", "4c+9Gi"), queue("q1"), queue("q2"), held, gang("x", 3, "1c", "q2"), conf=conf)
    assert "raise queue q2's weight from 1 to 3" in found


def test_no_weight_is_proposed_that_the_api_server_refuses() -> None:
    found = changes(
        "x", node("n", "4c+9Gi"), queue("q1", 65535), wanting("q1", 40, "1c"), queue("q2", 65535),
        gang("x", 3, "1c", "q2"), conf=DEFAULT,
    )  # fmt: skip
    assert not any("weight" in text for text in found)


def test_several_nodes_are_proposed_where_each_adds_a_part() -> None:
    """The queue has a quarter of the cluster: of 4 cpus one, of 12 three."""
    found = changes(
        "x", node("n", "4c+9Gi"), queue("q1", 3), wanting("q1", 40, "1c"), gang("x", 3, "1c"), conf=DEFAULT,
    )  # fmt: skip
    assert "2 nodes like n more" in found


@pytest.mark.parametrize(
    ("conf", "more"),
    [
        (configuration(["gang"], ["predicates", "overcommit"]), []),
        (configuration(["gang"], ["predicates", "capacity"]), [queue("other", guarantee="2c")]),
        (configuration(["gang"], ["predicates", "proportion"]), [queue("other", guarantee="2c")]),
    ],
    ids=["overcommit", "capacity", "proportion"],
)
@pytest.mark.parametrize("with_pods", [True, False])
def test_a_node_is_proposed_that_lets_the_queue_admit_the_job(
    conf: Configuration, more: list[Raw], with_pods: bool
) -> None:
    """Overcommit admits 1.2 times the cluster; guarantees of other queues reserve a part of it."""
    asked: Any = "4c" if more else "5c"
    job = [group("x", asks=asked), *pods("x", int(with_pods), "1c", "x")]
    nodes = [node("n", "4c+9Gi"), node("other", f"1c+1Gi+{GPU}=1", {"pool": "x"})]
    if not more:
        nodes = nodes[:1]
    found = changes("x", nodes, more, job, conf=conf)
    assert any(text.startswith("1 node like ") for text in found), found


def test_a_job_without_pods_gets_a_node_with_the_resources_that_it_announces() -> None:
    conf = configuration(["gang"], ["predicates", "overcommit"])
    job = group("x", asks=f"1c+{GPU}=3")
    found = changes("x", node("p", "4c+8Gi"), node("g", f"16c+24Gi+{GPU}=2"), job, conf=conf)
    assert "1 node like g more" in found
