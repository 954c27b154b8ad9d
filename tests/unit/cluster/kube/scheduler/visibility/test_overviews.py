"""Overviews are taken only while a page is open, not too often, and they do not disturb the scheduler."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

from scheduler.cluster.kube.scheduler.visibility.answers import BusyError
from scheduler.cluster.kube.scheduler.visibility.overviews import SHARE, SPACING, Overviews
from scheduler.framework.session import Session
from scheduler.observability.overview import Overview

SESSION = cast(Session, object())


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 60))


class World:
    """Overviews of numbered sessions, with a clock that tests set."""

    def __init__(self, *, standing_by: bool = False, listed: float = 0.01) -> None:
        self.now = 0.0
        self.taken = 0
        self.takes = 0.0
        """The seconds that it takes to take an overview."""
        self.failing = False
        self.lists = 0
        self.busy = False
        self.standing_by = standing_by
        self.overviews = Overviews(
            self._take, self._list, lambda: self.standing_by, listed=listed, clock=lambda: self.now
        )

    def _take(self, session: Session) -> Overview:
        assert session is SESSION
        if self.failing:
            raise ValueError("a plugin failed")
        self.taken += 1
        self.now += self.takes
        return Overview(float(self.taken))

    async def _list(self) -> Overview | None:
        self.lists += 1
        if self.busy:
            self.busy = False
            raise BusyError("16 questions wait", 50)
        return Overview(1000.0 + self.lists)


def test_without_a_page_nothing_is_taken() -> None:
    async def scenario() -> None:
        w = World(standing_by=True)
        for _ in range(3):
            await w.overviews.session_ended(SESSION)
            w.now += 100
        await asyncio.sleep(0.05)
        assert (w.taken, w.lists, w.overviews.awaited) == (0, 0, False)

    run(scenario)


def test_a_page_gets_the_next_session_and_those_after_it() -> None:
    async def scenario() -> None:
        w = World()
        async with w.overviews.viewing():
            assert await w.overviews.newer(0, 0.01) == (0, None)
            waiting = asyncio.create_task(w.overviews.newer(0, 30))
            await asyncio.sleep(0)
            await w.overviews.session_ended(SESSION)
            assert await waiting == (1, Overview(1.0))
            assert await w.overviews.newer(1, 0.01) == (1, None)
            w.now += SPACING
            await w.overviews.session_ended(SESSION)
            assert await w.overviews.newer(1, 30) == (2, Overview(2.0))

    run(scenario)


def test_the_first_page_awaits_a_session_and_no_other_does() -> None:
    async def scenario() -> None:
        w = World()
        found = [w.overviews.awaited]
        async with w.overviews.viewing():
            found.append(w.overviews.awaited)
            await w.overviews.session_ended(SESSION)
            async with w.overviews.viewing():
                found.append(w.overviews.awaited)
        assert found == [False, True, False]

    run(scenario)


def test_overviews_are_at_least_a_second_apart_and_take_at_most_a_tenth_of_the_time() -> None:
    async def scenario() -> None:
        w = World()
        async with w.overviews.viewing():
            await w.overviews.session_ended(SESSION)
            w.now += SPACING / 2
            await w.overviews.session_ended(SESSION)
            assert w.taken == 1
            w.now += SPACING / 2
            w.takes = 2.0
            await w.overviews.session_ended(SESSION)
            assert w.taken == 2
            w.now += 2.0 * SHARE - 0.1
            await w.overviews.session_ended(SESSION)
            assert w.taken == 2
            w.now += 0.2
            await w.overviews.session_ended(SESSION)
            assert w.taken == 3

    run(scenario)


def test_a_failure_is_not_passed_on_to_the_scheduler() -> None:
    async def scenario() -> None:
        w = World()
        async with w.overviews.viewing():
            w.failing = True
            await w.overviews.session_ended(SESSION)
            w.failing, w.now = False, 100.0
            await w.overviews.session_ended(SESSION)
            assert await w.overviews.newer(0, 30) == (1, Overview(1.0))

    run(scenario)


def test_a_page_that_is_opened_later_does_not_begin_with_an_old_overview() -> None:
    async def scenario() -> None:
        w = World()
        async with w.overviews.viewing():
            await w.overviews.session_ended(SESSION)
            async with w.overviews.viewing():
                assert (await w.overviews.newer(0, 30))[1] is not None
            assert (await w.overviews.newer(0, 30))[1] is not None
        async with w.overviews.viewing():
            assert w.overviews.awaited
            assert (await w.overviews.newer(0, 0.01))[1] is None

    run(scenario)


def test_a_standby_lists_the_cluster_while_a_page_is_open() -> None:
    async def scenario() -> None:
        w = World(standing_by=True)
        w.busy = True
        async with w.overviews.viewing():
            version, first = await w.overviews.newer(0, 30)
            assert first == Overview(1002.0)  # the first attempt was refused
            assert (await w.overviews.newer(version, 30))[1] is not None
        lists = w.lists
        await asyncio.sleep(0.05)
        assert w.lists == lists

    run(scenario)


def test_a_standby_that_begins_to_lead_lists_nothing_more() -> None:
    async def scenario() -> None:
        w = World(standing_by=True)
        async with w.overviews.viewing():
            version, _ = await w.overviews.newer(0, 30)
            w.standing_by = False
            await asyncio.sleep(0.05)
            lists = w.lists
            await w.overviews.session_ended(SESSION)
            found = (await w.overviews.newer(version, 30))[1]
            assert found is not None and found.at in (1.0, 1002.0)
            await asyncio.sleep(0.05)
            assert w.lists == lists

    run(scenario)
