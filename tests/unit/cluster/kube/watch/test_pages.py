"""Lists page by page: pages are requested ahead of their reader, compressed, and delivered in order."""

import asyncio
import gzip
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
from aiohttp import web

from scheduler.api.kinds import POD, POD_GROUP
from scheduler.api.objects import Pod
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.errors import ApiError, TransportError
from scheduler.cluster.kube.transport.sources import WatchSource
from scheduler.cluster.kube.watch import pages as module
from scheduler.cluster.kube.watch.pages import (
    AHEAD,
    AT_ONCE,
    DECODED,
    GoneError,
    Listed,
    pages_of_heads,
    pages_of_objects,
)
from tests.unit.cluster.kube.fake_api import Answer, Call, FakeApi, serving, until

PODS = WatchSource(POD)
decoder = msgspec.json.Decoder(Pod)


def page(number: int, last: int, *, metadata_first: bool = True, **more: Any) -> dict[str, Any]:
    """A page with one Pod, as API servers write it: of built-in kinds the metadata comes first, of others last."""
    metadata = {"resourceVersion": "7"} | ({"continue": f"t{number + 1}"} if number < last else {}) | more
    items = [
        {"metadata": {"name": f"p{number}", "annotations": {"x": '}],"kind":"PodList","metadata":{"continue":"y'}}}
    ]
    if metadata_first:
        return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}
    return {"apiVersion": "v1", "items": items, "kind": "PodList", "metadata": metadata}


def number_of(call: Call) -> int:
    """The number of the page that a request is for."""
    return int(call.query.get("continue", "t0").removeprefix("t"))


def written(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, separators=(",", ":")).encode()


async def names(client: ApiClient, source: WatchSource = PODS) -> list[str]:
    found: list[str] = []
    async with aclosing(pages_of_objects(client, source, 1, decoder)) as pages:
        async for each in pages:
            found += [item.object.metadata.name for item in each.items or () if item.object is not None]
    return found


@pytest.mark.parametrize("metadata_first", [True, False])
def test_all_pages_are_handed_out_in_order(metadata_first: bool) -> None:
    async def scenario() -> None:
        async def handler(call: Call, request: web.Request) -> Answer:
            assert call.query["limit"] == "1"
            answer = page(number_of(call), 9, metadata_first=metadata_first)
            return web.Response(body=written(answer), content_type="application/json")

        async with serving() as (api, client):
            api.on("GET", PODS.path, handler)
            assert await names(client) == [f"p{number}" for number in range(10)]
            assert [number_of(call) for call in api.calls] == list(range(10)), "each page once"

    asyncio.run(scenario())


def test_the_next_page_is_requested_while_the_first_is_being_sent() -> None:
    async def scenario() -> None:
        async with serving() as (api, client):

            async def handler(call: Call, request: web.Request) -> Answer:
                body = written(page(number_of(call), 2))
                response = web.StreamResponse()
                await response.prepare(request)
                await response.write(body[:-20])
                await until(lambda: len(api.calls) == 3)  # for ever, if no request is sent before this page is whole
                await response.write(body[-20:])
                return response

            api.on("GET", PODS.path, handler)
            assert await names(client) == ["p0", "p1", "p2"]

    asyncio.run(scenario())


async def read_one_and_wait(pages: AsyncIterator[object], api: FakeApi) -> None:
    """Reads a page, and waits until the largest possible number of pages was requested ahead."""
    await anext(pages)
    await until(lambda: len(api.calls) == AHEAD + 1)
    await asyncio.sleep(0.1)


def test_a_reader_that_stops_for_a_while_limits_the_pages_that_wait_for_it() -> None:
    async def scenario() -> None:
        async def handler(call: Call, request: web.Request) -> Answer:
            return web.Response(body=written(page(number_of(call), 20)))

        async with serving() as (api, client):
            api.on("GET", PODS.path, handler)
            async with aclosing(pages_of_objects(client, PODS, 1, decoder)) as pages:
                await read_one_and_wait(pages, api)
                assert len(api.calls) == AHEAD + 1
                rest = [each async for each in pages]
            assert len(rest) == 20

    asyncio.run(scenario())


def test_pages_wait_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async def handler(call: Call, request: web.Request) -> Answer:
            body = gzip.compress(written(page(number_of(call), 20)))
            return web.Response(body=body, headers={"Content-Encoding": "gzip"})

        inflated: list[bytes] = []
        inflate = module._inflated

        def counted(path: str, body: bytes) -> bytes:
            inflated.append(body)
            return inflate(path, body)

        monkeypatch.setattr(module, "_inflated", counted)
        async with serving() as (api, client):
            api.on("GET", PODS.path, handler)
            async with aclosing(pages_of_objects(client, PODS, 1, decoder)) as pages:
                await read_one_and_wait(pages, api)
                assert len(inflated) == 1 + DECODED
                rest = [each async for each in pages]
            assert len(rest) == 20

    asyncio.run(scenario())


TEXT = b'{"items":[]}' * 1000


def with_file_name() -> bytes:
    file = io.BytesIO()
    with gzip.GzipFile("list.json", "wb", fileobj=file, mtime=0) as compressed:
        compressed.write(TEXT)
    return file.getvalue()


@pytest.mark.parametrize("body", [TEXT, gzip.compress(TEXT, 1, mtime=0), with_file_name()])
def test_an_answer_is_decompressed_whatever_its_header(body: bytes) -> None:
    assert module._inflated("/pods", body) == TEXT


