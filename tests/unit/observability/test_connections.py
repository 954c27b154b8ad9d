"""Slow clients and thousands of clients, over real sockets: each limit, and the clients that are not affected."""

import asyncio
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pytest
import uvloop
from aiohttp import web

from scheduler.cluster.kube.serving.certificates import renewed, to_pem
from scheduler.cluster.kube.serving.tls import serving_context
from scheduler.observability import connections
from scheduler.observability.connections import BODY, CHUNK, Connections, Limits
from tests.unit.virtual_time import VirtualTimeLoop

pytestmark = pytest.mark.slow

LONG = 60.0
SHORT = 0.2
LONG_LIMITS = Limits(connections=100, handshake=LONG, headers=LONG, body=LONG, idle=LONG, fetching=LONG)
"""A deadline that no test reaches."""


def limits(**changed: Any) -> Limits:
    return Limits(**{**{name: getattr(LONG_LIMITS, name) for name in Limits.__struct_fields__}, **changed})


class World:
    """A server that answers how long the body was, slowly under /slow, and with a great deal under /large."""

    def __init__(self, limits: Limits) -> None:
        self.connections = Connections(limits)
        self.go_on = asyncio.Event()
        self.slow = 0
        self.port = 0

    async def handle(self, request: web.Request) -> web.Response:
        if request.path == "/slow":
            self.slow += 1
            await self.go_on.wait()
        return web.Response(body=b"x" * 50_000_000 if request.path == "/large" else f"{len(request[BODY])}".encode())

    async def open(self, sent: bytes = b"", *, source: str = "127.0.0.1", **more: Any) -> "Client":
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(source, 0), **more)
        writer.write(sent)
        return Client(reader, writer)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(LONG / 2):
            while not condition():
                await asyncio.sleep(0.01)


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def rest(self) -> bytes:
        """All data until the server closes the connection."""
        with suppress(ConnectionError):
            return await asyncio.wait_for(self.reader.read(), LONG / 2)
        return b""

    async def answer(self, sent: bytes) -> bytes:
        """The body of the answer to a request."""
        self.writer.write(sent)
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), LONG / 2)
        length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
        return await self.reader.readexactly(int(length.partition(b":")[2]))


def request(path: str = "/", body: bytes = b"", *, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {size}\r\n\r\n".encode() + body


@asynccontextmanager
async def serving(limits: Limits, tls: ssl.SSLContext | None = None) -> AsyncIterator[World]:
    world = World(limits)
    app = web.Application(client_max_size=1)
    app.router.add_route("*", "/{rest:.*}", world.handle)
    world.port = await world.connections.serve(app, "127.0.0.1", 0, tls, shutdown_timeout=0.1)
    try:
        yield world
    finally:
        world.go_on.set()
        await world.connections.close()


@pytest.fixture(params=[VirtualTimeLoop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[], Coroutine[Any, Any, None]]], None]:
    """Runs a scenario on either event loop."""
    monkeypatch.setattr(connections, "LINGERING", SHORT)

    def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(scenario())

    return run


Run = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]


@pytest.mark.parametrize("sent", [b"", b"POST / HT", b"POST / HTTP/1.1\r\nHost: h\r\nX: y"])
def test_a_connection_on_which_no_whole_headers_come_is_closed(sent: bytes, run: Run) -> None:
    async def scenario() -> None:
        async with serving(limits(headers=SHORT)) as world:
            client = await world.open(sent)
            assert await client.rest() == b""
            await world.until(lambda: len(world.connections) == 0)

    run(scenario)


@pytest.mark.parametrize("sent", [b"", b"abc"])
def test_a_request_whose_body_does_not_end_is_answered_and_the_connection_closed(sent: bytes, run: Run) -> None:
    async def scenario() -> None:
        async with serving(limits(body=SHORT)) as world:
            client = await world.open(request(body=sent, length=10))
            answer = await client.rest()
            assert answer.startswith(b"HTTP/1.1 408 ") and b"no whole request within 0.2 s" in answer

    run(scenario)


