"""Kinds are found by the apiVersion and kind of objects."""

import pytest

from scheduler.api.kinds import ACJOB, BATCH_JOB, KINDS, NODE, POD, VCJOB, Cached, Kind, api_version_of, find_kind


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_kind_is_found_by_group_and_name_in_any_version(kind: Kind) -> None:
    other = f"{kind.group}/v9" if kind.group else "v9"
    assert find_kind(kind.api_version, kind.name) is kind
    assert find_kind(other, kind.name) is kind


def test_kinds_of_the_same_name_differ_by_group() -> None:
    assert (find_kind("batch/v1", "Job"), find_kind("batch.volcano.sh/v1alpha1", "Job")) == (BATCH_JOB, VCJOB)
    assert find_kind("example.com/v1", "Job") is None


def test_the_api_version_of_a_name_is_that_of_the_built_in_kind() -> None:
    assert [api_version_of(name) for name in ("Job", "AscendJob", "Pod", "Unknown")] == [
        BATCH_JOB.api_version,
        ACJOB.api_version,
        "v1",
        "v1",
    ]


def test_the_key_of_an_object_has_a_namespace_if_its_kind_has() -> None:
    assert (POD.key("default", "p"), NODE.key("", "n")) == ("default/p", "n")


def test_a_kind_that_is_kept_has_a_struct() -> None:
    assert all(kind.struct is not None for kind in KINDS if kind.cached is not Cached.NO)
