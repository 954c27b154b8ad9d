"""Namespaces take turns."""

import pytest

from scheduler.api.fair_queue import FairQueue


def queue_of(*items: tuple[str, str]) -> FairQueue[str]:
    queue: FairQueue[str] = FairQueue()
    for namespace, item in items:
        queue.add(namespace, item)
    return queue


def test_items_of_a_namespace_are_taken_in_the_order_in_which_they_were_added() -> None:
    queue = queue_of(("a", "2"), ("a", "1"))
    assert [queue.take(), queue.take()] == ["2", "1"]


def test_a_namespace_with_one_item_waits_for_one_of_each_other_namespace() -> None:
    queue = queue_of(*(("busy", f"b{i}") for i in range(100)), ("idle", "x"))
    assert [queue.take() for _ in range(3)] == ["b0", "x", "b1"]


def test_a_namespace_that_comes_back_takes_its_turn_after_the_others() -> None:
    queue = queue_of(("a", "a0"), ("b", "b0"), ("b", "b1"))
    assert queue.take() == "a0"
    queue.add("a", "a1")
    assert [queue.take() for _ in range(3)] == ["b0", "a1", "b1"]


def test_an_item_is_in_the_queue_once_and_keeps_its_place() -> None:
    queue = queue_of(("a", "1"), ("a", "2"), ("a", "1"))
    assert (len(queue), list(queue)) == (2, [("a", "1"), ("a", "2")])
    assert [queue.take(), queue.take()] == ["1", "2"]
    assert len(queue) == 0


def test_nothing_can_be_taken_from_an_empty_queue() -> None:
    queue = queue_of(("a", "1"))
    queue.clear()
    assert not queue
    with pytest.raises(KeyError):
        queue.take()


def test_items_can_be_removed_and_the_last_one_of_the_longest_namespace_taken() -> None:
    queue = queue_of(("a", "1"), ("b", "2"), ("b", "3"), ("b", "4"))
    assert (queue.longest(), queue.count("b"), queue.count("c")) == ("b", 3, 0)
    assert queue.take_last("b") == "4"
    queue.remove("a", "1")
    assert (len(queue), list(queue)) == (2, [("b", "2"), ("b", "3")])
    with pytest.raises(KeyError):
        queue.remove("a", "1")