def test_an_idle_connection_is_closed_and_so_is_one_that_begins_another_request(run: Run) -> None:
    async def scenario() -> None:
        async with serving(limits(idle=SHORT)) as world:
            client = await world.open()
            assert await client.answer(request(body=b"four")) == b"4"
            assert await client.rest() == b""
        async with serving(limits(headers=SHORT)) as world:
            client = await world.open()
            assert [await client.answer(request(body=b"four")) for _ in range(3)] == [b"4"] * 3
            client.writer.write(b"POST / HT")
            assert await client.rest() == b""

    run(scenario)


def test_an_answer_that_is_not_fetched_is_given_up(run: Run) -> None:
    async def scenario() -> None:
        async with serving(limits(fetching=SHORT)) as world:
            client = await world.open(request("/large"))
            await world.until(lambda: len(world.connections) == 1)
            await world.until(lambda: len(world.connections) == 0)
            assert len(await client.rest()) < 50_000_000

    run(scenario)


def test_work_that_takes_long_has_no_deadline(run: Run) -> None:
    async def scenario() -> None:
        async with serving(limits(headers=SHORT, body=SHORT, idle=SHORT)) as world:
            client = await world.open(request("/slow"))
            await world.until(lambda: world.slow == 1)
            await asyncio.sleep(3 * SHORT)
            world.go_on.set()
            assert await client.answer(b"") == b"0"

    run(scenario)


# --- how many, and how much -------------------------------------------------------------------------------------------
def test_too_many_connections_close_the_oldest_that_wait_and_none_that_work(run: Run) -> None:
    async def scenario() -> None:
        async with serving(limits(connections=4)) as world:
            working = await world.open(request("/slow"))
            await world.until(lambda: world.slow == 1)
            flood = [await world.open(b"POST") for _ in range(20)]
            await asyncio.gather(*(client.rest() for client in flood[:17]))
            assert len(world.connections) == 4
            assert await (await world.open()).answer(request(body=b"four")) == b"4"
            world.go_on.set()
            assert await working.answer(b"") == b"0"

    run(scenario)


def test_a_flood_from_one_address_closes_no_connection_of_another(run: Run) -> None:
    async def scenario() -> None:
        async with serving(limits(connections=4)) as world:
            other = await world.open()
            assert await other.answer(request()) == b"0"
            flood = [await world.open(source="127.0.0.2") for _ in range(50)]
            await asyncio.gather(*(client.rest() for client in flood[:47]))
            assert await other.answer(request(body=b"four")) == b"4"

    run(scenario)


def test_where_all_work_a_new_connection_is_closed(run: Run) -> None:
    async def scenario() -> None:
        async with serving(limits(connections=2)) as world:
            working = [await world.open(request("/slow")) for _ in range(2)]
            await world.until(lambda: world.slow == 2)
            assert await (await world.open()).rest() == b""
            world.go_on.set()
            assert [await client.answer(b"") for client in working] == [b"0", b"0"]

    run(scenario)


def test_a_body_that_is_too_large_is_refused_before_and_while_it_is_read(run: Run) -> None:
    async def scenario() -> None:
        async with serving(limits(largest=10)) as world:
            announced = await (await world.open(request(length=11))).rest()
            assert announced.startswith(b"HTTP/1.1 413 ") and b"at most 10 bytes" in announced
            chunked = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + b"8\r\nabcdefgh\r\n" * 2
            assert (await (await world.open(chunked)).rest()).startswith(b"HTTP/1.1 413 ")
            assert await (await world.open()).answer(request(body=b"x" * 10)) == b"10"

    run(scenario)


def test_large_bodies_are_refused_while_too_much_is_held_and_small_ones_are_not(run: Run) -> None:
    async def scenario() -> None:
        async with serving(limits(largest=10 * CHUNK, held=4 * CHUNK)) as world:
            holding = await world.open(request("/slow", b"x" * 3 * CHUNK))
            await world.until(lambda: world.slow == 1)
            refused = await (await world.open(request(body=b"x" * 2 * CHUNK))).rest()
            assert refused.startswith(b"HTTP/1.1 503 ") and b"bytes of requests are being worked on" in refused
            assert await (await world.open()).answer(request(body=b"x" * CHUNK)) == str(CHUNK).encode()
            world.go_on.set()
            assert await holding.answer(b"") == str(3 * CHUNK).encode()
            assert await (await world.open()).answer(request(body=b"x" * 2 * CHUNK)) == str(2 * CHUNK).encode()

    run(scenario)


