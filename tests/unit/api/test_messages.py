"""Suggestions for misspelt names."""

import pytest

from scheduler.api.messages import did_you_mean


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("minAvalable", ("minAvailable", "minSuccess"), "minAvailable"),
        ("nvidia.com/gpuu", ("cpu", "nvidia.com/gpu"), "nvidia.com/gpu"),
        ("NVIDIA-H20O", ("NVIDIA-H100", "NVIDIA-H200"), "NVIDIA-H200"),
        ("schedulername", ("schedulerName",), "schedulerName"),
        ("VULCANO-PY", ("volcano-py",), "volcano-py"),
    ],
)
def test_the_most_similar_name_is_suggested(name: str, known: tuple[str, ...], meant: str) -> None:
    assert did_you_mean(name, known) == f"; did you mean {meant!r}?"


@pytest.mark.parametrize("name", ["example.com/foo", "", "x" * 10_000])
def test_nothing_is_suggested_for_a_name_that_resembles_none(name: str) -> None:
    assert did_you_mean(name, ("cpu", "nvidia.com/gpu")) == ""


def test_nothing_is_suggested_among_more_names_than_can_be_compared_quickly() -> None:
    assert did_you_mean("name-1x", [f"name-{i}" for i in range(5000)]) == ""
