"""The end of tasks that are no longer needed."""

import asyncio

from scheduler.cluster.kube.process.waiting import cancel


def test_cancelled_tasks_have_ended_and_what_they_raise_is_dropped() -> None:
    async def scenario() -> None:
        cleaned_up = asyncio.Event()

        async def slow_end() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(0)
                cleaned_up.set()

        async def failure() -> None:
            raise OSError("unreachable")

        tasks = [asyncio.create_task(slow_end()), asyncio.create_task(failure())]
        await asyncio.sleep(0)
        await cancel(*tasks)
        assert cleaned_up.is_set()
        assert [task.cancelled() for task in tasks] == [True, False]

    asyncio.run(scenario())