def test_of_large_bodies_that_come_at_once_one_goes_on_in_each_iteration_of_the_event_loop(run: Run) -> None:
    iteration, read = 0, list[int]()

    class Content:
        async def iter_any(self) -> AsyncIterator[bytes]:
            """All data has arrived already."""
            for _ in range(5):
                read.append(iteration)
                yield bytes(CHUNK + 1)

    async def count() -> None:
        nonlocal iteration
        while True:
            await asyncio.sleep(0)
            iteration += 1

    async def scenario() -> None:
        connections = Connections(limits(largest=10 * CHUNK))
        request, connection = SimpleNamespace(content=Content(), content_length=None), MagicMock()

        async def whole() -> int:
            async with connections._read(cast("web.Request", request), connection) as body:
                return len(body)

        counting = asyncio.create_task(count())
        assert await asyncio.gather(*(whole() for _ in range(20))) == [5 * (CHUNK + 1)] * 20
        counting.cancel()
        ((_, most),) = Counter(read[20:]).most_common(1)  # without the first of each
        assert most == 1

    run(scenario)


def test_a_client_that_goes_away_leaves_nothing_behind_and_no_error(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with serving(LONG_LIMITS) as world:
            for sent in (b"", b"POST", request(length=10), request("/slow"), request("/large")):
                client = await world.open(sent)
                await world.until(lambda: len(world.connections) == 1)
                await asyncio.sleep(0.05)
                client.writer.transport.abort()
                world.go_on.set()
                await world.until(lambda: len(world.connections) == 0)
            assert world.connections._held == 0 and not world.connections._by_handler

    run(scenario)
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")]


# --- TLS --------------------------------------------------------------------------------------------------------------
def certificates() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The TLS contexts of the server and of its client."""
    pem = to_pem(renewed(None, ("127.0.0.1",), datetime.now(UTC)))
    return serving_context(pem["tls.crt"], pem["tls.key"]), ssl.create_default_context(cadata=pem["ca.crt"].decode())


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"])
def test_a_handshake_that_does_not_end_times_out(sent: bytes, run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with serving(limits(handshake=SHORT), certificates()[0]) as world:
            client = await world.open(sent)
            await client.rest()
            await world.until(lambda: len(world.connections) == 0)

    run(scenario)
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")]


def test_clients_that_send_at_once_are_answered(run: Run) -> None:
    async def scenario() -> None:
        server, client = certificates()
        async with serving(limits(), server) as world:

            async def ask() -> bytes:
                return await (await world.open(ssl=client)).answer(request(body=b"four"))

            for _ in range(5):
                assert await asyncio.gather(*(ask() for _ in range(20))) == [b"4"] * 20

    run(scenario)


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01"])
def test_handshakes_that_do_not_end_count_as_connections(
    sent: bytes, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        server, client = certificates()
        async with serving(limits(connections=4), server) as world:
            other = await world.open(ssl=client)
            assert await other.answer(request()) == b"0"
            flood = [await world.open(sent, source="127.0.0.2") for _ in range(50)]
            await asyncio.gather(*(each.rest() for each in flood[:47]))
            assert len(world.connections) == 4
            assert await other.answer(request(body=b"four")) == b"4"
            another = await world.open(ssl=client)
            assert await another.answer(request(body=b"four")) == b"4"

    run(scenario)
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")]


def test_a_handshake_that_timed_out_no_longer_counts(run: Run) -> None:
    async def scenario() -> None:
        async with serving(limits(handshake=SHORT), certificates()[0]) as world:
            gone = await world.open()
            await world.until(lambda: len(world.connections) == 1)
            gone.writer.transport.abort()
            await world.until(lambda: len(world.connections) == 0)

    run(scenario)


def test_a_server_that_stops_in_the_middle_of_a_handshake_closes_it(run: Run) -> None:
    async def scenario() -> None:
        async with serving(limits(), certificates()[0]) as world:
            client = await world.open()
            await world.until(lambda: len(world.connections) == 1)
        assert await client.rest() == b""
        assert len(world.connections) == 0

    run(scenario)
