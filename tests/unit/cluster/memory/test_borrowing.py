"""Dictionaries of a dictionary are copied when they are asked for, and only then."""

from collections.abc import Callable
from typing import Any

import pytest

from scheduler.cluster.memory.borrowing import Borrowing

Nested = dict[str, dict[str, int]]


def test_what_is_not_asked_for_is_not_copied() -> None:
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
def test_it_changes_as_a_dictionary_does_and_the_original_does_not(change: Callable[[Any], object]) -> None:
    original: Nested = {"a": {"x": 1}, "b": {"y": 2}}
    plain: Nested = {"a": {"x": 1}, "b": {"y": 2}}
    borrowing = Borrowing(original, dict)
    change(borrowing)
    change(plain)
    assert dict(borrowing.items()) == plain
    assert original == {"a": {"x": 1}, "b": {"y": 2}}


def test_what_is_not_there_is_missing() -> None:
    borrowing = Borrowing({}, dict)
    assert borrowing.get("a") is None
    with pytest.raises(KeyError):
        borrowing["a"]
    with pytest.raises(KeyError):
        borrowing.pop("a")
