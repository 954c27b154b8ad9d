"""The problems of objects with many malformed fields."""

from scheduler.api.reasons import Malformed, first_fields


def problems(name: str, number: int) -> list[Malformed]:
    return [Malformed("PodGroup", "default", name, f"spec.f[{i}]", "not a number") for i in range(number)]


def test_up_to_ten_malformed_fields_of_an_object_are_reported_one_by_one() -> None:
    found = [*problems("a", 10), *problems("b", 10)]
    assert first_fields(found) == found


def test_the_last_of_more_malformed_fields_names_the_number_of_the_others() -> None:
    found = first_fields([*problems("a", 10_000), *problems("b", 1)])
    assert [each.name for each in found] == ["a"] * 10 + ["b"]
    assert found[8].message == "spec.f[8]: not a number; ignored"
    assert found[9].message == "spec.f[9] and 9990 more fields: not a number; ignored"
