"""preempt and reclaim free chips of one ring or card: no Pod is evicted whose chips do not help."""

import pytest

from scheduler.api.names import ASCEND_910
from tests.builders import Raw, World, configuration, group, queue
from tests.unit.plugins.ascend.chips import names, npu_node, npu_pod

CLASSES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    for name, value in (("high", 1000), ("low", 1))
]


def evicted(action: str, chips: int, held: list[list[int]], *, queue_of_victims: str = "default") -> set[str]:
    """The Pods that are evicted for a Pod of ``chips`` chips. Pod ``v<first chip>`` holds each list of chips."""
    tiers = configuration(["priority", "gang"], ["ascend", "proportion"], actions=f"allocate, {action}")
    victims: list[Raw] = [group("low", queue_of_victims, 1, phase="Running", priority_class="low")]
    for ids in held:
        annotations = {ASCEND_910: names(ids), "volcano.sh/preemptable": "true"}
        victims.append(npu_pod(f"v{ids[0]}", len(ids), "low", on="n", annotations=annotations))
    queues = [queue("default"), queue("other")]
    preemptor = [group("high", minimum=1, phase="Inqueue", priority_class="high"), npu_pod("p", chips, "high")]
    return World(CLASSES, queues, npu_node("n"), victims, preemptor).run(tiers).evicted


@pytest.mark.parametrize(("action", "others"), [("preempt", "default"), ("reclaim", "other")])
@pytest.mark.parametrize(
    ("chips", "held", "rings"),
    [
        (2, [[i] for i in (0, 4, 1, 5, 2, 6, 3, 7)], [{0, 1, 2, 3}, {4, 5, 6, 7}]),
        (4, [[i] for i in (0, 4, 1, 5, 2, 6, 3, 7)], [{0, 1, 2, 3}, {4, 5, 6, 7}]),
        (2, [[i] for i in (4, 1, 5, 2, 6, 3, 7)], [{0, 1, 2, 3}, {4, 5, 6, 7}]),
    ],
)
def test_the_evicted_pods_hold_just_the_chips_of_one_ring(
    action: str, others: str, chips: int, held: list[list[int]], rings: list[set[int]]
) -> None:
    gone = {int(name[1:]) for name in evicted(action, chips, held, queue_of_victims=others)}
    free = set(range(8)) - {i for ids in held for i in ids}
    assert any(len((gone | free) & ring) >= chips and len(gone - ring) == 0 for ring in rings)
    assert len(gone) + len(free) <= chips
