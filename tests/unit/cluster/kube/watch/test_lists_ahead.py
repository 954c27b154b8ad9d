"""First lists that are requested before any informer can store their objects."""

import asyncio
from typing import Any

from aiohttp import web

from scheduler.api.kinds import POD_GROUP, Kind
from scheduler.cluster.kube.transport.ratelimit import Backoff
from scheduler.cluster.kube.transport.sources import WatchSource
from scheduler.cluster.kube.watch.informer import Informer
from scheduler.cluster.kube.watch.lists_ahead import ListsAhead
from scheduler.observability.metrics import Metrics
from tests.unit.cluster.kube.fake_api import Answer, Call, FakeApi, WatchFeed, refusal, serving, until

GROUPS = WatchSource(POD_GROUP)


class Sink:
    def __init__(self, *, keeps_originals: bool = False) -> None:
        self.names: set[str] = set()
        self.originals: set[str] = set()
        self._keeps_originals = keeps_originals

    def upsert(self, kind: Kind, obj: Any) -> None:
        self.names.add(obj.metadata.name)

    def delete(self, kind: Kind, namespace: str, name: str) -> None:
        self.names.discard(name)

    def wants_original(self, kind: Kind) -> bool:
        return self._keeps_originals

    def keep_original(self, kind: Kind, namespace: str, name: str, original: object) -> None:
        self.originals.add(name)


def serves(api: FakeApi, *, failures: int = 0) -> None:
    """Two pages of one PodGroup each; the first requests fail."""
    left = [None] * failures

    async def handler(call: Call, request: web.Request) -> Answer:
        if "watch" in call.query:
            return await WatchFeed([])(call, request)
        if left:
            left.pop()
            return refusal(503, "ServiceUnavailable")
        first = "continue" not in call.query
        metadata = {"resourceVersion": "7"} | ({"continue": "t"} if first else {})
        return {"metadata": metadata, "items": [{"metadata": {"name": "a" if first else "b", "namespace": "ns"}}]}

    api.on("GET", GROUPS.path, handler)


def lists(api: FakeApi) -> list[Call]:
    return [call for call in api.calls if call.path == GROUPS.path and "watch" not in call.query]


async def informed(api: FakeApi, client: Any, sink: Sink) -> None:
    """Begins the lists, and lets an informer use them only when they have arrived."""
    ahead = ListsAhead(client, [GROUPS])
    await until(lambda: len(lists(api)) >= 1)
    await asyncio.sleep(0.1)
    assert sink.names == set()
    informer = Informer(
        client, GROUPS, sink, lambda *_: None, Metrics(), backoff=Backoff(0.01, 0.02), originals=sink, ahead=ahead
    )
    task = asyncio.create_task(informer.run())
    await until(informer.synced.is_set)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await ahead.aclose()


def test_an_informer_takes_the_list_that_has_begun_and_lists_nothing_twice() -> None:
    async def scenario() -> None:
        async with serving() as (api, client):
            serves(api)
            sink = Sink()
            await informed(api, client, sink)
            assert sink.names == {"a", "b"}
            assert len(lists(api)) == 2

    asyncio.run(scenario())


def test_an_informer_lists_again_if_the_list_that_has_begun_fails() -> None:
    async def scenario() -> None:
        async with serving() as (api, client):
            serves(api, failures=1)
            sink = Sink()
            await informed(api, client, sink)
            assert sink.names == {"a", "b"}
            assert len(lists(api)) == 3

    asyncio.run(scenario())


def test_originals_are_not_missing() -> None:
    async def scenario() -> None:
        async with serving() as (api, client):
            serves(api)
            sink = Sink(keeps_originals=True)
            await informed(api, client, sink)
            assert sink.originals == {"a", "b"}

    asyncio.run(scenario())


def test_lists_that_nothing_takes_leave_no_requests() -> None:
    async def scenario() -> None:
        async def never(call: Call, request: web.Request) -> Answer:
            await asyncio.sleep(60)
            return None

        async with serving() as (api, client):
            api.on("GET", GROUPS.path, never)
            ahead = ListsAhead(client, [GROUPS])
            await until(lambda: api.calls)
            before = len(asyncio.all_tasks())
            await ahead.aclose()
            assert len(asyncio.all_tasks()) < before
            assert ahead.take(GROUPS) is None

    asyncio.run(scenario())