@pytest.mark.parametrize("cut", [3, 12, 40, -9, -8, -1])
def test_an_answer_that_is_torn_is_an_error(cut: int) -> None:
    with pytest.raises(TransportError, match="GET /pods: the compressed answer is malformed"):
        module._inflated("/pods", gzip.compress(TEXT)[:cut])


def test_the_api_server_encodes_few_pages_at_once() -> None:
    async def scenario() -> None:
        async with serving() as (api, client):
            go_on = asyncio.Event()

            async def handler(call: Call, request: web.Request) -> Answer:
                body = written(page(number_of(call), 20))
                response = web.StreamResponse()
                await response.prepare(request)
                await response.write(body[:-20])
                await go_on.wait()
                await response.write(body[-20:])
                return response

            api.on("GET", PODS.path, handler)
            listed = asyncio.create_task(names(client))
            await until(lambda: len(api.calls) == AT_ONCE)
            await asyncio.sleep(0.1)
            assert len(api.calls) == AT_ONCE
            go_on.set()
            assert len(await listed) == 21

    asyncio.run(scenario())


@pytest.mark.parametrize("valid", [True, False])
def test_a_page_is_decoded_as_each_of_its_objects_would_be(valid: bool) -> None:
    """A page is decoded in one pass, unless one of its objects cannot be decoded or its original is wanted."""

    async def scenario() -> None:
        items = [{"metadata": {"name": f"p{number}"}, "spec": {"nodeName": f"n{number}"}} for number in range(3)]
        if not valid:
            items[1]["spec"]["nodeName"] = 7  # type: ignore[assignment]
        answer = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": items}
        async with serving() as (api, client):
            api.answer("GET", PODS.path, answer)
            found = []
            for keep_raw in (False, True):
                pages = pages_of_objects(client, PODS, 5, decoder, keep_raw=keep_raw)
                found.append([each async for each in pages])
        ((page,), (slow,)) = found
        assert page.metadata == slow.metadata
        assert [listed.object for listed in page.items or ()] == [listed.object for listed in slow.items or ()]
        assert [listed.error is None for listed in page.items or ()] == [True, valid, True]
        assert all(listed.raw is None for listed in page.items or () if listed.error is None)

    asyncio.run(scenario())


def test_answers_are_compressed_where_the_api_server_does_that() -> None:
    async def scenario() -> None:
        async def handler(call: Call, request: web.Request) -> Answer:
            assert call.headers["Accept-Encoding"] == "gzip"
            body = gzip.compress(written(page(number_of(call), 2)), 1)
            return web.Response(body=body, headers={"Content-Encoding": "gzip"})

        async with serving() as (api, client):
            api.on("GET", PODS.path, handler)
            assert await names(client) == ["p0", "p1", "p2"]

    asyncio.run(scenario())


def test_an_object_that_cannot_be_decoded_does_not_hide_the_others() -> None:
    async def scenario() -> None:
        async def handler(call: Call, request: web.Request) -> Answer:
            items = [{"metadata": {"name": "bad"}, "spec": 7}, {"metadata": {"name": "good"}}]
            return {"metadata": {"resourceVersion": "7"}, "items": items}

        async with serving() as (api, client):
            api.on("GET", PODS.path, handler)
            async with aclosing(pages_of_objects(client, PODS, 1, decoder)) as pages:
                (only,) = [each async for each in pages]
        assert only.items is not None
        bad, good = only.items
        assert bad.object is None and "spec" in str(bad.error) and bad.raw is not None and b'"bad"' in bytes(bad.raw)
        assert good.object is not None and (good.raw, good.error) == (None, None)

    asyncio.run(scenario())


BROKEN: dict[str, tuple[Callable[[], web.Response], type[Exception]]] = {
    "a compressed answer that is torn": (
        lambda: web.Response(body=gzip.compress(b"{}" * 9999)[:-30], headers={"Content-Encoding": "gzip"}),
        TransportError,
    ),
    "a token that is too old": (lambda: web.json_response({"message": "old"}, status=410), GoneError),
    "a refusal": (lambda: web.json_response({"message": "no"}, status=403), ApiError),
    "no JSON": (lambda: web.Response(body=b"<html>"), msgspec.DecodeError),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_page_that_cannot_be_had_ends_the_list_after_those_before_it(case: str) -> None:
    answer, error = BROKEN[case]

    async def scenario() -> None:
        async def handler(call: Call, request: web.Request) -> Answer:
            number = number_of(call)
            return answer() if number == 2 else web.Response(body=written(page(number, 9)))

        async with serving() as (api, client):
            api.on("GET", PODS.path, handler)
            found: list[Listed[Pod]] = []
            with pytest.raises(error):
                async with aclosing(pages_of_objects(client, PODS, 1, decoder)) as pages:
                    async for each in pages:
                        found += each.items or ()
            assert len(found) == 2
            left = [task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__name__", "") == "_page"]
            assert not left, "requests"

    asyncio.run(scenario())


def test_a_list_of_names_has_pages_too() -> None:
    async def scenario() -> None:
        async def handler(call: Call, request: web.Request) -> Answer:
            assert "PartialObjectMetadataList" in call.headers["Accept"]
            return web.Response(body=written(page(number_of(call), 2, metadata_first=False)))

        async with serving() as (api, client):
            source = WatchSource(POD_GROUP)
            api.on("GET", source.path, handler)
            async with aclosing(pages_of_heads(client, source, 1)) as pages:
                found = [item.metadata.name async for each in pages for item in each.items or ()]
        assert found == ["p0", "p1", "p2"]

    asyncio.run(scenario())
