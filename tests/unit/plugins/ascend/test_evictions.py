"""preempt and reclaim free chips of one ring or card: no Pod is evicted whose chips do not help."""

from collections.abc import Mapping
from random import Random

import pytest

from scheduler.api.names import ACCELERATOR_TYPE, ASCEND_310, ASCEND_310P, ASCEND_910, NPU, SCHEDULE_POLICY
from scheduler.framework.configuration import Configuration
from scheduler.plugins.ascend.family import ChipFamily, ChipRequest
from scheduler.plugins.ascend.masks import mask_of
from scheduler.plugins.ascend.resolve import resolve
from tests.builders import Raw, World, configuration, group, node, pod, queue
from tests.unit.plugins.ascend.chips import NODE

CLASSES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    for name, value in (("high", 1000), ("low", 1))
]
ACTIONS = {"preempt": "default", "gangpreempt": "default", "reclaim": "other", "gangreclaim": "other"}
"""Maps an action to the queue of the Pods that it evicts."""


def tiers(action: str) -> Configuration:
    return configuration(["priority", "gang"], ["ascend", "capacity"], actions=f"allocate, {action}")


def evicted(
    action: str,
    chips: int,
    held: list[list[int]],
    *,
    resource: str = ASCEND_910,
    size: int = 8,
    traits: Mapping[str, str] | None = None,
    kept: int | None = None,
) -> set[int]:
    """The chips of the Pods that are evicted for a Pod of ``chips`` chips. A Pod holds each list of chips on a node of
    ``size``. ``traits``: the traits of the family of all Pods; ``kept``: the chips that another queue deserves."""
    labels = dict(traits or {})
    selector = {ACCELERATOR_TYPE: labels.pop(ACCELERATOR_TYPE)} if ACCELERATOR_TYPE in labels else {}
    policy = {SCHEDULE_POLICY: labels.pop(SCHEDULE_POLICY)} if SCHEDULE_POLICY in labels else {}
    prefix = resource.removeprefix("huawei.com/")

    def member(name: str, number: int, job: str, ids: list[int], on: str = "") -> Raw:
        listed = {resource: ",".join(f"{prefix}-{i}" for i in ids)} if ids else {}
        annotations = {**listed, **policy, "volcano.sh/preemptable": "true"}
        asks = f"1c+1Gi+{resource}={number}"
        return pod(name, asks, job, on=on, annotations=annotations, labels=labels, selector=selector)

    there = node("n", f"{NODE}+{resource}={size}", labels={**selector, "infer-card-type": "card-300i-duo"})
    victims = [group("low", ACTIONS[action], 0, phase="Running", priority_class="low")]
    victims += [member(f"v{ids[0]}", len(ids), "low", ids, "n") for ids in held]
    other = queue("other") if kept is None else queue("other", deserved=f"0c+0Gi+{resource}={kept}")
    queues = [queue("default", deserved=f"64c+512Gi+{resource}={size}"), other]
    preemptor = [group("high", minimum=1, phase="Inqueue", priority_class="high"), member("p", chips, "high", [])]
    gone = World(CLASSES, queues, there, victims, preemptor).run(tiers(action)).evicted
    return {i for ids in held if f"v{ids[0]}" in gone for i in ids}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("chips", [1, 2, 4])
@pytest.mark.parametrize("order", [(0, 4, 1, 5, 2, 6, 3, 7), (4, 1, 5, 2, 6, 3, 7)])
def test_the_evicted_pods_hold_just_the_chips_of_one_ring(action: str, chips: int, order: tuple[int, ...]) -> None:
    gone = evicted(action, chips, [[i] for i in order])
    room = gone | (set(range(8)) - set(order))
    if chips == 1 and len(order) < 8:
        assert not gone
    else:
        assert len({i // 4 for i in gone}) == 1
        assert max(len(room & {0, 1, 2, 3}), len(room & {4, 5, 6, 7})) == chips


@pytest.mark.parametrize("action", ["reclaim", "gangreclaim"])
@pytest.mark.parametrize("chips", [2, 4])
def test_what_a_queue_may_lose_is_not_spread_over_rings(action: str, chips: int) -> None:
    gone = evicted(action, chips, [[i] for i in (0, 4, 1, 5, 2, 6, 3, 7)], kept=8 - chips)
    assert len(gone) == chips
    assert len({i // 4 for i in gone}) == 1


FAMILIES = [
    (ASCEND_910, 8, {ACCELERATOR_TYPE: "half"}, (1, 2, 4)),
    (ASCEND_910, 8, {ACCELERATOR_TYPE: "module-910b-8"}, (1, 3, 8)),
    (ASCEND_910, 16, {ACCELERATOR_TYPE: "module-910b-16"}, (2, 8, 10, 16)),
    (ASCEND_910, 16, {ACCELERATOR_TYPE: "module-a3-16"}, (1, 2, 6, 16)),
    (ASCEND_910, 8, {ACCELERATOR_TYPE: "card"}, (1, 3, 8)),
    (ASCEND_310, 8, {}, (1, 5)),
    (ASCEND_310P, 8, {"duo": "true", "distributed": "true"}, (1, 2, 3, 6)),
    (NPU, 8, {SCHEDULE_POLICY: "chip4-node8"}, (1, 3, 4, 6, 8)),
    (NPU, 16, {SCHEDULE_POLICY: "chip4-node16"}, (2, 8, 12)),
    (NPU, 8, {SCHEDULE_POLICY: "chip1-node8"}, (1, 5)),
    (ASCEND_310, 8, {"npu-310-strategy": "card"}, (1, 2, 4)),
    (ASCEND_310P, 8, {"duo": "true", "npu-310-strategy": "card"}, (1, 2)),
    (ASCEND_310P, 8, {"duo": "true"}, (1, 4)),
    (ASCEND_310P, 8, {}, (1, 5)),
]


@pytest.mark.slow
@pytest.mark.parametrize("action", ["preempt", "reclaim"])
@pytest.mark.parametrize(("resource", "size", "traits", "sizes"), FAMILIES)
def test_in_every_family_each_evicted_pod_is_needed(
    action: str, resource: str, size: int, traits: dict[str, str], sizes: tuple[int, ...]
) -> None:
    policy = {SCHEDULE_POLICY: traits[SCHEDULE_POLICY]} if SCHEDULE_POLICY in traits else {}
    family = resolve(resource, policy, traits)
    assert isinstance(family, ChipFamily)
    size = min(size, family.chips)
    random = Random(f"{action} {family.name}")
    for _ in range(8):
        ids = random.sample(range(size), size)
        held = [[i] for i in ids[: random.randint(size - 2, size)]]
        chips = random.choice(sizes)
        if chips > size:
            continue
        free = mask_of(tuple(set(range(size)) - {i for (i,) in held}))
        gone = evicted(action, chips, held, resource=resource, size=size, traits=traits)
        assert family.selection.choose(free | mask_of(tuple(gone)), ChipRequest(chips)) is not None
        for i in gone:
            assert family.selection.choose(free | mask_of(tuple(gone - {i})), ChipRequest(chips)) is None


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_no_pod_is_evicted_for_a_block_of_a_super_pod(action: str) -> None:
    traits = {ACCELERATOR_TYPE: "module-a3-16-super-pod"}
    for chips in (2, 16):
        assert not evicted(action, chips, [[i, i + 1] for i in range(0, 16, 2)], size=16, traits=traits)
