"""Bindings on nodes with device plugins are sent one after the other, by predicate time."""

import asyncio
import contextlib
from collections.abc import Callable

from scheduler.api.decisions import Bind
from scheduler.api.names import PREDICATE_TIME
from scheduler.cluster.kube.write.lanes import Work
from scheduler.cluster.kube.write.writer import BindingOrder
from tests.unit.cluster.kube.fake_api import a_task


class Sent:
    """The submitted bindings; each binding ends when the test lets it end."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.order = BindingOrder(self._submit)
        self._works: dict[str, Work] = {}

    def add(self, name: str, time: int, node: str = "n1", outcome: Callable[[], float | None] = lambda: None) -> None:
        async def work() -> float | None:
            return outcome()

        self.order.add(Bind(a_task(name), node, {PREDICATE_TIME: str(time)}), work)

    def end(self, name: str) -> float | None:
        return asyncio.run(self._attempt(name))

    async def _attempt(self, name: str) -> float | None:
        return await self._works[name]()

    def _submit(self, bind: Bind, work: Work) -> None:
        self.names.append(bind.task.name)
        self._works[bind.task.name] = work


def test_bindings_of_one_node_go_one_after_the_other_by_predicate_time() -> None:
    sent = Sent()
    sent.add("second", 20)
    sent.add("fourth", 40)
    sent.add("third", 30)
    sent.add("elsewhere", 50, "n2")
    assert sent.names == ["second", "elsewhere"]
    assert sent.order.size == 2
    sent.end("second")
    sent.end("third")
    assert sent.names[2:] == ["third", "fourth"]
    sent.end("fourth")
    sent.add("later", 10)
    assert sent.names[-1] == "later"
    assert sent.order.size == 0


def test_a_binding_that_is_tried_again_holds_up_no_other() -> None:
    outcomes: list[float | None] = [None, 0.5]
    sent = Sent()
    sent.add("a", 1, outcome=outcomes.pop)
    sent.add("b", 2)
    sent.add("c", 3)
    assert sent.end("a") == 0.5
    assert sent.names == ["a", "b"]
    assert sent.end("a") is None
    assert sent.names == ["a", "b"]
    sent.end("b")
    assert sent.names == ["a", "b", "c"]


def test_a_binding_that_raises_holds_up_no_other() -> None:
    def fail() -> float | None:
        raise ValueError("unexpected")

    sent = Sent()
    sent.add("a", 1, outcome=fail)
    sent.add("b", 2)
    with contextlib.suppress(ValueError):
        sent.end("a")
    assert sent.names == ["a", "b"]


def test_a_time_that_is_no_number_counts_as_the_first() -> None:
    sent = Sent()
    sent.add("a", 1)
    sent.add("b", 2)
    bind = Bind(a_task("c"), "n1", {PREDICATE_TIME: "soon"})

    async def work() -> float | None:
        return None

    sent.order.add(bind, work)
    sent.end("a")
    assert sent.names == ["a", "c"]


def test_nothing_starts_after_a_binding_was_cancelled() -> None:
    def cancelled() -> float | None:
        raise asyncio.CancelledError

    sent = Sent()
    sent.add("a", 1, outcome=cancelled)
    sent.add("b", 2)
    with contextlib.suppress(asyncio.CancelledError):
        sent.end("a")
    assert sent.names == ["a"]
