"""Events: an Event is created once, counted after that, and never written more often than the interval allows."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from aiohttp import web

from scheduler.api.decisions import EventRecord, ObjectRef
from scheduler.api.reasons import Malformed
from scheduler.cluster.kube.transport.fence import Fence
from scheduler.cluster.kube.write.events import EventRecorder
from scheduler.cluster.kube.write.lanes import make_lanes
from scheduler.observability.metrics import Metrics
from tests.unit import virtual_time
from tests.unit.cluster.kube.fake_api import Answer, Call, FakeApi, refusal, serving, until

POD = ObjectRef("v1", "Pod", "ns", "p", "uid-p")
EVENTS = "/api/v1/namespaces/ns/events"


@asynccontextmanager
async def recording(interval: float, remembered: int = 100) -> AsyncIterator[tuple[FakeApi, EventRecorder]]:
    async with serving() as (api, client):
        fence = Fence()
        fence.open_forever()
        lanes = make_lanes(4)
        api.answer("POST", "/api/v1/namespaces/[^/]+/events", status=201)
        api.answer("PATCH", "/api/v1/namespaces/[^/]+/events/.*")
        yield (
            api,
            EventRecorder(client, lanes, Metrics(), fence, "volcano-py", interval=interval, remembered=remembered),
        )
        await lanes.close()


def event(message: str = "no room") -> EventRecord:
    return EventRecord(POD, "Warning", "FailedScheduling", message)


def test_equal_events_are_counted_and_the_count_is_written_once_per_interval() -> None:
    async def scenario() -> None:
        async with recording(interval=0.3) as (api, recorder):
            for _ in range(3):
                recorder.record(event())
            await until(lambda: api.to("POST", EVENTS))
            await asyncio.sleep(0.05)
            for _ in range(7):
                recorder.record(event())
            await until(lambda: api.to("PATCH", f"{EVENTS}/.*"))
            for _ in range(5):
                recorder.record(event())
            await until(lambda: len(api.to("PATCH", f"{EVENTS}/.*")) == 2)
            (post,) = api.to("POST", EVENTS)
            first, second = api.to("PATCH", f"{EVENTS}/.*")
            assert post.body["involvedObject"]["uid"] == "uid-p"
            assert [call.body["count"] for call in (post, first, second)] == [3, 10, 15]

    virtual_time.run(scenario())


def test_the_count_of_an_event_is_not_written_before_the_interval_ends() -> None:
    async def scenario() -> None:
        async with recording(interval=30) as (api, recorder):
            recorder.record(event())
            await until(lambda: api.to("POST", EVENTS))
            await asyncio.sleep(0.05)
            for _ in range(7):
                recorder.record(event())
            await asyncio.sleep(0.2)
            assert not api.to("PATCH", f"{EVENTS}/.*")

    virtual_time.run(scenario())


def created(api: FakeApi, number: int) -> bool:
    return len(api.to("POST", EVENTS)) == number


def test_other_messages_are_other_events_and_the_oldest_are_forgotten() -> None:
    async def scenario() -> None:
        async with recording(interval=30, remembered=2) as (api, recorder):
            for number, message in enumerate(("a", "b", "c", "a"), start=1):
                recorder.record(event(message))
                await until(partial(created, api, number))
            first, *others, again = [call.body["metadata"]["name"] for call in api.to("POST", EVENTS)]
            assert again == first and len({first, *others}) == 3

    virtual_time.run(scenario())


def test_other_numbers_are_the_same_cause_and_the_event_has_the_latest_message() -> None:
    async def scenario() -> None:
        async with recording(interval=0.3) as (api, recorder):
            recorder.record(event("train-1: 0/5 nodes are available, most free on one node 7500m"))
            await until(lambda: api.to("POST", EVENTS))
            recorder.record(event("train-1: 0/6 nodes are available, most free on one node 1.5Gi"))
            recorder.record(event("train-1: 2/6 nodes are available, most free on one node 500m"))
            await until(lambda: api.to("PATCH", f"{EVENTS}/.*"))
            recorder.record(event("train-2: 2/6 nodes are available, most free on one node 500m"))
            await until(lambda: len(api.to("POST", EVENTS)) == 2)
            (update,) = api.to("PATCH", f"{EVENTS}/.*")
            assert update.body["count"] == 3
            assert update.body["message"] == "train-1: 2/6 nodes are available, most free on one node 500m"

    virtual_time.run(scenario())


@pytest.mark.parametrize("answered", [True, False])
def test_a_restarted_scheduler_continues_the_event_of_its_predecessor(answered: bool) -> None:
    """An attempt whose answer was lost is not counted twice."""

    async def scenario() -> None:
        async with recording(interval=30) as (api, recorder):
            recorder.record(event())
            await until(lambda: api.to("POST", EVENTS))
            (first,) = api.to("POST", EVENTS)
            created = "2020-01-01T00:00:00Z" if answered else first.body["firstTimestamp"]

            async def exists(call: Call, request: web.Request) -> Answer:
                return refusal(409, "AlreadyExists")

            async def patched(call: Call, request: web.Request) -> Answer:
                return {"firstTimestamp": created, "count": 7, **call.body}

            api.on("POST", EVENTS, exists)
            api.on("PATCH", f"{EVENTS}/.*", patched)
            recorder._series.clear()
            recorder.record(event("no room"))
            await until(lambda: len(api.to("PATCH", f"{EVENTS}/.*")) == (2 if answered else 1))
            await asyncio.sleep(0.05)
            counts = [call.body.get("count") for call in api.to("PATCH", f"{EVENTS}/.*")]
            assert counts == ([None, 8] if answered else [None])
            names = {call.body["metadata"]["name"] for call in api.to("POST", EVENTS)}
            assert {call.path.rpartition("/")[2] for call in api.to("PATCH", f"{EVENTS}/.*")} == names

    virtual_time.run(scenario())


def test_an_event_that_expired_on_the_server_is_created_again() -> None:
    async def scenario() -> None:
        async with recording(interval=0.05) as (api, recorder):
            recorder.record(event())
            await until(lambda: api.to("POST", EVENTS))
            await asyncio.sleep(0.1)

            async def expired(call: Call, request: web.Request) -> Answer:
                return refusal(404, "NotFound")

            api.on("PATCH", f"{EVENTS}/.*", expired)
            recorder.record(event())
            await until(lambda: not recorder._series)  # the recorder has seen the answer
            recorder.record(event())
            await until(lambda: len(api.to("POST", EVENTS)) == 2)

    virtual_time.run(scenario())


def test_a_malformed_field_is_reported_on_its_object_and_cluster_wide_ones_in_the_default_namespace() -> None:
    async def scenario() -> None:
        async with recording(interval=1) as (api, recorder):
            recorder.malformed(Malformed("Queue", "", "q", "spec.weight", "0 is below 1"))
            path = "/api/v1/namespaces/default/events"
            await until(lambda: api.to("POST", path))
            body = api.to("POST", path)[0].body
            assert (body["reason"], body["type"]) == ("Malformed", "Warning")
            assert body["message"] == "spec.weight: 0 is below 1; ignored"
            assert body["involvedObject"]["apiVersion"] == "scheduling.volcano.sh/v1beta1"

    virtual_time.run(scenario())
