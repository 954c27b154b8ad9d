"""Tasks of nodes: each node has one task at a time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from scheduler.cluster.kube.playground import nodes
from scheduler.cluster.kube.playground.nodes import NodeTasks
from scheduler.cluster.kube.process.waiting import cancel
from scheduler.cluster.kube.transport.errors import TransportError

News = list[tuple[str, str, str]]


@asynccontextmanager
async def running(work: Callable[[str], Awaitable[None]], at_once: int = 2) -> AsyncIterator[tuple[NodeTasks, News]]:
    """Yields the tasks, and their reports."""
    news: News = []
    tasks = NodeTasks(work, at_once, lambda kind, node, text: news.append((kind, node, text)))
    runner = asyncio.create_task(tasks.run())
    try:
        yield tasks, news
    finally:
        await cancel(runner)


class Work:
    """Waits until the test ends it."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.end = asyncio.Event()

    async def __call__(self, node: str) -> None:
        self.begun.append(node)
        await self.end.wait()


def test_a_node_that_is_added_while_it_is_handled_is_handled_again_afterwards() -> None:
    async def scenario() -> None:
        work = Work()
        async with running(work) as (tasks, _):
            tasks.add("a")
            await until(lambda: work.begun == ["a"])
            tasks.add("a")
            tasks.add("a")
            await asyncio.sleep(0.01)
            assert work.begun == ["a"]
            work.end.set()
            await until(lambda: work.begun == ["a", "a"])

    asyncio.run(scenario())


def test_a_limited_number_of_nodes_is_handled_at_once() -> None:
    async def scenario() -> None:
        work = Work()
        async with running(work, at_once=2) as (tasks, _):
            for node in ("a", "b", "c"):
                tasks.add(node)
            await until(lambda: len(work.begun) == 2)
            await asyncio.sleep(0.01)
            assert work.begun == ["a", "b"]
            work.end.set()
            await until(lambda: work.begun == ["a", "b", "c"])

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [TransportError("connection lost", sent=False), RuntimeError("a defect")])
def test_a_node_whose_work_failed_is_reported_and_handled_again(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "RETRY_SECONDS", 0.01)

    async def scenario() -> None:
        begun: list[str] = []

        async def work(node: str) -> None:
            begun.append(node)
            if begun == ["a"]:
                raise error

        async with running(work) as (tasks, news):
            tasks.add("a")
            await until(lambda: begun == ["a", "a"])
            assert [(kind, node) for kind, node, _ in news] == [("error", "a")]
            assert str(error) in news[0][2]

    asyncio.run(scenario())


def test_of_two_times_for_one_node_the_earlier_stays() -> None:
    async def scenario() -> None:
        begun: list[str] = []

        async def work(node: str) -> None:
            begun.append(node)

        async with running(work) as (tasks, _):
            tasks.add_after("a", 0.01)
            tasks.add_after("a", 600.0)
            await until(lambda: begun == ["a"])

    asyncio.run(scenario())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.001)
