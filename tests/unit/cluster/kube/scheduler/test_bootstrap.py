"""The Queues that have to exist are made, each whatever becomes of the other."""

import asyncio

from aiohttp import web

from scheduler.api.scheduling import Queue
from scheduler.cluster.kube.scheduler.session_preconditions import ensure_queues
from scheduler.cluster.kube.transport.fence import Fence
from tests.unit.cluster.kube.fake_api import Answer, Call, refusal, serving, until

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


def open_fence() -> Fence:
    fence = Fence()
    fence.open_forever()
    return fence


def test_both_are_made_where_they_lack() -> None:
    async def scenario() -> None:
        made: list[Queue] = []
        async with serving() as (api, client):

            async def handler(call: Call, request: web.Request) -> Answer:
                if call.body["metadata"]["name"] == "root":
                    return refusal(409, "AlreadyExists")
                return web.json_response(call.body, status=201)

            api.on("POST", QUEUES, handler)
            await ensure_queues(client, "default", open_fence(), made.append)
        assert [(queue.metadata.name, queue.spec.reclaimable) for queue in made] == [("default", True)]

    asyncio.run(scenario())


def test_one_that_is_refused_does_not_hold_up_the_other() -> None:
    async def scenario() -> None:
        made: list[Queue] = []
        async with serving() as (api, client):

            async def handler(call: Call, request: web.Request) -> Answer:
                if call.body["metadata"]["name"] == "root":
                    return refusal(403, "Forbidden", "denied by a webhook")
                return web.json_response(call.body, status=201)

            api.on("POST", QUEUES, handler)
            trying = asyncio.create_task(ensure_queues(client, "default", open_fence(), made.append))
            await until(lambda: made)
            assert not trying.done()
            trying.cancel()

    asyncio.run(scenario())
