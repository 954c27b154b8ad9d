"""The poller repeats its polls, follows the configuration, and survives any response."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from scheduler.api.usage import NodeUsage
from scheduler.cluster.usage import UsagePoller, poller
from scheduler.framework.configuration import SourceType, UsageSource
from scheduler.observability.metrics import Metrics
from tests.unit.cluster.kube.fake_api import until
from tests.unit.cluster.servers import serving


class World:
    def __init__(self, *names: str) -> None:
        self.delivered: list[Mapping[str, NodeUsage]] = []
        self.metrics = Metrics()
        self.poller = UsagePoller(lambda: names, self.delivered.append, self.metrics, None)

    def polls(self, result: str) -> float:
        return self.metrics.registry.get_sample_value("volcano_py_node_usage_polls_total", {"result": result}) or 0


def vector(**loads: str) -> web.Response:
    result = [{"metric": {"instance": name}, "value": [1.0, load]} for name, load in loads.items()]
    return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})


def run(scenario: Callable[[World], Awaitable[None]], *names: str) -> None:
    async def main() -> None:
        world = World(*names)
        try:
            await scenario(world)
        finally:
            await world.poller.close()

    asyncio.run(main())


def source(address: str, interval: float = 0.01) -> UsageSource:
    return UsageSource(SourceType.PROMETHEUS, address, interval)


def test_the_poller_delivers_the_usage_of_each_poll() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return vector(n1="40")

    async def scenario(world: World) -> None:
        async with serving(handler) as address:
            world.poller.set_source(source(address))
            await world.poller.first_usage()
            await until(lambda: len(world.delivered) > 1)
        assert world.delivered[0]["n1"].cpu == 40.0 and world.delivered[0].keys() == {"n1"}
        assert world.polls("success") >= 2
        assert world.metrics.registry.get_sample_value("volcano_py_nodes_with_usage") == 1

    run(scenario, "n1", "n2")


def test_a_failing_source_is_logged_once_counted_and_polled_again() -> None:
    answers: list[Callable[[], Any]] = [
        lambda: web.Response(status=500),
        lambda: web.Response(status=500),
        lambda: web.Response(text="{}"),
    ]

    async def handler(request: web.Request) -> web.StreamResponse:
        return answers.pop(0)() if answers else vector(n1="7")

    async def scenario(world: World) -> None:
        async with serving(handler) as address:
            world.poller.set_source(source(address))
            await until(lambda: world.delivered)
        assert world.polls("error") == 3

    with capture_logs() as logs:
        run(scenario, "n1")
    assert sum("status 500" in log.get("error", "") for log in logs) == 1
    assert [log["event"] for log in logs].count("node usage available again") == 1


def test_an_unexpected_exception_does_not_stop_the_poller(monkeypatch: pytest.MonkeyPatch) -> None:
    class FailsOnce:
        tries = 0

        async def measure(self, nodes: object) -> dict[str, NodeUsage]:
            self.tries += 1
            if self.tries == 1:
                raise ZeroDivisionError
            return {"n1": NodeUsage(1, 2, 3)}

    class OpenSource:
        async def __aenter__(self) -> FailsOnce:
            return FailsOnce()

        async def __aexit__(self, *error: object) -> None:
            return None

    monkeypatch.setattr(poller, "open_source", lambda settings, get: OpenSource())

    async def scenario(world: World) -> None:
        world.poller.set_source(source("http://p"))
        await until(lambda: world.delivered)
        assert world.polls("error") == 1

    run(scenario, "n1")


def test_the_poller_follows_a_change_of_the_source_and_its_removal() -> None:
    requested: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        requested.append(request.path.split("/")[1])
        return vector(n1="1")

    async def scenario(world: World) -> None:
        async with serving(handler) as address:
            world.poller.set_source(source(f"{address}/one"))
            await until(lambda: "one" in requested)
            world.poller.set_source(source(f"{address}/two"))
            await until(lambda: "two" in requested)
            requested.clear()
            await until(lambda: len(requested) > 3)
            assert "one" not in requested[1:]
            world.poller.set_source(None)
            async with asyncio.timeout(30):  # until the server has seen what was sent before
                seen = -1
                while seen != len(requested):
                    seen = len(requested)
                    await asyncio.sleep(0.05)

    run(scenario, "n1")


def test_configuring_the_same_source_again_does_not_restart_the_poller() -> None:
    requested: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        requested.append(request.path)
        return vector(n1="1")

    async def scenario(world: World) -> None:
        async with serving(handler) as address:
            world.poller.set_source(source(address, 60))
            await until(lambda: world.delivered)
            world.poller.set_source(source(address, 60))
            await asyncio.sleep(0.05)
            assert len(requested) == 2  # cpu and memory, once

    run(scenario, "n1")


def test_without_a_source_waiting_for_the_first_answer_returns_at_once() -> None:
    async def scenario(world: World) -> None:
        await world.poller.first_usage()
        assert not world.delivered

    run(scenario, "n1")
