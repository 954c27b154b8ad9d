"""A list of custom objects waits until the API server, which has just started, has them in its memory."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from itertools import pairwise

import msgspec
import pytest
from aiohttp import web

from scheduler.api.kinds import CONFIG_MAP, POD, POD_GROUP, QUEUE, Kind
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.sources import WatchSource
from scheduler.cluster.kube.watch import list_preconditions
from scheduler.cluster.kube.watch.pages import pages_of_objects
from tests.unit import virtual_time
from tests.unit.cluster.kube.fake_api import Answer, Call, FakeApi, refusal, serving

READING = "storage is (re)initializing"


class Server:
    """An API server that has a kind in its memory after some questions."""

    def __init__(self, api: FakeApi, kind: Kind, refuse: Callable[[], web.Response | None]) -> None:
        """``refuse``: the answer to a question; None if the API server has the objects."""
        self.asked: list[tuple[str, str]] = []
        """The path and the resource version of each request."""
        self._refuse = refuse
        api.on("GET", f"/api.*/{kind.plural}", self._answer)

    async def _answer(self, call: Call, request: web.Request) -> Answer:
        self.asked.append((call.path, call.query.get("resourceVersion", "")))
        if call.query.get("resourceVersion") == "0" and (refused := self._refuse()) is not None:
            return refused
        return {"metadata": {"resourceVersion": "1"}, "items": []}


def reading(times: int) -> Callable[[], web.Response | None]:
    """Refuses the first questions."""
    left = iter(range(times))
    return lambda: None if next(left, None) is None else refusal(429, "TooManyRequests", READING, Retry_After="1")


async def list_all(client: ApiClient, source: WatchSource) -> None:
    async with aclosing(pages_of_objects(client, source, 0, msgspec.json.Decoder(source.kind.struct))) as pages:
        async for _ in pages:
            pass


def requests(source: WatchSource, refuse: Callable[[], web.Response | None]) -> list[tuple[str, str]]:
    """The requests that a list of a source sends."""

    async def scenario() -> list[tuple[str, str]]:
        async with serving() as (api, client):
            server = Server(api, source.kind, refuse)
            await list_all(client, source)
            return server.asked

    return virtual_time.run(scenario())


@pytest.mark.parametrize(
    ("source", "asked"),
    [
        (WatchSource(POD_GROUP), "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"),
        (WatchSource(POD_GROUP, "team"), "/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups"),
        (WatchSource(QUEUE), "/apis/scheduling.volcano.sh/v1beta1/queues"),
    ],
)
def test_custom_objects_are_listed_once_the_server_has_them_in_memory(source: WatchSource, asked: str) -> None:
    assert requests(source, reading(3)) == [*[(asked, "0")] * 4, (source.path, "")]


@pytest.mark.parametrize("kind", [POD, CONFIG_MAP])
def test_built_in_objects_are_listed_at_once(kind: Kind) -> None:
    assert requests(WatchSource(kind), reading(3)) == [(kind.path, "")]


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_server_that_does_not_answer_the_question_is_asked_for_the_list(status: int) -> None:
    assert len(requests(WatchSource(POD_GROUP), lambda: refusal(status, "Error"))) == 2


def test_a_few_objects_are_waited_for_in_short_pauses_and_many_in_long_ones() -> None:
    async def pauses() -> list[float]:
        times: list[float] = []

        def refuse() -> web.Response:
            times.append(asyncio.get_running_loop().time())
            return refusal(429, "TooManyRequests", READING)

        async with serving() as (api, client):
            Server(api, POD_GROUP, refuse)
            await list_all(client, WatchSource(POD_GROUP))
        return [later - earlier for earlier, later in pairwise(times)]

    found = virtual_time.run(pauses())

    assert found[:5] == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.5], abs=0.03)
    assert max(found) == pytest.approx(0.5, abs=0.03)


def test_after_some_time_the_list_is_requested_all_the_same() -> None:
    asked = requests(WatchSource(POD_GROUP), reading(10_000))
    assert asked[-1] == (POD_GROUP.path, "")
    assert len(asked) - 1 == pytest.approx(list_preconditions.PATIENCE / list_preconditions.PAUSE, rel=0.1)


def test_a_list_that_is_no_longer_wanted_asks_no_more() -> None:
    async def scenario() -> int:
        async with serving() as (api, client):
            server = Server(api, POD_GROUP, reading(10_000))
            listing = asyncio.create_task(list_all(client, WatchSource(POD_GROUP)))
            await asyncio.sleep(list_preconditions.PAUSE * 3)
            listing.cancel()
            await asyncio.wait([listing])
            asked = len(server.asked)
            await asyncio.sleep(list_preconditions.PAUSE * 10)
            return len(server.asked) - asked

    assert virtual_time.run(scenario()) == 0
