"""Inner dictionaries are copied when they are first read, and only then."""

from collections.abc import Callable
from typing import Any

import pytest

from scheduler.cluster.memory.fork import CopyOnAccess

Nested = dict[str, dict[str, int]]


def test_inner_dictionaries_that_are_not_read_are_not_copied() -> None:
    original: Nested = {"a": {"x": 1}, "b": {"y": 2}}
    copied: list[dict[str, int]] = []

    def copy(inner: dict[str, int]) -> dict[str, int]:
        copied.append(inner)
        return dict(inner)

    copied_on_access = CopyOnAccess(original, copy)
    assert copied_on_access["a"] == {"x": 1}
    assert copied_on_access.get("a") is copied_on_access["a"]
    assert copied == [{"x": 1}]
    assert "b" in copied_on_access and len(copied_on_access) == 2 and list(copied_on_access) == ["a", "b"]


@pytest.mark.parametrize(
    "change",
    [
        lambda nested: nested["a"].update(x=5),
        lambda nested: nested.get("a").update(x=5),
        lambda nested: nested.setdefault("a", {}).update(x=5),
        lambda nested: nested.setdefault("c", {}).update(x=5),
        lambda nested: nested.pop("a").clear(),
        lambda nested: nested.pop("c", {}).clear(),
        lambda nested: nested.__delitem__("a"),
        lambda nested: nested.__setitem__("a", {}),
        lambda nested: [inner.clear() for inner in nested.values()],
        lambda nested: [inner.clear() for _, inner in nested.items()],
    ],
)
def test_it_behaves_as_a_dictionary_and_the_original_does_not_change(change: Callable[[Any], object]) -> None:
    original: Nested = {"a": {"x": 1}, "b": {"y": 2}}
    plain: Nested = {"a": {"x": 1}, "b": {"y": 2}}
    copy = CopyOnAccess(original, dict)
    change(copy)
    change(plain)
    assert dict(copy.items()) == plain
    assert original == {"a": {"x": 1}, "b": {"y": 2}}


def test_a_missing_key_raises_a_key_error_or_returns_the_default() -> None:
    copy = CopyOnAccess({}, dict)
    assert copy.get("a") is None
    with pytest.raises(KeyError):
        copy["a"]
    with pytest.raises(KeyError):
        copy.pop("a")
