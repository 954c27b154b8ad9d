"""Calls to external programs over HTTP: replies in the order of the requests, and a problem for each request that
fails."""

import asyncio
from contextlib import closing

import pytest
from aiohttp import web

from scheduler.cluster import external_calls
from scheduler.cluster.external_calls import HttpCalls
from scheduler.framework.external_calls import NO_EXTERNAL_CALLS, ExternalReply, ExternalRequest
from tests.unit.cluster.servers import serving_in_thread


async def echo(request: web.Request) -> web.StreamResponse:
    """The path /<seconds> answers after a delay, /status/<code> with that status, and /large with a large body."""
    body = await request.read()
    what, _, rest = request.path.strip("/").partition("/")
    if what == "status":
        return web.Response(status=int(rest))
    if what == "large":
        return web.Response(body=b"x" * 2000)
    await asyncio.sleep(float(what or 0))
    return web.Response(body=body + request.headers["Content-Type"].encode())


def test_replies_are_in_the_order_of_the_requests() -> None:
    with serving_in_thread(echo) as address, closing(HttpCalls()) as out:
        requests = [ExternalRequest(f"{address}/{0.02 - i / 1000}", b"%d " % i, 30.0) for i in range(20)]
        assert [reply.body for reply in out.post(requests)] == [b"%d application/json" % i for i in range(20)]
        assert out.post([]) == []


def test_a_request_that_times_out_is_silent_and_blocks_no_other() -> None:
    with serving_in_thread(echo) as address, closing(HttpCalls()) as out:
        slow, quick = out.post([ExternalRequest(f"{address}/9", b"", 0.05), ExternalRequest(f"{address}/0", b"", 30.0)])
        assert slow == ExternalReply(problem="no answer within 0.05 s", silent=True)
        assert quick.body == b"application/json"


def test_an_unreachable_server_is_silent_and_an_error_status_is_a_problem() -> None:
    with serving_in_thread(echo) as address, closing(HttpCalls()) as out:
        gone, refused, nonsense = out.post(
            [
                ExternalRequest("http://127.0.0.1:1/x", b"", 30.0),
                ExternalRequest(f"{address}/status/503", b"", 30.0),
                ExternalRequest("http://[", b"", 30.0),
            ]
        )
        assert gone.silent and gone.problem
        assert refused == ExternalReply(problem="status 503")
        assert nonsense.silent and nonsense.problem


def test_a_response_that_is_too_large_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_calls, "MAX_RESPONSE_BYTES", 1000)
    with serving_in_thread(echo) as address, closing(HttpCalls()) as out:
        (reply,) = out.post([ExternalRequest(f"{address}/large", b"", 30.0)])
    assert reply.problem == "an answer of more than 1000 bytes"


def test_an_unused_client_can_be_closed() -> None:
    HttpCalls().close()


def test_without_external_calls_each_request_gets_a_problem() -> None:
    replies = NO_EXTERNAL_CALLS.post([ExternalRequest("http://x", b"", 30.0)] * 2)
    assert [reply.problem for reply in replies] == ["other programs are not asked here"] * 2
