"""Turns of questions: one question at a time, round-robin among namespaces, and a limited number of places."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from scheduler.cluster.kube.scheduler.visibility.answers import BusyError, Turns


class World:
    """Questions, each of which ends when ``end`` is called."""

    def __init__(self, places: int = 16) -> None:
        self.turns = Turns(places, retry_after=50.0)
        self.order: list[str] = []
        """The questions that have had their turn."""
        self.refused: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}

    def ask(self, namespace: str, name: str) -> asyncio.Task[None]:
        end = self._ends[name] = asyncio.Event()

        async def question() -> None:
            try:
                async with self.turns.turn(namespace):
                    self.order.append(name)
                    await end.wait()
            except BusyError:
                self.refused.append(name)

        return asyncio.create_task(question())

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
            await settled()


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_one_question_at_a_time_has_its_turn() -> None:
    async def scenario() -> None:
        world = World()
        for name in ("1", "2", "3"):
            world.ask("a", name)
        await settled()
        assert world.order == ["1"]
        await world.end("1")
        assert world.order == ["1", "2"]
        await world.end("2", "3")
        assert world.order == ["1", "2", "3"]

    run(scenario)


def test_a_namespace_with_many_questions_delays_another_by_one() -> None:
    async def scenario() -> None:
        world = World()
        for number in range(5):
            world.ask("busy", f"b{number}")
        await settled()
        world.ask("idle", "x")
        await settled()
        await world.end("b0", "b1")
        assert world.order == ["b0", "b1", "x"]

    run(scenario)


def test_a_question_takes_the_place_of_the_last_one_of_the_namespace_with_the_most() -> None:
    async def scenario() -> None:
        world = World(places=4)
        for number in range(4):
            world.ask("busy", f"b{number}")
        await settled()
        world.ask("idle", "x")
        await settled()
        assert world.refused == ["b3"]
        world.ask("busy", "b4")
        await settled()
        assert world.refused == ["b3", "b4"]
        await world.end("b0", "b1", "x", "b2")
        assert world.order == ["b0", "b1", "x", "b2"]

    run(scenario)


def test_where_all_namespaces_wait_with_one_question_another_one_is_refused() -> None:
    async def scenario() -> None:
        world = World(places=3)
        for name in ("a", "b", "c", "d"):
            world.ask(name, name)
        await settled()
        assert world.refused == ["d"]

    run(scenario)


def test_the_refusal_says_how_many_questions_wait() -> None:
    async def scenario() -> None:
        turns = Turns(1, retry_after=50.0)
        async with turns.turn("a"):
            with pytest.raises(BusyError, match=r"^1 questions wait for an answer$") as refusal:
                async with turns.turn("b"):
                    pass
        assert refusal.value.retry_after == 50.0

    run(scenario)


@pytest.mark.parametrize("moment", ["while it waits", "as it gets its turn"])
def test_a_client_that_goes_away_leaves_its_turn_to_the_next(moment: str) -> None:
    async def scenario() -> None:
        world = World()
        world.ask("a", "1")
        await settled()
        left = world.ask("b", "2")
        world.ask("c", "3")
        await settled()
        if moment == "as it gets its turn":
            world._ends["1"].set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        left.cancel()
        with suppress(asyncio.CancelledError):
            await left
        await world.end("1", "2")
        assert world.order[-1] == "3"

    run(scenario)


def test_a_question_that_fails_passes_its_turn_on() -> None:
    async def scenario() -> None:
        turns = Turns(4, retry_after=1.0)
        with pytest.raises(ValueError):
            async with turns.turn("a"):
                raise ValueError
        async with turns.turn("a"):
            pass

    run(scenario)
