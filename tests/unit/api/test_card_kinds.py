"""The naming rule of cards: each kind of parts has names of its own."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.card_kinds import (
    KINDS,
    MIG,
    MPS,
    SHARE,
    VGPU,
    VNPU,
    CardKind,
    kind_of,
    memory_text,
    mib_of,
    mig_part,
    mps_part,
    normal_name,
    share_part,
    static_resources,
    template_of,
    title_of,
    vgpu_part,
    vnpu_part,
)
from scheduler.api.cards import is_card_name
from scheduler.playground.families import FAMILIES

MODELS = st.from_regex(re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII), fullmatch=True)
NUMBERS = st.integers(0, 200_000)
PARTS: dict[CardKind, st.SearchStrategy[str]] = {
    MPS: st.builds(mps_part, NUMBERS, NUMBERS),
    MIG: st.builds(mig_part, st.from_regex(re.compile(r"[1-7]g\.[0-9]{1,3}gb(\.me)?", re.ASCII), fullmatch=True)),
    VGPU: st.builds(vgpu_part, NUMBERS, st.integers(0, 100), st.integers(0, 100)),
    VNPU: st.builds(vnpu_part, st.text(min_size=1, max_size=80)),
    SHARE: st.builds(share_part, st.integers(0, 100), NUMBERS),
}


@pytest.mark.parametrize(
    ("card", "kind", "title"),
    [
        ("NVIDIA-H200", None, "whole card"),
        ("NVIDIA-H800/mps-80g*1/2", MPS, "MPS"),
        ("NVIDIA-H200/mig-1g.18gb-mixed", MIG, "MIG 1g.18gb"),
        ("NVIDIA-A100/vgpu-8g-30c", VGPU, "vGPU 8g-30c"),
        ("NVIDIA-A100/vgpu-50p", VGPU, "vGPU 50p"),
        ("Ascend910B3/vnpu-vir05_1c_16g", VNPU, "vNPU vir05_1c_16g"),
        ("Ascend910B3/share-25c-16g", SHARE, "shared NPU 25c-16g"),
        ("PPU-ZW810E/slice-2", None, "slice-2"),
    ],
)
def test_a_name_says_what_it_is_for(card: str, kind: CardKind | None, title: str) -> None:
    assert (kind_of(card), title_of(card)) == (kind, title)


@given(MODELS, st.data())
def test_no_two_kinds_yield_one_name(model: str, data: st.DataObject) -> None:
    names = {kind: data.draw(parts, label=kind.title) for kind, parts in PARTS.items()}
    assert PARTS.keys() == set(KINDS.values())
    cards = {kind: f"{model}/{part}" for kind, part in names.items() if part}
    assert all(is_card_name(card) for card in cards.values())
    assert {kind: kind_of(card) for kind, card in cards.items()} == {kind: kind for kind in cards}
    assert len({model, *cards.values()}) == len(cards) + 1
    for kind, part in names.items():
        assert not part or [each for each in KINDS.values() if each.size_of(part) is not None] == [kind]


@pytest.mark.parametrize(
    ("memory", "percent", "cores", "part"),
    [
        (8192, -1, 30, "vgpu-8g-30c"),
        (5000, -1, 0, "vgpu-5000m"),
        (0, 50, 0, "vgpu-50p"),
        (0, 25, 25, "vgpu-25p-25c"),
        (0, 100, 0, ""),
        (0, 100, 50, ""),
    ],
)
def test_a_vgpu_is_named_by_memory_and_cores_and_with_all_memory_it_is_a_whole_card(
    memory: int, percent: int, cores: int, part: str
) -> None:
    assert vgpu_part(memory, percent, cores) == part


@pytest.mark.parametrize(
    ("cores", "memory", "part"),
    [(25, 16384, "share-25c-16g"), (25, 0, "share-25c"), (0, 1000, "share-1000m"), (0, 0, "")],
)
def test_a_shared_npu_is_named_by_cores_and_memory(cores: int, memory: int, part: str) -> None:
    assert share_part(cores, memory) == part


@given(st.integers(1, 10**8))
def test_memory_has_one_text(mib: int) -> None:
    assert mib_of(memory_text(mib)) == mib


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("NVIDIA-A100/vgpu-8192m", "NVIDIA-A100/vgpu-8g"),
        ("NVIDIA-A100/vgpu-8192m-30c", "NVIDIA-A100/vgpu-8g-30c"),
        ("Ascend910B3/share-25c-16384m", "Ascend910B3/share-25c-16g"),
        ("NVIDIA-A100/vgpu-5000m", "NVIDIA-A100/vgpu-5000m"),
        ("NVIDIA-H800/mps-80g*1/2", "NVIDIA-H800/mps-80g*1/2"),
        ("NVIDIA-H200", "NVIDIA-H200"),
        ("NVIDIA-1024m/vnpu-1024m", "NVIDIA-1024m/vnpu-1024m"),
    ],
)
def test_memory_that_is_written_in_another_unit_is_the_same_card(written: str, name: str) -> None:
    assert normal_name(written) == name


@pytest.mark.parametrize(
    ("resource", "template"),
    [
        ("huawei.com/Ascend910-16c", "vir16"),
        ("huawei.com/Ascend910-2c", "vir02"),
        ("huawei.com/Ascend310P-1c", "vir01"),
        ("huawei.com/Ascend710-2c", "vir02"),
        ("huawei.com/Ascend310P-2c.1cpu", "vir02_1c"),
        ("huawei.com/Ascend910-3c.1cpu.8g", "vir03_1c_8g"),
        ("huawei.com/Ascend310P-4c.3cpu.ndvpp", "vir04_3c_ndvpp"),
        ("huawei.com/Ascend310P-4c.4cpu.dvpp", "vir04_4c_dvpp"),
        ("huawei.com/Ascend910-10c.3cpu.16g.ndvpp", "vir10_3c_16g_nm"),
        ("huawei.com/Ascend910-10c.4cpu.16g.dvpp", "vir10_4c_16g_m"),
        ("huawei.com/Ascend910-12c.3cpu.32g", "vir12_3c_32g"),
    ],
)
def test_the_resource_of_a_virtual_npu_says_its_template(resource: str, template: str) -> None:
    assert template_of(resource) == template
    assert resource in static_resources(template)


@pytest.mark.parametrize(
    "resource",
    [
        "huawei.com/Ascend910",
        "huawei.com/Ascend910B3",
        "huawei.com/Ascend910B4-1",
        "huawei.com/npu-core",
        "nvidia.com/gpu",
    ],
)
def test_other_resources_count_no_virtual_npus(resource: str) -> None:
    assert template_of(resource) == ""


def test_the_templates_of_the_simulated_nodes_have_these_names() -> None:
    for family in FAMILIES.values():
        for template in family.templates:
            assert template_of(f"{family.resource}-{template.suffix}") == template.name
