"""The header Warning: its texts, and who receives them."""

import asyncio

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cluster.kube.transport.aiohttp_transport import AiohttpTransport
from scheduler.cluster.kube.transport.answers import warning_texts
from scheduler.cluster.kube.transport.errors import ApiError
from scheduler.cluster.kube.transport.ratelimit import CallPriority
from tests.unit.cluster.kube.fake_api import Answer, Call, serving


@pytest.mark.parametrize(
    ("header", "texts"),
    [
        ('299 - "unknown field \\"spec.minAvalable\\""', ['unknown field "spec.minAvalable"']),
        ('299 - "one, two", 299 k8s.io "three"', ["one, two", "three"]),
        ('299 - "one" "Thu, 01 Jan 2026 00:00:00 GMT",299 - "two"', ["one", "two"]),
        ('110 cache "Response is Stale", 299 - "one"', ["one"]),
        ('299 - "a \\\\ b"', ["a \\ b"]),
        ('299 - "größer als 8"', ["größer als 8"]),
        ('299 - ""', []),
        ('299 - "one", 299 - "cut', ["one"]),
        ("", []),
        ("no warning", []),
        ('299 - "one" and more, 299 - "two"', []),
    ],
)
def test_the_texts_of_a_header(header: str, texts: list[str]) -> None:
    assert list(warning_texts(header)) == texts


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1), max_size=4))
def test_texts_are_read_as_they_were_written(texts: list[str]) -> None:
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    assert list(warning_texts(", ".join(f'299 - "{each}"' for each in quoted))) == texts


@given(st.text())
def test_any_header_is_read(header: str) -> None:
    list(warning_texts(header))


@pytest.mark.parametrize("own", [True, False], ids=["connections of our own", "aiohttp"])
def test_a_client_reports_the_warnings_of_every_answer(own: bool) -> None:
    def warned(response: web.StreamResponse, *texts: str) -> web.StreamResponse:
        for text in texts:
            response.headers.add("Warning", f'299 - "{text}"')
        return response

    async def accepted(call: Call, request: web.Request) -> Answer:
        return warned(web.json_response({}), "first, accepted", "second")

    async def refused(call: Call, request: web.Request) -> Answer:
        return warned(web.json_response({"message": "no"}, status=422), "refused")

    async def streamed(call: Call, request: web.Request) -> Answer:
        return warned(web.Response(text="line\n"), "streamed")

    async def scenario() -> list[str]:
        said: list[str] = []
        async with serving(warn=said.append) as (api, client):
            if not own:
                client._transport = AiohttpTransport(client._access)
            api.on("POST", "/accepted", accepted)
            api.on("POST", "/refused", refused)
            api.on("GET", "/streamed", streamed)
            api.answer("GET", "/silent")
            await client.request("POST", "/accepted", priority=CallPriority.READ, body=b"{}")
            with pytest.raises(ApiError):
                await client.request("POST", "/refused", priority=CallPriority.READ, body=b"{}")
            await client.request("GET", "/silent", priority=CallPriority.READ)
            lines: list[bytes] = []
            await client.follow("/streamed", {}, lines.extend)
            assert lines == [b"line"]
        return said

    assert asyncio.run(scenario()) == ["first, accepted", "second", "refused", "streamed"]
