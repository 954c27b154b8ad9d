"""The event loop whose clock skips idle time."""

import asyncio
import time

from tests.unit import virtual_time


def test_a_long_sleep_moves_the_clock_and_ends_at_once() -> None:
    async def scenario() -> float:
        clock = asyncio.get_running_loop().time
        begun = clock()
        await asyncio.sleep(1e4)
        return clock() - begun

    assert virtual_time.run(scenario()) >= 1e4


def test_timers_fire_in_their_order() -> None:
    async def scenario() -> list[int]:
        order: list[int] = []

        async def after(seconds: int) -> None:
            await asyncio.sleep(seconds)
            order.append(seconds)

        await asyncio.gather(*(after(seconds) for seconds in (300, 100, 200)))
        return order

    assert virtual_time.run(scenario()) == [100, 200, 300]


def test_work_in_another_thread_does_not_time_out() -> None:
    async def scenario() -> str:
        async with asyncio.timeout(30):
            await asyncio.to_thread(time.sleep, 0.2)
        return "done"

    assert virtual_time.run(scenario()) == "done"
