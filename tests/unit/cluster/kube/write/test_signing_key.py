"""Replicas share one signing key, whichever starts first; without access to the key, each replica has its own."""

import asyncio
import base64
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.fence import Fence
from scheduler.cluster.kube.write.signing_key import IN_USE_SINCE, KEY, MARGIN, SharedKey
from tests.unit import virtual_time
from tests.unit.cluster.kube.fake_api import Answer, Call, FakeApi, refusal, serving

PATH = "/api/v1/namespaces/system/secrets/key"


class Secret:
    """A Secret of that name, with optimistic concurrency."""

    def __init__(self, api: FakeApi) -> None:
        self.data: dict[str, str] = {}
        self.version = 1
        api.on("GET", PATH, self.get)
        api.on("PATCH", PATH, self.patch)

    async def get(self, call: Call, request: web.Request) -> Answer:
        return {"metadata": {"name": "key", "resourceVersion": str(self.version)}, "data": dict(self.data)}

    async def patch(self, call: Call, request: web.Request) -> Answer:
        if call.body["metadata"]["resourceVersion"] != str(self.version):
            return refusal(409, "Conflict")
        self.data |= call.body["data"]
        self.version += 1
        return await self.get(call, request)

    def value(self, name: str) -> bytes:
        return base64.b64decode(self.data[name])


def run(scenario: Callable[[FakeApi, ApiClient, Secret], Awaitable[None]]) -> None:
    async def main() -> None:
        async with serving() as (api, client):
            await scenario(api, client, Secret(api))

    virtual_time.run(main())


def leading() -> Fence:
    fence = Fence()
    fence.open_forever()
    return fence


def agree(*keys: SharedKey) -> bool:
    texts = [shared.key.sign("uid", {"a": 1}) for shared in keys]
    return all(shared.key.verify("uid", text) == {"a": 1} for shared in keys for text in texts)


def test_of_two_that_find_the_secret_empty_one_fills_it_and_both_have_that_key() -> None:
    async def scenario(api: FakeApi, client: ApiClient, secret: Secret) -> None:
        first, second = SharedKey(client, "system", "key"), SharedKey(client, "system", "key")
        await asyncio.gather(first.load(), second.load())
        assert agree(first, second)
        assert len(secret.value(KEY)) == 32
        restarted = SharedKey(client, "system", "key")
        await restarted.load()
        assert agree(first, restarted)

    run(scenario)


def test_bindings_have_to_be_signed_since_the_first_replica_led_and_not_since_a_standby_made_the_key() -> None:
    async def scenario(api: FakeApi, client: ApiClient, secret: Secret) -> None:
        standby = SharedKey(client, "system", "key")
        await standby.load()
        assert standby.key.created == math.inf
        leader = SharedKey(client, "system", "key")
        await leader.load()
        await leader.begin(leading())
        assert time.time() < leader.key.created < time.time() + MARGIN + 2
        assert int(secret.value(IN_USE_SINCE)) == leader.key.created
        await standby.begin(leading())
        assert standby.key.created == leader.key.created
        assert agree(standby, leader)

    run(scenario)


@pytest.mark.parametrize("loaded", [True, False])
def test_a_key_removed_from_the_secret_is_replaced_and_has_another_date(loaded: bool) -> None:
    async def scenario(api: FakeApi, client: ApiClient, secret: Secret) -> None:
        secret.data = {IN_USE_SINCE: base64.b64encode(b"1000").decode()}
        shared = SharedKey(client, "system", "key")
        if loaded:
            await shared.load()
            assert shared.key.created == math.inf
        await shared.begin(leading())
        assert shared.key.created > time.time()

    run(scenario)


@pytest.mark.parametrize("status", [403, 404])
def test_without_access_a_key_of_its_own_signs_nothing_is_demanded_and_one_warning_says_so(status: int) -> None:
    async def scenario(api: FakeApi, client: ApiClient, secret: Secret) -> None:
        api.answer("GET", PATH, {"reason": "Forbidden", "message": "secrets is forbidden"}, status=status)
        shared = SharedKey(client, "system", "key")
        with capture_logs() as logs:
            await shared.load()
            await shared.begin(leading())
        (warning,) = [log for log in logs if log["log_level"] == "warning"]
        assert "after a restart" in warning["event"] and "believed" in warning["event"]
        assert warning["secret"] == "system/key"
        assert shared.key.created == math.inf
        assert agree(shared)

    run(scenario)


@pytest.mark.parametrize(
    "data",
    [
        {KEY: "not base64!"},
        {KEY: base64.b64encode(b"short").decode()},
        {KEY: base64.b64encode(b"k" * 32).decode(), IN_USE_SINCE: base64.b64encode(b"soon").decode()},
    ],
)
def test_a_secret_that_cannot_be_read_is_left_alone_and_none_of_it_is_logged(data: dict[str, str]) -> None:
    async def scenario(api: FakeApi, client: ApiClient, secret: Secret) -> None:
        secret.data = dict(data)
        shared = SharedKey(client, "system", "key")
        with capture_logs() as logs:
            await shared.load()
        assert len(logs) == 1
        assert not any(value in str(logs) for value in data.values())
        assert secret.data == data
        assert shared.key.created == math.inf

    run(scenario)


def test_an_api_server_that_fails_for_a_while_is_asked_again() -> None:
    async def scenario(api: FakeApi, client: ApiClient, secret: Secret) -> None:
        answers: list[Any] = [refusal(500, "InternalError"), refusal(503, "ServiceUnavailable")]

        async def get(call: Call, request: web.Request) -> Answer:
            return answers.pop(0) if answers else await secret.get(call, request)

        api.on("GET", PATH, get)
        shared = SharedKey(client, "system", "key")
        await shared.load()
        assert KEY in secret.data

    run(scenario)


def test_without_a_secret_nothing_is_asked_for() -> None:
    async def scenario(api: FakeApi, client: ApiClient, secret: Secret) -> None:
        shared = SharedKey(client, "system", "")
        await shared.load()
        await shared.begin(leading())
        assert not api.calls

    run(scenario)


def test_a_former_leader_writes_nothing() -> None:
    async def scenario(api: FakeApi, client: ApiClient, secret: Secret) -> None:
        shared = SharedKey(client, "system", "key")
        await shared.load()
        await shared.begin(Fence())
        assert IN_USE_SINCE not in secret.data or not secret.data[IN_USE_SINCE]

    run(scenario)
