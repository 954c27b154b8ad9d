"""The models of Ascend NPUs by the labels of MindCluster."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.cards import is_card_name
from scheduler.api.names import (
    ACCELERATOR,
    ACCELERATOR_TYPE,
    CHIP_NAME,
    NPU_CHIP_NAME,
    NPU_SERVER_TYPE,
    SERVER_TYPE,
    SHARED_NODE,
)
from scheduler.plugins.capacity_card.ascend_labels import ASCEND_LABELS, ascend_model, model_of_resource
from scheduler.plugins.capacity_card.card_labels import read_cards
from scheduler.plugins.capacity_card.card_resources import CardResources

CHIPS = "huawei.com/Ascend910"


@pytest.mark.parametrize(
    ("labels", "model"),
    [
        ({CHIP_NAME: "910B3", SERVER_TYPE: "Ascend910B-20", ACCELERATOR: "huawei-Ascend910"}, "Ascend910B3"),
        ({CHIP_NAME: "910B4-1"}, "Ascend910B4-1"),
        ({CHIP_NAME: "910A", SERVER_TYPE: "Ascend910-30"}, "Ascend910A"),
        ({CHIP_NAME: "910ProB"}, "Ascend910ProB"),
        ({CHIP_NAME: "310P3", SERVER_TYPE: "Ascend310P-8"}, "Ascend310P3"),
        ({CHIP_NAME: "310"}, "Ascend310"),
        ({CHIP_NAME: "Ascend950PR", SERVER_TYPE: "npu-32", ACCELERATOR: "huawei-npu"}, "Ascend950PR"),
        ({CHIP_NAME: "Ascend910", SERVER_TYPE: "Ascend910A3-24", ACCELERATOR: "huawei-Ascend910"}, "Ascend910A3"),
        ({CHIP_NAME: "Ascend910", ACCELERATOR_TYPE: "module-a3-16-super-pod"}, "Ascend910A3"),
        ({CHIP_NAME: "Ascend910_9392"}, "Ascend910_9392"),
        ({NPU_CHIP_NAME: "910B2", CHIP_NAME: "910B3"}, "Ascend910B2"),
        ({NPU_SERVER_TYPE: "Ascend310P-10-dual"}, "Ascend310P"),
        ({SERVER_TYPE: "Ascend910B-24", ACCELERATOR: "huawei-Ascend910"}, "Ascend910B"),
        ({ACCELERATOR_TYPE: "module-910b-8", ACCELERATOR: "huawei-Ascend910"}, "Ascend910B"),
        ({ACCELERATOR_TYPE: "card-910b-infer"}, "Ascend910B"),
        ({ACCELERATOR_TYPE: "card-910b-2", CHIP_NAME: "910B4"}, "Ascend910B4"),
        ({ACCELERATOR_TYPE: "850-SuperPod-Atlas-8"}, "Ascend950"),
        ({ACCELERATOR_TYPE: "half"}, "Ascend910"),
        ({ACCELERATOR: "huawei-Ascend310P"}, "Ascend310P"),
        ({ACCELERATOR: "huawei-Ascend710"}, "Ascend310P"),
        ({SERVER_TYPE: "soc", ACCELERATOR: "huawei-Ascend310"}, "Ascend310"),
        ({ACCELERATOR: "huawei-npu"}, ""),
        ({ACCELERATOR: "nvidia", SERVER_TYPE: "soc"}, ""),
        ({}, ""),
    ],
)
def test_the_most_specific_label_names_the_model(labels: dict[str, str], model: str) -> None:
    assert ascend_model(labels) == model


@given(st.dictionaries(st.sampled_from(ASCEND_LABELS), st.text(max_size=70)))
def test_any_text_gives_the_name_of_a_card_or_none(labels: dict[str, str]) -> None:
    model = ascend_model(labels)
    assert not model or (is_card_name(model) and "/" not in model)


def test_a_product_label_takes_precedence() -> None:
    product = {"huawei.com/npu.product": "Ascend-910B", "huawei.com/npu.count": "8"}
    assert read_cards("n", {CHIP_NAME: "910B3", **product}, [CHIPS]).by_resource == {CHIPS: "Ascend-910B"}


def test_only_resources_of_whole_npus_count_the_model() -> None:
    offered = [
        CHIPS,
        "huawei.com/npu",
        f"{CHIPS}-memory",
        "huawei.com/npu-core",
        "huawei.com/rdma",
        f"{CHIPS}-2c",
        "cpu",
    ]
    assert read_cards("n", {CHIP_NAME: "910B3"}, offered).by_resource == {
        CHIPS: "Ascend910B3",
        "huawei.com/npu": "Ascend910B3",
        f"{CHIPS}-2c": "Ascend910B3/vnpu-vir02",
    }


def test_npus_that_no_quota_lists_are_not_named() -> None:
    assert read_cards("n", {CHIP_NAME: "910B3"}, [CHIPS], CardResources(ascend=False)).by_resource == {}


@pytest.mark.parametrize("value", ["", "B3", "Ascend", "910B3/x", "910 B3", "910B3-"])
def test_a_malformed_name_of_a_chip_is_reported(value: str) -> None:
    read = read_cards("n", {CHIP_NAME: value}, [CHIPS])
    assert read.by_resource == {}
    assert [problem.field for problem in read.problems] == [
        f"metadata.labels[{CHIP_NAME}]",
        "metadata.labels[huawei.com/npu.product]",
    ]
    assert "is not the name of a chip, as 910B3 is" in read.problems[0].problem


@pytest.mark.parametrize(
    ("resource", "model"),
    [
        ("huawei.com/Ascend910B3", "Ascend910B3"),
        ("huawei.com/Ascend910B4-1", "Ascend910B4-1"),
        ("huawei.com/Ascend910", ""),
        ("huawei.com/Ascend310P", ""),
        ("huawei.com/Ascend910-2c", ""),
        ("huawei.com/Ascend310P-2c.1cpu", ""),
        ("huawei.com/Ascend910B3-memory", ""),
        ("nvidia.com/Ascend910B3", ""),
    ],
)
def test_resources_of_hami_name_the_model(resource: str, model: str) -> None:
    assert model_of_resource(resource) == model
    cards = read_cards("n", {}, [resource]).by_resource
    assert cards == ({resource: model} if model else {})


@pytest.mark.parametrize(("value", "named"), [("true", False), ("false", True)])
def test_units_of_a_node_whose_chips_are_shared_are_no_whole_cards(value: str, named: bool) -> None:
    """The device plugin of such a node reports 100 units per chip."""
    read = read_cards("n", {CHIP_NAME: "910B4", SHARED_NODE: value}, [CHIPS])
    assert read.by_resource == ({CHIPS: "Ascend910B4"} if named else {})
    assert (read.problems, read.unlabeled) == ((), {})
