"""A diff is the merge patch between two states of an object."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.kinds import POD
from scheduler.controllers.effects import Delete, Plan, diff

Raw = dict[str, Any]
scalars = st.one_of(st.booleans(), st.integers(0, 3), st.sampled_from(["a", "b", ""]))
trees = st.recursive(
    st.dictionaries(st.sampled_from("klm"), scalars, max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("klm"), st.one_of(scalars, inner, st.lists(scalars)), max_size=3),
    max_leaves=8,
)


def apply(target: Any, patch: Raw) -> dict[str, Any]:
    """Applies a merge patch (RFC 7386), as the API server does."""
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = apply(result.get(key), value)
        else:
            result[key] = value
    return result


@given(trees, trees)
def test_applying_the_diff_of_two_states_to_the_first_gives_the_second(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    assert apply(old, diff(old, new)) == new


@given(trees)
def test_equal_states_have_an_empty_diff(state: Raw) -> None:
    assert diff(state, state) == {}


def test_an_empty_stage_is_not_appended() -> None:
    plan = Plan().then().then(Delete(POD, "a", "b")).then()

    assert plan.stages == [[Delete(POD, "a", "b")]]
