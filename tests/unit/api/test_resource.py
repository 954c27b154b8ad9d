"""Vectors of amounts: counted resources, comparisons, and formats."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.names import OTHER_RESOURCES
from scheduler.api.objects import Quantity
from scheduler.api.quantity import QuantityError
from scheduler.api.resource import (
    CPU_INDEX,
    MAX_UNDECLARED,
    MEMORY_INDEX,
    PODS_INDEX,
    SMALLEST,
    Dimensions,
    exceeded,
    is_empty,
    largest_share,
    less_equal,
    share,
)

AMOUNTS = st.lists(st.integers(0, 5), min_size=8, max_size=8).map(lambda values: np.array(values, dtype=float))


# --- names and units ---
def test_units_are_milli_cores_bytes_pods_and_thousandths() -> None:
    dimensions = Dimensions()
    vector = dimensions.vector({"cpu": "1500m", "memory": "1Ki", "pods": "3", "example.com/gpu": 2})
    gpu = dimensions.find("example.com/gpu")
    assert gpu is not None
    assert (vector[CPU_INDEX], vector[MEMORY_INDEX], vector[PODS_INDEX], vector[gpu]) == (1500, 1024, 3, 2000)


def test_quota_style_names_of_pod_groups_are_left_out() -> None:
    dimensions = Dimensions()
    assert not dimensions.vector({"count/pods": 3, "requests.cpu": 1, "limits.memory": "1Gi"}).any()
    assert dimensions.names == ["cpu", "memory", "pods"]


@pytest.mark.parametrize("amounts", [{"cpu": "lots"}, {"cpu": "-1"}, {"example.com/x": "1x"}])
def test_a_malformed_amount_names_its_resource_and_adds_no_dimension(amounts: dict[str, Quantity]) -> None:
    dimensions = Dimensions()
    (name,) = amounts
    with pytest.raises(QuantityError, match=name):
        dimensions.vector(amounts)
    assert dimensions.names == ["cpu", "memory", "pods"]


def test_vectors_created_before_the_ninth_resource_are_padded_with_zeros() -> None:
    dimensions = Dimensions()
    early = dimensions.vector({"cpu": 1})
    late = dimensions.vector({f"example.com/r{i}": 1 for i in range(9)})
    assert dimensions.width == len(late) == 16
    assert dimensions.fit(early).tolist() == [1000.0] + [0.0] * 15


def test_a_copy_of_dimensions_is_independent_of_the_original() -> None:
    dimensions = Dimensions()
    copy = dimensions.copy()
    dimensions.vector({f"example.com/r{i}": 1 for i in range(9)})
    assert (copy.width, copy.names, copy.find("example.com/r0")) == (8, ["cpu", "memory", "pods"], None)


def test_pods_cannot_lengthen_vectors_without_limit() -> None:
    dimensions = Dimensions()
    for i in range(MAX_UNDECLARED):
        dimensions.vector({f"example.com/r{i}": "1"})

    others = dimensions.vector({"example.com/x": "2", "example.com/y": "3"})
    for i in range(10_000):
        dimensions.vector({f"example.com/other-{i}": "1"})

    assert dimensions.names[-1] == OTHER_RESOURCES
    assert len(dimensions.names) == 3 + MAX_UNDECLARED + 1 and dimensions.width == 128
    assert others[dimensions.names.index(OTHER_RESOURCES)] == 5000
    assert dimensions.find("example.com/x") is None and not dimensions.moved


def test_a_declared_resource_leaves_the_shared_position_and_counts_as_no_undeclared_one() -> None:
    dimensions = Dimensions()
    for i in range(MAX_UNDECLARED + 1):
        dimensions.vector({f"example.com/r{i}": "1"})

    dimensions.declare(["example.com/r0", f"example.com/r{MAX_UNDECLARED}", "cpu", "example.com/new", "limits.cpu"])

    assert dimensions.moved
    assert dimensions.names[-2:] == [f"example.com/r{MAX_UNDECLARED}", "example.com/new"]
    dimensions.vector({"example.com/late": "1"})
    assert dimensions.names[-1] == "example.com/late", "r0 has made room"


def test_limits_that_are_not_listed_are_infinite() -> None:
    dimensions = Dimensions()
    limits = dimensions.limits({"cpu": 2, "example.com/gpu": 0})
    gpu = dimensions.find("example.com/gpu")
    assert gpu is not None
    assert (limits[CPU_INDEX], limits[gpu]) == (2000, 0)
    assert np.isinf(limits[MEMORY_INDEX]) and np.isinf(limits[PODS_INDEX])


def test_a_vector_is_converted_to_a_resource_list_in_canonical_form() -> None:
    dimensions = Dimensions()
    amounts: dict[str, Quantity] = {"cpu": "1500m", "memory": "2048Mi", "pods": 1000, "example.com/gpu-memory": 3500}
    written = dimensions.to_list(dimensions.vector(amounts))
    assert written == {"cpu": "1500m", "memory": "2Gi", "pods": "1k", "example.com/gpu-memory": "3500"}
    assert dimensions.to_list(dimensions.vector({"memory": 3000, "example.com/gpu-memory": 3000})) == {
        **{"cpu": "0", "memory": "3000"},
        "example.com/gpu-memory": "3k",
    }
    assert dimensions.to_list(dimensions.zeros()) == {"cpu": "0", "memory": "0"}


# --- comparisons (an absent resource is 0) ---
@given(AMOUNTS, AMOUNTS)
def test_less_equal_holds_in_every_resource(left: np.ndarray, right: np.ndarray) -> None:
    assert less_equal(left, right) == all(a <= b for a, b in zip(left, right, strict=True))


def test_amounts_closer_than_a_tenth_are_equal_for_less_equal_only() -> None:
    left, right, asked = np.zeros(8), np.zeros(8), np.ones(8)
    left[CPU_INDEX], right[CPU_INDEX] = 1000.05, 1000
    assert less_equal(left, right)
    assert exceeded(left, right, asked) == [CPU_INDEX]


@given(AMOUNTS, AMOUNTS, AMOUNTS)
def test_exceeded_compares_requested_resources_except_pods(
    left: np.ndarray, right: np.ndarray, request_: np.ndarray
) -> None:
    over = [i for i in range(8) if i != PODS_INDEX and request_[i] > 0 and left[i] > right[i]]
    assert exceeded(left, right, request_) == over


@given(AMOUNTS)
def test_a_vector_is_empty_if_it_has_only_pods(vector: np.ndarray) -> None:
    assert is_empty(vector) == all(value < 0.1 for i, value in enumerate(vector) if i != PODS_INDEX)


@pytest.mark.parametrize(("left", "right", "expected"), [(0, 0, 0), (1, 0, 1), (1, 4, 0.25), (3, 2, 1.5)])
def test_the_share_of_zero_is_zero_or_one(left: float, right: float, expected: float) -> None:
    assert share(left, right) == expected


@given(AMOUNTS, AMOUNTS)
def test_the_largest_share_is_that_of_a_resource_with_an_amount_to_share(left: np.ndarray, right: np.ndarray) -> None:
    each = [share(part, whole) for part, whole in zip(left, right, strict=True) if whole >= SMALLEST]
    assert largest_share(left, right) == max(each, default=0.0)
