"""A new leader finds out whether its watches have received all earlier writes, without reading the objects again."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from scheduler.api.kinds import POD_GROUP, Kind
from scheduler.api.objects import KubeObject
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.sources import WatchSource
from scheduler.cluster.kube.watch import informer_set
from scheduler.cluster.kube.watch.informer import Informer
from scheduler.cluster.kube.watch.informer_set import InformerSet
from scheduler.observability.metrics import Metrics
from tests.unit import virtual_time
from tests.unit.cluster.kube.fake_api import Answer, Call, FakeApi, refusal, serving, until

GROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
METADATA_ONLY = "PartialObjectMetadataList"


class Groups:
    """PodGroups on a server whose watches deliver a change only when ``deliver`` is called."""

    def __init__(self, api: FakeApi, names: dict[str, str]) -> None:
        """``names``: name -> resource version."""
        self.there = names
        self.version = "10"
        self.lists: list[str] = []
        """What was asked for: ``objects``, ``metadata`` or ``version``."""
        self.refuses_metadata = False
        self.short_watches: list[list[dict[str, Any]]] = []
        """The events of each short watch, which then ends."""
        self.short_versions: list[str] = []
        """Where those watches began."""
        self._watch: web.StreamResponse | None = None
        self.opened = asyncio.Event()
        api.on("GET", GROUPS, self._answer)

    async def _answer(self, call: Call, request: web.Request) -> Answer:
        if call.query.get("timeoutSeconds") == str(informer_set.SHORT):
            self.short_versions.append(call.query["resourceVersion"])
            short = web.StreamResponse()
            await short.prepare(request)
            for shown in self.short_watches.pop(0):
                await short.write(json.dumps(shown).encode() + b"\n")
            return short
        if "watch" in call.query:
            self._watch = web.StreamResponse()
            await self._watch.prepare(request)
            self.opened.set()
            await asyncio.sleep(60)
            return self._watch
        metadata_only = METADATA_ONLY in call.headers["Accept"]
        first_only = call.query.get("limit") == "1"
        self.lists.append("version" if first_only else "metadata" if metadata_only else "objects")
        if metadata_only and self.refuses_metadata:
            return refusal(406, "NotAcceptable")
        items = [{"metadata": metadata(name, version)} for name, version in self.there.items()]
        return {"metadata": {"resourceVersion": self.version}, "items": items}

    async def deliver(self, type_: str, name: str, version: str) -> None:
        """Let the watch report a change of an object."""
        await self.send(event(type_, name, version))

    async def send(self, event: dict[str, Any]) -> None:
        assert self._watch is not None
        await self._watch.write(json.dumps(event).encode() + b"\n")


def event(type_: str, name: str, version: str) -> dict[str, Any]:
    return {"type": type_, "object": {"metadata": metadata(name, version)}}


def metadata(name: str, version: str) -> dict[str, Any]:
    return {"name": name, "namespace": "ns", "resourceVersion": version} if name else {"resourceVersion": version}


class Sink:
    def __init__(self) -> None:
        self.names: set[str] = set()

    def upsert(self, kind: Kind, obj: KubeObject) -> None:
        self.names.add(obj.metadata.name)

    def delete(self, kind: Kind, namespace: str, name: str) -> None:
        self.names.discard(name)


class World:
    def __init__(self, api: FakeApi, client: ApiClient) -> None:
        self.groups = Groups(api, {"a": "3", "b": "4"})
        self.sink = Sink()
        self.informer = Informer(client, WatchSource(POD_GROUP), self.sink, lambda malformed, about: None, Metrics())
        self.informers = InformerSet([self.informer])
        self.stop = asyncio.Event()

    async def catch_up(self) -> bool:
        return await self.informers.catch_up((POD_GROUP,), self.stop)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the expected events arrive in time, however slow the machine is."""
    monkeypatch.setattr(informer_set, "LAG", 30.0)


