"""Kinds are found by the apiVersion and kind of objects."""

import pytest

from scheduler.api.kinds import BATCH_JOB, KINDS, VCJOB, Kind, find_kind


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_kind_is_found_by_group_and_name_in_any_version(kind: Kind) -> None:
    other = f"{kind.group}/v9" if kind.group else "v9"
    assert find_kind(kind.api_version, kind.name) is kind
    assert find_kind(other, kind.name) is kind


def test_kinds_of_the_same_name_differ_by_group() -> None:
    assert (find_kind("batch/v1", "Job"), find_kind("batch.volcano.sh/v1alpha1", "Job")) == (BATCH_JOB, VCJOB)
    assert find_kind("example.com/v1", "Job") is None
