"""Informers that are started later or again, and the garbage collector while the first lists arrive."""

import asyncio
import gc

import pytest
from aiohttp import web

from scheduler.api.kinds import CONFIG_MAP
from scheduler.cache import ClusterCache
from scheduler.cluster.kube.transport.sources import WatchSource
from scheduler.cluster.kube.watch.informer import Informer
from scheduler.cluster.kube.watch.informer_set import LISTED_OBJECTS, InformerSet, long_lived_objects
from scheduler.observability.metrics import Metrics
from tests.unit.cluster.kube.fake_api import Answer, Call, WatchFeed, serving


def test_one_object_is_chosen_by_the_server() -> None:
    source = WatchSource(CONFIG_MAP, "devices", name="mine")
    assert source.selection == {"fieldSelector": "metadata.name=mine"}
    assert str(source) == "configmaps mine in devices"


def test_an_informer_that_is_added_lists_and_watches_its_object() -> None:
    async def scenario() -> None:
        cache, feed = ClusterCache(["s"]), WatchFeed([])
        raw = {"metadata": {"name": "mine", "namespace": "devices", "uid": "u"}, "data": {"k": "v"}}

        async def handler(call: Call, request: web.Request) -> Answer:
            if "watch" in call.query:
                return await feed(call, request)
            return {"metadata": {"resourceVersion": "7"}, "items": [raw]}

        async with serving() as (api, client):
            api.on("GET", "/api/v1/namespaces/devices/configmaps", handler)
            watching = InformerSet([])
            source = WatchSource(CONFIG_MAP, "devices", name="mine")
            watching.add(Informer(client, source, cache, lambda malformed, about: None, Metrics()))
            async with asyncio.timeout(30):
                assert await watching.listed()
            await watching.close()
            assert all(call.query["fieldSelector"] == "metadata.name=mine" for call in api.calls)
        assert cache.snapshot(0).config_maps["devices/mine"].data == {"k": "v"}

    asyncio.run(scenario())


def test_an_informer_that_is_listed_again_by_two_at_a_time_runs_once() -> None:
    async def scenario() -> None:
        async def handler(call: Call, request: web.Request) -> Answer:
            if "watch" in call.query:
                return await WatchFeed([])(call, request)
            return {"metadata": {"resourceVersion": "7"}, "items": []}

        async with serving() as (api, client):
            api.on("GET", "/api/v1/configmaps", handler)
            informer = Informer(client, WatchSource(CONFIG_MAP), ClusterCache(["s"]), lambda *_: None, Metrics())
            watching, stop = InformerSet([informer]), asyncio.Event()
            watching.start()
            async with asyncio.timeout(30):
                assert await watching.synced(stop)
                await asyncio.gather(*(watching.list_again((CONFIG_MAP,), stop) for _ in range(2)))
            running = [task for task in asyncio.all_tasks() if "Informer.run" in repr(task.get_coro())]
            assert len(running) == 1
            await watching.close()

    asyncio.run(scenario())


def test_the_garbage_collector_runs_rarely_while_lists_arrive_and_skips_them_afterwards() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    try:
        with long_lived_objects():
            assert gc.get_threshold() == (LISTED_OBJECTS, *before[1:])
            listed = [[number] for number in range(1000)]
        assert gc.get_threshold() == before
        assert gc.get_freeze_count() >= frozen + len(listed)
    finally:
        gc.unfreeze()


def test_the_thresholds_of_the_garbage_collector_are_restored_after_an_error() -> None:
    before = gc.get_threshold()
    with pytest.raises(OSError, match="unreachable"), long_lived_objects():
        raise OSError("unreachable")
    assert gc.get_threshold() == before
