"""A watch whose connection is open and delivers nothing: it is noticed, and resumed without a list."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from scheduler.cluster.kube.operator.handlers import _settings
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.errors import TransportError
from scheduler.cluster.kube.watch import informer as informers
from scheduler.observability.metrics import Metrics
from tests.unit import virtual_time
from tests.unit.cluster.kube.fake_api import Answer, Call, StaticCredentials, serving, until
from tests.unit.cluster.kube.proxy import proxied
from tests.unit.cluster.kube.watch.test_informer import GROUPS, World, a_list, event, group


def test_a_silent_watch_is_noticed_within_a_minute_and_its_end_is_left_to_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[int, float]] = []

    class Client:
        async def follow(self, path: str, params: Mapping[str, str], receive: object, *, longest: float) -> None:
            asked.append((int(params["timeoutSeconds"]), longest))
            assert params["allowWatchBookmarks"] == "true"

    async def scenario() -> None:
        async with serving() as (api, _):
            world = World(api, Client())  # type: ignore[arg-type]
            for share in range(100):
                monkeypatch.setattr(informers, "_SHARE", share / 100)
                with pytest.raises(TransportError):  # it ended as soon as it began
                    await world.informer._watch()

    virtual_time.run(scenario())
    assert all(seconds + 5 <= longest <= 60 for seconds, longest in asked)
    assert {seconds for seconds, _ in asked} == {45, 46, 47, 48, 49, 50}, "those of all processes do not end together"


def test_watches_of_a_process_that_begin_together_end_together() -> None:
    asked: list[str] = []

    class Client:
        async def follow(self, path: str, params: Mapping[str, str], receive: object, *, longest: float) -> None:
            asked.append(params["timeoutSeconds"])

    async def scenario() -> None:
        async with serving() as (api, _):
            for _ in range(20):
                with pytest.raises(TransportError):
                    await World(api, Client()).informer._watch()  # type: ignore[arg-type]

    virtual_time.run(scenario())
    assert len(set(asked)) == 1


def test_kopf_notices_a_silent_watch_within_a_minute() -> None:
    watching = _settings().watching
    assert watching.server_timeout is not None
    assert watching.server_timeout < watching.inactivity_timeout <= 60


def test_a_watch_whose_connection_goes_nowhere_is_resumed_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informers, "WATCH_SECONDS", (1, 1))
    monkeypatch.setattr(informers, "OVERDUE", 0.5)
    versions: list[str] = []
    lists = 0

    async def handler(call: Call, request: web.Request) -> Answer:
        nonlocal lists
        if "watch" not in call.query:
            lists += 1
            return a_list(10, group("a"))
        versions.append(call.query["resourceVersion"])
        response = web.StreamResponse()
        await response.prepare(request)
        first = event("ADDED", group("b", 11)) if len(versions) == 1 else event("ADDED", group("c", 12))
        await response.write(json.dumps(first).encode() + b"\n")
        await asyncio.sleep(60)
        return response

    async def scenario() -> None:
        async with serving() as (api, _):
            api.on("GET", GROUPS, handler)
            port = urlsplit(api.url).port
            assert port is not None
            async with proxied(port) as (proxy, front):
                client = ApiClient(StaticCredentials(f"http://127.0.0.1:{front}"), Metrics())
                await client.start()
                world = World(api, client)
                running = asyncio.create_task(world.informer.run())
                await until(lambda: world.cache.names == {"a", "b"})
                assert proxy.swallow() >= 1
                await until(lambda: world.cache.names == {"a", "b", "c"})
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                await client.close()
            assert versions[:2] == ["10", "11"]
            assert lists == 1

    virtual_time.run(scenario())


def test_an_error_that_no_one_thought_of_does_not_end_a_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handler(call: Call, request: web.Request) -> Answer:
        if "watch" in call.query:
            response = web.StreamResponse()
            await response.prepare(request)
            await asyncio.sleep(60)
        return a_list(10, group("a"))

    async def scenario() -> None:
        async with serving() as (api, client):
            api.on("GET", GROUPS, handler)
            world = World(api, client)
            watched, failures = world.informer._watch, [ZeroDivisionError("no total")]

            async def fails_once() -> Any:
                if failures:
                    raise failures.pop()
                await watched()

            monkeypatch.setattr(world.informer, "_watch", fails_once)
            running = asyncio.create_task(world.informer.run())
            await until(lambda: not failures and any("watch" in call.query for call in api.calls))
            assert not running.done()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    virtual_time.run(scenario())
