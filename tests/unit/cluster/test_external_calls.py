"""Other programs, over HTTP: replies in the order of requests, and a problem in place of each that does not come."""

import asyncio
from contextlib import closing

import pytest
from aiohttp import web

from scheduler.cluster import external_calls
from scheduler.cluster.external_calls import HttpCalls
from scheduler.framework.external_calls import NO_EXTERNAL_CALLS, Reply, Request
from tests.unit.cluster.servers import serving_aside


async def echo(request: web.Request) -> web.StreamResponse:
    """/<seconds> answers after so long; /status/<code> with that code; /large with a lot."""
    body = await request.read()
    what, _, rest = request.path.strip("/").partition("/")
    if what == "status":
        return web.Response(status=int(rest))
    if what == "large":
        return web.Response(body=b"x" * 2000)
    await asyncio.sleep(float(what or 0))
    return web.Response(body=body + request.headers["Content-Type"].encode())


def test_each_request_gets_its_own_reply() -> None:
    with serving_aside(echo) as address, closing(HttpCalls()) as out:
        requests = [Request(f"{address}/{0.02 - i / 1000}", b"%d " % i, 5.0) for i in range(20)]
        assert [reply.body for reply in out.post(requests)] == [b"%d application/json" % i for i in range(20)]
        assert out.post([]) == []


def test_what_does_not_answer_in_time_is_silent_and_holds_up_no_other() -> None:
    with serving_aside(echo) as address, closing(HttpCalls()) as out:
        slow, quick = out.post([Request(f"{address}/9", b"", 0.05), Request(f"{address}/0", b"", 5.0)])
        assert slow == Reply(problem="no answer within 0.05 s", silent=True)
        assert quick.body == b"application/json"


def test_nobody_there_is_silence_and_a_refusal_is_none() -> None:
    with serving_aside(echo) as address, closing(HttpCalls()) as out:
        gone, refused, nonsense = out.post(
            [
                Request("http://127.0.0.1:1/x", b"", 1.0),
                Request(f"{address}/status/503", b"", 1.0),
                Request("http://[", b"", 1.0),
            ]
        )
        assert gone.silent and gone.problem
        assert refused == Reply(problem="status 503")
        assert nonsense.silent and nonsense.problem


def test_an_answer_that_is_too_large_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_calls, "LARGEST", 1000)
    with serving_aside(echo) as address, closing(HttpCalls()) as out:
        (reply,) = out.post([Request(f"{address}/large", b"", 5.0)])
    assert reply.problem == "an answer of more than 1000 bytes"


def test_closing_one_that_was_never_used_is_nothing() -> None:
    HttpCalls().close()


def test_unless_somebody_is_there_nobody_is_asked() -> None:
    replies = NO_EXTERNAL_CALLS.post([Request("http://x", b"", 1.0)] * 2)
    assert [reply.problem for reply in replies] == ["other programs are not asked here"] * 2