@asynccontextmanager
async def watched() -> AsyncIterator[World]:
    """An informer that has listed two PodGroups and watches."""
    async with serving() as (api, client):
        world = World(api, client)
        world.informers.start()
        await world.groups.opened.wait()
        world.groups.lists.clear()
        try:
            yield world
        finally:
            await world.informers.close()


def test_where_nothing_has_changed_nothing_is_listed_again() -> None:
    async def scenario() -> None:
        async with watched() as w:
            w.groups.version = "20"
            assert await w.catch_up()
            assert w.groups.lists == ["metadata"]

    virtual_time.run(scenario())


@pytest.mark.parametrize(
    ("there", "event"),
    [
        ({"a": "3", "b": "15"}, ("MODIFIED", "b", "15")),
        ({"a": "3", "b": "15"}, ("MODIFIED", "b", "16")),
        ({"a": "3", "b": "4", "c": "15"}, ("ADDED", "c", "15")),
        ({"a": "3"}, ("DELETED", "b", "15")),
        ({"a": "3", "b": "15"}, ("BOOKMARK", "", "20")),
    ],
)
def test_a_watch_that_lags_is_waited_for(there: dict[str, str], event: tuple[str, str, str]) -> None:
    async def scenario() -> None:
        async with watched() as w:
            w.groups.there, w.groups.version = there, "20"
            waiting = asyncio.create_task(w.catch_up())
            await until(lambda: w.groups.lists)
            await asyncio.sleep(0.05)
            assert not waiting.done()
            await w.groups.deliver(*event)
            assert await asyncio.wait_for(waiting, 30)
            assert w.groups.lists == ["metadata"]

    virtual_time.run(scenario())


def test_a_watch_that_has_delivered_a_later_version_has_delivered_the_earlier_ones() -> None:
    async def scenario() -> None:
        async with watched() as w:
            w.groups.there, w.groups.version = {"a": "3", "c": "12"}, "20"
            await w.groups.deliver("ADDED", "d", "21")
            await until(lambda: "d" in w.sink.names)
            assert await w.catch_up()
            assert w.groups.lists == ["metadata"]

    virtual_time.run(scenario())


def test_a_watch_that_does_not_catch_up_is_restarted_with_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informer_set, "LAG", 0.05)

    async def scenario() -> None:
        async with watched() as w:
            w.groups.there, w.groups.version = {"a": "3", "c": "15"}, "20"
            assert await w.catch_up()
            assert w.groups.lists == ["metadata", "objects"]
            assert w.sink.names == {"a", "c"}

    virtual_time.run(scenario())


def test_versions_that_are_no_numbers_are_only_compared_for_being_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informer_set, "LAG", 0.05)

    async def scenario() -> None:
        async with watched() as w:
            w.groups.version = "z9"
            assert await w.catch_up()
            assert w.groups.lists == ["metadata"]
            w.groups.there = {"a": "3", "b": "x1"}
            assert await w.catch_up()
            assert w.groups.lists[1:] == ["metadata", "objects"]

    virtual_time.run(scenario())


def test_a_server_that_returns_no_versions_is_listed_from_again() -> None:
    async def scenario() -> None:
        async with watched() as w:
            w.groups.refuses_metadata = True
            assert await w.catch_up()
            assert w.groups.lists == ["metadata", "objects"]

    virtual_time.run(scenario())


def test_an_object_that_cannot_be_read_does_not_make_a_watch_lag() -> None:
    async def scenario() -> None:
        async with watched() as w:
            bad = {"type": "ADDED", "object": {"metadata": metadata("bad", "12"), "spec": {"minMember": "many"}}}
            await w.groups.send(bad)
            await w.groups.deliver("ADDED", "good", "13")
            await until(lambda: "good" in w.sink.names)
            w.groups.there, w.groups.version = {"a": "3", "b": "4", "bad": "12", "good": "13"}, "20"
            assert await w.catch_up()
            assert w.groups.lists == ["metadata"]

    virtual_time.run(scenario())


