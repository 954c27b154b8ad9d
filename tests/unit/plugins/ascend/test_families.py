"""The choices of each family: worked examples, and properties for every mask of free chips."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.names import ACCELERATOR_TYPE, ASCEND_310, ASCEND_310P, ASCEND_710, ASCEND_910, NPU, SCHEDULE_POLICY
from scheduler.api.reasons import Refusal
from scheduler.plugins.ascend.families import FAMILIES
from scheduler.plugins.ascend.family import DISTRIBUTED, DUO, STRATEGY, UNFIT, ChipFamily, ChipPlacements, ChipRequest
from scheduler.plugins.ascend.masks import groups_of, ids_of, mask_of
from scheduler.plugins.ascend.resolve import resolve

BY_NAME: Final = {family.name: family for family in FAMILIES}
ALL16 = list(range(16))


def chosen(name: str, free: Iterable[int], chips: int, *, several: bool = False) -> list[int]:
    choice = BY_NAME[name].selection.choose(mask_of(free), ChipRequest(chips, several))
    return [] if choice is None else list(choice.chips)


# --- worked examples; an empty list: it does not fit ---
@pytest.mark.parametrize(
    ("family", "free", "chips", "taken"),
    [
        ("half_910_x4", [0, 2, 3], 2, [0, 2]),
        ("card_910_x2", [0, 1], 2, [0, 1]),
        ("card_910_x2", [1], 2, []),
        ("module_910b_x8", [0, 4, 7], 3, [0, 4, 7]),
        ("module_910b_x8", [2, 3, 5, 7], 2, [2, 3]),
        ("module_910b_x16", [0, 1, 2, 8, 9, 10, 11], 3, [0, 1, 2]),
        ("module_910b_x16", [0, 1, 2, 3, 8, 9, 10], 3, [8, 9, 10]),
        ("module_910b_x16", [*range(8), 8, 9, 10, 11, 12], 10, [0, 8, 1, 9, 2, 10, 3, 11, 4, 12]),
        ("module_910b_x16", ALL16, 16, ALL16),
        ("module_910b_x16", ALL16[1:], 16, []),
        ("module_910b_x16", [0, 1, 2, 3, 4, 11, 12, 13, 14, 15], 10, []),
        ("a3_x16", [0, 1, 3, 5], 2, [0, 1]),
        ("a3_x16", [0, 1, 3, 6, 7, 8, 9], 6, [0, 1, 6, 7, 8, 9]),
        ("a3_x16", [0, 1, 2, 3, 6, 7, 11], 1, [11]),
        ("a3_x16", [0, 2, 6, 11, 12, 13], 2, [12, 13]),
        ("a3_x16", [0, 1, 3, 5, 7], 4, []),
        ("card_310_x4", [0, 4, 5], 1, [0]),
        ("card_310_x4", [0, 1, 2, 4, 5], 1, [0]),
        ("card_310_x4", [0, 1, 4, 5, 6], 1, [4]),
        ("card_310_x4", [0, 1, 4, 5, 6, 7], 1, [0]),
        ("card_310_x4", [0, 1, 4], 3, []),
        ("card_310_x4", list(range(8)), 5, []),
        ("chip_310_x4", [0, 4, 5], 1, [0]),
        ("chip_310_x4", [0, 1, 4, 5, 6], 1, [0]),
        ("chip_310_x4", [1, 2, 3, 5, 8, 9], 5, [5, 8, 9, 1, 2]),
        ("base_310p", [5, 9, 63], 2, [5, 9]),
        ("card_310p_duo", [0, 2, 3], 1, [0]),
        ("card_310p_duo", [0, 2, 3], 2, [2, 3]),
        ("card_310p_duo", [0, 2], 2, []),
        ("chip_310p_duo", [0, 2], 2, [0, 2]),
        ("chip_310p_duo", [0, 1, 2], 2, [2, 0]),
        ("chip_310p_duo_distributed", [0, 2], 2, []),
        ("chip_310p_duo_distributed", [0, 2, 3], 3, [0, 2, 3]),
        ("chip_310p_duo_distributed", [0, 1, 2, 3], 3, [0, 1, 2]),
        ("chip_310p_duo_distributed", [0, 1, 2], 3, [2, 0, 1]),
        ("npu_mesh_x8", [0, 1, 4], 1, [4]),
        ("npu_mesh_x8", [0, 1, 2, 3, 4, 5], 2, [4, 5]),
        ("npu_mesh_x8", [0, 1, 2, 4, 5, 6, 7], 3, [0, 1, 2]),
        ("npu_mesh_x8", [0, 1, 4, 5], 1, [0]),
        ("npu_mesh_x8", [0, 4], 2, []),
        ("npu_mesh_x8", [0, 1, 2, 4, 5, 6], 5, [0, 1, 2, 4, 5]),
        ("npu_mesh_x16", [0, *range(4, 16)], 8, list(range(4, 12))),
        ("npu_mesh_x16", [0, 1, 2, *range(5, 12)], 8, []),
        ("npu_single_x8", [1, 4, 6, 7], 3, [1, 4, 6]),
        ("a5_superpod_x8", [1, 4, 5, 6], 3, [1, 4, 5]),
    ],
)
def test_worked_examples(family: str, free: list[int], chips: int, taken: list[int]) -> None:
    assert chosen(family, free, chips) == taken


@pytest.mark.parametrize(
    ("free", "chips", "penalty"),
    [([0, 2, 3], 1, 3), ([0, 1, 2, 3], 1, 10), ([0, 1, 2, 3], 4, 1), ([0, 1, 2, 3], 2, 3), ([0, *range(2, 10)], 1, 16)],
)
def test_distributed_requests_prefer_nodes_with_a_half_used_card(free: list[int], chips: int, penalty: int) -> None:
    choice = BY_NAME["chip_310p_duo_distributed"].selection.choose(mask_of(free), ChipRequest(chips))
    assert choice is not None
    assert choice.penalty == penalty


@pytest.mark.parametrize(
    ("free", "chips", "penalty"),
    [
        ([0, 1, 4], 2, 1),
        ([0, 1, 4, 5], 2, 8 + 2),
        ([0, 1, 2, 3, 4, 5], 4, 2),
        (list(range(8)), 4, 8 + 4),
        ([0, 1, 2, 4, 5, 6], 5, 1),
    ],
)
def test_meshes_prefer_nodes_with_the_fewest_that_would_do(free: list[int], chips: int, penalty: int) -> None:
    choice = BY_NAME["npu_mesh_x8"].selection.choose(mask_of(free), ChipRequest(chips))
    assert choice is not None
    assert choice.penalty == penalty


def test_chips_without_groups_are_used_on_larger_nodes_while_no_more_are_free() -> None:
    found = ChipPlacements(BY_NAME["half_910_x4"], ChipRequest(2))
    few, many = mask_of([1, 4, 6, 63]), mask_of([0, 1, 4, 6, 7])
    choice = found.choice(few)
    assert choice is not None and choice.chips == (1, 4)
    assert found.choice(many) is None
    masks = np.array([few, many, mask_of([9])], dtype=np.uint64)
    assert found.room(masks).tolist() == [2, 0, 0]
    assert found.penalty(masks, None).tolist() == [4, UNFIT, UNFIT]


def test_pairs_of_a_job_of_several_pods_need_not_face_each_other() -> None:
    free = [0, 1, 2, 3, 4, 11, 12, 13, 14, 15]
    assert chosen("module_910b_x16", free, 10, several=True) == [0, 11, 1, 12, 2, 13, 3, 14, 4, 15]


# --- what holds for every mask ---
def _some_chips(family: ChipFamily, free: int, chips: int, several: bool) -> bool:
    return free.bit_count() >= chips


def _one_group(family: ChipFamily, free: int, chips: int, several: bool) -> bool:
    return any(group.bit_count() >= chips for group in groups_of(free, family.group, family.chips))


def _ring_or_node(family: ChipFamily, free: int, chips: int, several: bool) -> bool:
    return free == 255 if chips == 8 else _one_group(family, free, chips, several)


def _half_or_pairs(family: ChipFamily, free: int, chips: int, several: bool) -> bool:
    if chips <= 8:
        return _one_group(family, free, chips, several)
    left, right = free & 255, free >> 8
    pairs = min(left.bit_count(), right.bit_count()) if several and chips < 16 else (left & right).bit_count()
    return 2 * pairs >= chips


def _full(free: int, size: int, chips: int) -> int:
    return sum(1 for group in groups_of(free, size, chips) if group.bit_count() == size)


def _dies(family: ChipFamily, free: int, chips: int, several: bool) -> bool:
    return (chips == 1 and free > 0) or 2 * _full(free, 2, family.chips) >= chips


def _distributed(family: ChipFamily, free: int, chips: int, several: bool) -> bool:
    half = int(2 * _full(free, 2, family.chips) < free.bit_count())
    return 2 * _full(free, 2, family.chips) + (half if chips % 2 else 0) >= chips


def _mesh(family: ChipFamily, free: int, chips: int, several: bool) -> bool:
    if chips <= 4:
        return _one_group(family, free, chips, several)
    return 4 * _full(free, 4, family.chips) >= chips if chips % 4 == 0 else free.bit_count() >= chips


FITS: Final[Mapping[str, Callable[[ChipFamily, int, int, bool], bool]]] = {
    "module_910_x8": _ring_or_node,
    "module_910b_x16": _half_or_pairs,
    "a3_x16": _dies,
    "a3_superpod_x16": _dies,
    "a3_superpod_x8": _dies,
    "card_310_x4": _one_group,
    "card_310p_duo": _one_group,
    "chip_310p_duo_distributed": _distributed,
    "npu_mesh_x8": _mesh,
    "npu_mesh_x16": _mesh,
}
"""Maps a family to whether a request fits; for other families, a request fits if enough chips are free."""


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@given(data=st.data())
def test_a_choice_is_made_of_free_chips_whenever_the_request_fits(family: ChipFamily, data: st.DataObject) -> None:
    free = data.draw(st.integers(0, (1 << family.chips) - 1))
    request = ChipRequest(data.draw(st.sampled_from(sorted(family.sizes))), data.draw(st.booleans()))
    choice = family.selection.choose(free, request)
    assert (choice is not None) == FITS.get(family.name, _some_chips)(family, free, *request)
    if choice is not None:
        assert len(set(choice.chips)) == len(choice.chips) == request.chips
        assert mask_of(choice.chips) & ~free == 0
        assert 0 <= choice.penalty < family.selection.penalties
        if request.chips <= family.group:
            assert len({chip // family.group for chip in choice.chips}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@given(data=st.data())
def test_the_table_of_a_request_says_what_choosing_one_by_one_gives(family: ChipFamily, data: st.DataObject) -> None:
    request = ChipRequest(data.draw(st.sampled_from(sorted(family.sizes))), data.draw(st.booleans()))
    masks = data.draw(st.lists(st.integers(0, (1 << family.chips) - 1), min_size=1, max_size=4))
    table = ChipPlacements(family, request)
    table.room(np.array([masks[-1]], dtype=np.uint64))
    counts = table.room(np.array(masks, dtype=np.uint64)).tolist()
    for mask, room in zip(masks, counts, strict=True):
        free, penalties = mask, list[int]()
        while (choice := family.selection.choose(free, request)) is not None:
            penalties.append(choice.penalty)
            free &= ~mask_of(choice.chips)
        assert room == len(penalties)
        ahead = np.arange(room + 1)
        assert table.penalty(np.full(room + 1, mask, dtype=np.uint64), ahead).tolist() == [*penalties, UNFIT]


@given(free=st.integers(0, 2**16 - 1), chips=st.integers(1, 8))
def test_a_half_is_chosen_that_keeps_the_fewest_chips(free: int, chips: int) -> None:
    choice = BY_NAME["module_910b_x16"].selection.choose(free, ChipRequest(chips))
    if choice is not None:
        half = choice.chips[0] // 8
        counts = [group.bit_count() for group in groups_of(free, 8, 16)]
        assert counts[half] == min(count for count in counts if count >= chips)
        assert half == counts.index(counts[half])


@given(free=st.integers(0, 2**64 - 1), chips=st.integers(1, 64))
def test_inference_cards_are_drained_from_the_fullest_on(free: int, chips: int) -> None:
    choice = BY_NAME["chip_310_x4"].selection.choose(free, ChipRequest(chips))
    if choice is not None:
        sizes = [len([c for c in ids_of(free) if c // 4 == chip // 4]) for chip in choice.chips]
        assert sizes == sorted(sizes)


# --- which family a job has ---
@pytest.mark.parametrize(
    ("resource", "policy", "traits", "family"),
    [
        (ASCEND_910, "", {}, "module_910_x8"),
        (ASCEND_910, "", {ACCELERATOR_TYPE: "module"}, "module_910_x8"),
        (ASCEND_910, "", {ACCELERATOR_TYPE: "half"}, "half_910_x4"),
        (ASCEND_910, "", {ACCELERATOR_TYPE: "card"}, "card_910_x2"),
        (ASCEND_910, "", {ACCELERATOR_TYPE: "card-910b-infer"}, "card_910_x2"),
        (ASCEND_910, "", {ACCELERATOR_TYPE: "module-910b-8"}, "module_910b_x8"),
        (ASCEND_910, "", {ACCELERATOR_TYPE: "module-910b-16"}, "module_910b_x16"),
        (ASCEND_910, "", {ACCELERATOR_TYPE: "module-a3-16"}, "a3_x16"),
        (ASCEND_910, "", {ACCELERATOR_TYPE: "module-a3-16-super-pod"}, "a3_superpod_x16"),
        (ASCEND_910, "chip2-node8-sp", {}, "a3_superpod_x8"),
        (ASCEND_910, "chip4-node4", {}, "half_910_x4"),
        (ASCEND_910, "chip1-node2", {ACCELERATOR_TYPE: "module"}, "card_910_x2"),
        (ASCEND_910, "chip8-node16", {}, "module_910b_x16"),
        (ASCEND_910, "chip2-node8", {}, "a3_x16"),
        (ASCEND_910, "chip4-node8", {}, "npu_mesh_x8"),
        (ASCEND_910, "unknown", {ACCELERATOR_TYPE: "half"}, "half_910_x4"),
        (NPU, "chip1-node8", {}, "npu_single_x8"),
        (NPU, "chip1-node16", {}, "npu_single_x16"),
        (NPU, "chip4-node16", {}, "npu_mesh_x16"),
        (NPU, "chip8-node8", {}, "module_910b_x8"),
        (ASCEND_310, "", {}, "chip_310_x4"),
        (ASCEND_310, "", {STRATEGY: "chip"}, "chip_310_x4"),
        (ASCEND_310, "", {STRATEGY: "card"}, "card_310_x4"),
        (ASCEND_310P, "", {}, "base_310p"),
        (ASCEND_310P, "", {STRATEGY: "card"}, "base_310p"),
        (ASCEND_310P, "", {DUO: "true", STRATEGY: "card"}, "card_310p_duo"),
        (ASCEND_310P, "", {DUO: "true"}, "chip_310p_duo"),
        (ASCEND_310P, "", {DUO: "true", DISTRIBUTED: "true"}, "chip_310p_duo_distributed"),
        (ASCEND_310P, "", {DUO: "true", STRATEGY: "other"}, "base_310p"),
        (ASCEND_710, "", {}, "base_310p"),
        (ASCEND_710, "", {DUO: "true"}, "base_310p"),
        (NPU, "unknown", {ACCELERATOR_TYPE: "half"}, "half_910_x4"),
    ],
)
def test_resource_policy_selector_and_labels_choose_the_family(
    resource: str, policy: str, traits: dict[str, str], family: str
) -> None:
    found = resolve(resource, {SCHEDULE_POLICY: policy} if policy else {}, traits)
    assert isinstance(found, ChipFamily)
    assert found.name == family


@pytest.mark.parametrize(
    ("resource", "policy", "traits"),
    [
        (ASCEND_910, "", {ACCELERATOR_TYPE: "nonsense"}),
        (ASCEND_910, "chip8-node8-ra64-sp", {}),
        (NPU, "", {}),
        (ASCEND_310, "", {STRATEGY: "other"}),
        ("huawei.com/Ascend999", "", {}),
    ],
)
def test_a_job_without_a_family_is_refused(resource: str, policy: str, traits: dict[str, str]) -> None:
    found = resolve(resource, {SCHEDULE_POLICY: policy} if policy else {}, traits)
    assert isinstance(found, Refusal)
    assert found.reason == "NotSupportPolicy"


def test_blocks_choose_super_pods() -> None:
    for kind, family in (("", "x16"), ("module-a3-16", "x16"), ("module-a3-8-super-pod", "x8")):
        found = resolve(ASCEND_910, {"sp-block": "16"}, {ACCELERATOR_TYPE: kind} if kind else {})
        assert isinstance(found, ChipFamily)
        assert found.name == f"a3_superpod_{family}"


def test_no_policy_chooses_two_families() -> None:
    for resource in (ASCEND_910, NPU):
        policies = [policy for family in FAMILIES if resource in family.resources for policy in family.policies]
        assert len(policies) == len(set(policies))


def test_the_order_of_the_families_decides_nothing_but_the_default_of_310p() -> None:
    for family in FAMILIES:
        assert family.traits or family.traits is None or family.name == "base_310p"
