"""Inner dictionaries are copied when they are first read, and only then."""

from collections.abc import Callable
from typing import Any

import pytest

from scheduler.cluster.memory.borrowing import Borrowing

Nested = dict[str, dict[str, int]]


def test_inner_dictionaries_that_are_not_read_are_not_copied() -> None:
    original: Nested = {"a": {"x": 1}, "b": {"y": 2}}
    copied: list[dict[str, int]] = []

    def copy(inner: dict[str, int]) -> dict[str, int]:
        copied.append(inner)
        return dict(inner)

    borrowing = Borrowing(original, copy)
    assert borrowing["a"] == {"x": 1}
    assert borrowing.get("a") is borrowing["a"]
    assert copied == [{"x": 1}]
    assert "b" in borrowing and len(borrowing) == 2 and list(borrowing) == ["a", "b"]


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
    borrowing = Borrowing(original, dict)
    change(borrowing)
    change(plain)
    assert dict(borrowing.items()) == plain
    assert original == {"a": {"x": 1}, "b": {"y": 2}}


def test_a_missing_key_raises_a_key_error_or_returns_the_default() -> None:
    borrowing = Borrowing({}, dict)
    assert borrowing.get("a") is None
    with pytest.raises(KeyError):
        borrowing["a"]
    with pytest.raises(KeyError):
        borrowing.pop("a")
