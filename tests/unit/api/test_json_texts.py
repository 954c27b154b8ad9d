"""Annotations whose text is JSON."""

import pytest

from scheduler.api.json_texts import annotation_problems, json_problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"NVIDIA-H200": 4', "not JSON: expecting ',' delimiter (line 1, column 18); the text ends there"),
        ("", "not JSON: expecting value (line 1, column 1); the text ends there"),
        ('{"a": 1,\n "b": x}', "not JSON: expecting value (line 2, column 7)"),
        ('{"a": 1} {', "not JSON: extra data (line 1, column 10)"),
        ("[" * 100_000, "not JSON: nested too deeply"),
    ],
)
def test_a_text_that_is_not_json_is_reported_with_the_position(text: str, problem: str) -> None:
    assert json_problem(text) == problem


@pytest.mark.parametrize("text", ["{}", '{"a": [1, null]}', "3"])
def test_json_has_no_problem(text: str) -> None:
    assert json_problem(text) == ""


@pytest.mark.parametrize(
    "key",
    [
        "volcano.sh/card.quota", "volcano.sh/card.borrowing-limit", "volcano.sh/card.lending-limit",
        "volcano.sh/card.request", "volcano.sh/nodegroup-resource-limits", "baseDeviceInfos",
        "hami.io/node-register-Ascend910B", "ascend.kubectl.kubernetes.io/ascend-910-configuration",
    ],
)  # fmt: skip
def test_every_annotation_that_is_read_as_json_is_checked(key: str) -> None:
    ((found, problem),) = annotation_problems({key: '{"a": ', "example.com/other": "{"})
    assert found == key
    assert problem == "not JSON: expecting value (line 1, column 7); the text ends there"
