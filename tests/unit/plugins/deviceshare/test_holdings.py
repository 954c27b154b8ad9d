"""Forged annotations neither reserve nor release parts of cards."""

from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.api.names import ASCEND_REAL, EVENT_DEVICES_DISAGREE, GPU_INDEX, NPU_CORE, VGPU_IDS
from scheduler.api.signed_records import SigningKey
from scheduler.framework.configuration import Configuration
from scheduler.plugins.deviceshare.cards import Cards
from scheduler.plugins.deviceshare.plugin import DeviceShare
from tests.builders import Raw, World, feed
from tests.unit.plugins.deviceshare.devices import (
    GPU_SHARING,
    HAMI,
    HELD_NPUS,
    MINDCLUSTER,
    VGPU,
    chip_list,
    chip_node,
    gpu_node,
    jobs,
    limited,
    npu_node,
    slice_of,
    vgpu_node,
    vgpu_pods,
)

KEY = SigningKey(b"k" * 32, created=1_000.0)
BOTH = "n-0,NVIDIA,9000,90:n-1,NVIDIA,9000,90:"


def cards(world: World, plan: Configuration = VGPU) -> Cards:
    (ledger,) = next(p for p in world.session(plan).plugins if isinstance(p, DeviceShare)).ledgers
    return ledger.cards(0, later=False)


def warned(world: World, plan: Configuration = VGPU) -> list[str]:
    problems = [p for p in world.session(plan).malformed if p.reason == EVENT_DEVICES_DISAGREE]
    return [f"{p.name} {p.message}" for p in problems]


def used(world: World, plan: Configuration = VGPU) -> list[tuple[int, int]]:
    """The (memory, cores) in use on each card."""
    return [(card.used_memory, card.used_cores) for card in cards(world, plan)]


def test_annotations_of_a_pod_that_requests_no_card_are_ignored() -> None:
    world = World(vgpu_node("n"), limited("claimant", {}, on="n", annotations={VGPU_IDS: BOTH}))
    assert used(world) == [(0, 0), (0, 0)]
    assert "asked for nothing of vGPUs; annotated with n-0 (memory 9000, cores 90)" in warned(world)[0]


def test_a_pod_counts_with_no_more_than_its_request() -> None:
    world = World(vgpu_node("n"), limited("p", slice_of(1, 1000, 10), on="n", annotations={VGPU_IDS: BOTH}))
    assert used(world) == [(1000, 10), (0, 0)]
    assert len(warned(world)) == 1


@pytest.mark.parametrize(
    ("plan", "node", "asks", "annotations", "held"),
    [
        (GPU_SHARING, [gpu_node("n", 2, 100)], {"volcano.sh/gpu-memory": 10}, {GPU_INDEX: "1,0"}, [(0, 0), (10, 0)]),
        (
            HAMI,
            [npu_node("n", 2)],
            {"huawei.com/Ascend310P": 1, "huawei.com/Ascend310P-memory": 3072},
            {HELD_NPUS: "n-0,Ascend310P,21527,0:n-1,Ascend310P,21527,0:;"},
            [(3072, 0), (0, 0)],
        ),
        (MINDCLUSTER, [chip_node("n", 2), chip_list("n", [0, 1])], {NPU_CORE: 8}, {NPU_CORE: "1,0"}, [(0, 0), (7, 8)]),
    ],
    ids=["GPUs by memory", "NPUs of HAMi", "NPUs of MindCluster"],
)
def test_in_all_families_a_pod_counts_with_no_more_than_its_request(
    plan: Configuration, node: list[Raw], asks: Mapping[str, int], annotations: dict[str, str], held: Any
) -> None:
    labels = {"ring-controller.atlas": "ascend-310P"}
    world = World(node, limited("p", asks, on="n", annotations={ASCEND_REAL: "x", **annotations}, labels=labels))
    assert [cores for _, cores in used(world, plan)] == [cores for _, cores in held]
    assert [bool(memory) for memory, _ in used(world, plan)] == [bool(memory) for memory, _ in held]
    assert len(warned(world, plan)) == 1


def bound_pod() -> World:
    """A vGPU Pod on card n-1 that this process bound."""
    return World(vgpu_node("n"), jobs(*vgpu_pods(1, 1, 4000, 40))).run(VGPU)


def rewritten(world: World, ids: str | None) -> World:
    raw = dict(world.get("Pod", "p-0"))
    kept = {**raw["metadata"]["annotations"], VGPU_IDS: ids}
    raw["metadata"] = {**raw["metadata"], "annotations": {k: v for k, v in kept.items() if v is not None}}
    feed(world.cluster.cache, raw)
    return world


def test_a_pod_counts_with_its_record_after_its_annotation_is_removed() -> None:
    world = rewritten(bound_pod(), None)
    assert used(world) == [(0, 0), (4000, 40)]
    (warning,) = warned(world)
    assert "bound to node n with n-1 (memory 4000, cores 40), annotated with none" in warning


def test_after_a_rewritten_annotation_both_lists_count() -> None:
    assert used(rewritten(bound_pod(), "n-0,NVIDIA,10000,100:")) == [(4000, 40), (4000, 40)]


def test_a_restored_annotation_still_counts_both_lists() -> None:
    ids = bound_pod().get("Pod", "p-0")["metadata"]["annotations"][VGPU_IDS]
    assert used(rewritten(rewritten(bound_pod(), "n-0,NVIDIA,10000,100:"), ids)) == [(4000, 40), (4000, 40)]


def test_annotations_that_match_the_record_cause_no_warning() -> None:
    assert used(bound_pod()) == [(0, 0), (4000, 40)]
    assert warned(bound_pod()) == []


def test_a_pod_without_its_expected_record_counts_on_every_card() -> None:
    world = World(vgpu_node("n"))
    world.cluster.cache.set_signing_key(KEY)
    unproven = limited("p", slice_of(1, 4000, 40), on="n", annotations={VGPU_IDS: "n-0,NVIDIA,4000,40:"})
    unproven["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
    feed(world.cluster.cache, unproven)
    assert used(world) == [(4000, 40), (4000, 40)]
    assert "has no record that the scheduler signed" in warned(world)[0]