def test_a_process_that_is_stopped_meanwhile_does_not_wait() -> None:
    async def scenario() -> None:
        async with watched() as w:
            w.groups.there, w.groups.version = {"a": "99"}, "99"
            waiting = asyncio.create_task(w.catch_up())
            await until(lambda: w.groups.lists)
            w.stop.set()
            assert await asyncio.wait_for(waiting, 30) is False

    virtual_time.run(scenario())


@asynccontextmanager
async def many_watched() -> AsyncIterator[World]:
    """An informer that has more PodGroups than one page of a list, the last of them in version 15."""
    async with watched() as w:
        w.informer.page = 2
        await w.groups.deliver("ADDED", "c", "15")
        await until(lambda: "c" in w.sink.names)
        w.groups.there, w.groups.version = {"a": "3", "b": "4", "c": "15"}, "20"
        yield w


def test_among_many_objects_a_short_watch_shows_that_no_change_is_missing() -> None:
    async def scenario() -> None:
        async with many_watched() as w:
            w.groups.short_watches = [[event("BOOKMARK", "", "20")]]
            assert await w.catch_up()
            assert (w.groups.lists, w.groups.short_versions) == (["version"], ["15"])

    virtual_time.run(scenario())


@pytest.mark.parametrize("end", [("BOOKMARK", "", "20"), ("MODIFIED", "d", "21")])
def test_among_many_objects_a_change_that_a_short_watch_shows_is_waited_for(end: tuple[str, str, str]) -> None:
    async def scenario() -> None:
        async with many_watched() as w:
            changes = [("MODIFIED", "a", "17"), ("DELETED", "b", "18"), end]
            w.groups.short_watches = [[event(*change) for change in changes]]
            waiting = asyncio.create_task(w.catch_up())
            await until(lambda: w.groups.short_versions)
            for change in changes:
                await asyncio.sleep(0.05)
                if change[0] != "BOOKMARK":
                    assert not waiting.done()
                    await w.groups.deliver(*change)
            assert await asyncio.wait_for(waiting, 30)
            assert w.groups.lists == ["version"]
            assert "b" not in w.sink.names

    virtual_time.run(scenario())


def test_among_many_objects_no_watch_is_needed_if_the_first_one_is_there() -> None:
    async def scenario() -> None:
        async with many_watched() as w:
            w.groups.version = "15"
            assert await w.catch_up()
            assert (w.groups.lists, w.groups.short_versions) == (["version"], [])

    virtual_time.run(scenario())


def test_many_objects_are_listed_while_the_watch_is_at_no_version() -> None:
    async def scenario() -> None:
        async with many_watched() as w:
            w.informer.version = ""
            assert await w.catch_up()
            assert (w.groups.lists, w.groups.short_versions) == (["metadata"], [])

    virtual_time.run(scenario())


@pytest.mark.parametrize(
    "shown",
    [
        [],
        [event("BOOKMARK", "", "19")],
        [{"type": "ERROR", "object": {"kind": "Status", "metadata": {}, "code": 410}}],
        [{"type": "BOOKMARK"}],
    ],
)
def test_many_objects_are_listed_where_a_short_watch_shows_too_little(shown: list[dict[str, Any]]) -> None:
    async def scenario() -> None:
        async with many_watched() as w:
            w.groups.short_watches = [shown]
            assert await w.catch_up()
            assert w.groups.lists == ["version", "metadata"]

    virtual_time.run(scenario())


def test_many_objects_are_listed_whole_if_the_watch_does_not_deliver_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informer_set, "LAG", 0.05)

    async def scenario() -> None:
        async with many_watched() as w:
            w.groups.short_watches = [[event("DELETED", "b", "18"), event("BOOKMARK", "", "20")]]
            w.groups.there = {"a": "3", "c": "15"}
            assert await w.catch_up()
            assert w.groups.lists[:2] == ["version", "objects"]
            assert w.sink.names == {"a", "c"}

    virtual_time.run(scenario())
