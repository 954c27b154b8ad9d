"""Creations and changes of objects by simulated components."""

import asyncio

from scheduler.api.kinds import CONFIG_MAP
from scheduler.cluster.kube.playground.writes import PlaygroundWriter
from scheduler.playground.objects import Put
from tests.unit.cluster.kube.fake_api import FakeApi, serving

MAPS = "/api/v1/namespaces/kube-system/configmaps"
REPORT = f"{MAPS}/report"


def a_report(text: str) -> Put:
    metadata = {"name": "report", "namespace": "kube-system"}
    return Put(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}})


def requests(api: FakeApi) -> list[tuple[str, str, str]]:
    return [(call.method, call.path, call.body["data"]["text"]) for call in api.calls]


def test_a_report_is_created_and_then_changed_by_one_request_each() -> None:
    async def scenario() -> None:
        async with serving() as (api, client):
            api.answer("POST", MAPS, {"metadata": {"name": "report"}}, 201)
            api.answer("PATCH", REPORT, {"metadata": {"name": "report"}})
            writer = PlaygroundWriter(client)
            for text in ("a", "b", "c"):
                await writer.carry_out(a_report(text))
            assert requests(api) == [("POST", MAPS, "a"), ("PATCH", REPORT, "b"), ("PATCH", REPORT, "c")]

    asyncio.run(scenario())


def test_a_report_that_exists_already_is_changed() -> None:
    async def scenario() -> None:
        async with serving() as (api, client):
            api.answer("POST", MAPS, {"reason": "AlreadyExists", "code": 409}, 409)
            api.answer("PATCH", REPORT, {"metadata": {"name": "report"}})
            await PlaygroundWriter(client).carry_out(a_report("a"))
            assert requests(api) == [("POST", MAPS, "a"), ("PATCH", REPORT, "a")]

    asyncio.run(scenario())


def test_a_report_that_was_deleted_is_created_again() -> None:
    async def scenario() -> None:
        async with serving() as (api, client):
            api.answer("POST", MAPS, {"metadata": {"name": "report"}}, 201)
            writer = PlaygroundWriter(client)
            await writer.carry_out(a_report("a"))
            await writer.carry_out(a_report("b"))  # there is no handler for PATCH: 404
            assert requests(api) == [("POST", MAPS, "a"), ("PATCH", REPORT, "b"), ("POST", MAPS, "b")]

    asyncio.run(scenario())
