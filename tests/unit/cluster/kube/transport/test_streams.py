"""Lists and watches, whose answers are taken as they arrive, over each kind of connection, from a server that is
controlled byte by byte."""

import asyncio
import gc
import gzip
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from scheduler.cluster.kube.transport import answers as answers_module
from scheduler.cluster.kube.transport import client as clients
from scheduler.cluster.kube.transport.aiohttp_transport import AiohttpTransport
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.errors import ApiError, TransportError
from scheduler.cluster.kube.transport.http_transport import Http1Transport
from scheduler.cluster.kube.transport.ratelimit import CallPriority
from scheduler.observability.metrics import Metrics
from tests.unit import virtual_time
from tests.unit.cluster.kube.fake_api import StaticCredentials, until
from tests.unit.cluster.kube.transport.authorities import RotatedAuthority
from tests.unit.cluster.kube.transport.test_http1_transport import OK, Peer, Raw, Script, answers, raw, sends

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
REFUSED = b'{"reason":"Gone","message":"too old"}'
GONE = b"HTTP/1.1 410 Gone\r\nRetry-After: 7\r\nContent-Length: %d\r\n\r\n%s" % (len(REFUSED), REFUSED)
Serve = Callable[..., AbstractAsyncContextManager[tuple[Raw, ApiClient]]]


@asynccontextmanager
async def with_aiohttp(*scripts: Script, timeout: float = 30.0) -> AsyncIterator[tuple[Raw, ApiClient]]:
    """A server and a client, as in ``raw``. The address has Basic authentication, which leads to connections of
    aiohttp."""
    handler = Raw(list(scripts))
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = ApiClient(StaticCredentials(f"http://user:password@127.0.0.1:{port}"), Metrics(), timeout=timeout)
    await client.start()
    assert isinstance(client._transport, AiohttpTransport)
    try:
        yield handler, client
    finally:
        await client.close()
        server.close()


both = pytest.mark.parametrize("served", [raw, with_aiohttp], ids=["http1", "aiohttp"])


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def parts_of_list(client: ApiClient, *, compressed: bool = False, inflate: bool = True) -> list[bytes]:
    parts: list[bytes] = []
    body = await client.request(
        "GET", "/pods", priority=CallPriority.READ, compressed=compressed, inflate=inflate, receive=parts.append
    )
    assert body == b""
    return parts


async def lines_of_watch(client: ApiClient, *, longest: float | None = None, unfinished: bool = False) -> list[bytes]:
    found: list[bytes] = []
    await client.follow("/pods", {"watch": "1"}, found.extend, longest=longest, unfinished=unfinished)
    return found


Watch = Callable[[ApiClient], Coroutine[None, None, list[bytes]]]


# --- lists ------------------------------------------------------------------------------------------------------------
@both
def test_a_list_is_handed_out_as_it_arrives(served: Serve) -> None:
    async def scenario() -> None:
        arrived: list[bytes] = []

        async def script(peer: Peer) -> None:
            assert (await peer.request()).startswith(b"GET /pods HTTP/1.1\r\n")
            peer.send(CHUNKED + chunk(b"first"))
            await until(lambda: arrived == [b"first"])
            peer.send(chunk(b"sec") + chunk(b"ond") + END)
            await peer.closed()

        async with served(script) as (_, client):
            await client.request("GET", "/pods", priority=CallPriority.READ, receive=arrived.append)
            assert b"".join(arrived) == b"firstsecond"

    virtual_time.run(scenario())


@both
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        CHUNKED,
        CHUNKED + chunk(b"{}"),
        CHUNKED + b"5\r\nab",
        CHUNKED + chunk(b"{}") + b"xyz\r\n",
        CHUNKED + chunk(b"{}") + b"f" * 10_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
    ],
)
def test_a_list_that_is_cut_off_or_malformed_is_an_error(served: Serve, data: bytes) -> None:
    async def scenario() -> None:
        async with served(sends(data)) as (_, client):
            with pytest.raises(TransportError) as caught:
                await parts_of_list(client)
            assert caught.value.sent

    virtual_time.run(scenario())


@both
def test_the_refusal_of_a_list_is_not_handed_out(served: Serve) -> None:
    async def scenario() -> None:
        async with served(sends(GONE)) as (_, client):
            parts: list[bytes] = []
            with pytest.raises(ApiError) as caught:
                await client.request("GET", "/pods", priority=CallPriority.READ, receive=parts.append)
            error = caught.value
            assert (error.status, error.reason, error.message, error.retry_after) == (410, "Gone", "too old", 7)
            assert not parts

    virtual_time.run(scenario())


def zipped(body: bytes, status: bytes = b"200 OK") -> bytes:
    head = b"HTTP/1.1 %s\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" % status
    return head + b"".join(chunk(body[i : i + 7]) for i in range(0, len(body), 7)) + END


@both
def test_a_compressed_answer_is_decompressed_unless_the_caller_does_it(served: Serve) -> None:
    async def scenario() -> None:
        text = b'{"items":[' + b"1," * 2_000_000 + b"1]}"
        body = gzip.compress(text)
        requests: list[bytes] = []

        async def script(peer: Peer) -> None:
            while True:
                requests.append(await peer.request())
                peer.send(zipped(body))

        async with served(script) as (_, client):
            parts = await parts_of_list(client, compressed=True)
            assert b"".join(parts) == text
            assert max(map(len, parts)) <= 2**20
            assert b"".join(await parts_of_list(client, compressed=True, inflate=False)) == body
            assert await client.request("GET", "/pods", priority=CallPriority.READ, compressed=True) == text
            assert all(b"accept-encoding: gzip\r\n" in request.lower() for request in requests)

    virtual_time.run(scenario())


@both
@pytest.mark.parametrize("body", [gzip.compress(b"{}" * 99, mtime=0)[:-9], b"\x1f\x8bnothing of this kind"])
def test_a_compressed_answer_that_is_malformed_is_an_error(served: Serve, body: bytes) -> None:
    async def scenario() -> None:
        async with served(sends(zipped(body))) as (_, client):
            with pytest.raises(TransportError, match="the compressed answer is malformed"):
                await parts_of_list(client, compressed=True)
        async with served(sends(zipped(body))) as (_, client):
            with pytest.raises(TransportError, match="the compressed answer is malformed"):
                await client.request("GET", "/x", priority=CallPriority.READ, compressed=True)

    virtual_time.run(scenario())


@both
def test_a_refusal_may_be_compressed(served: Serve) -> None:
    async def scenario() -> None:
        async with served(sends(zipped(gzip.compress(REFUSED), b"410 Gone"))) as (_, client):
            with pytest.raises(ApiError, match="too old"):
                await parts_of_list(client, compressed=True, inflate=False)

    virtual_time.run(scenario())


@both
def test_an_error_of_the_receiver_is_raised_as_it_is(served: Serve) -> None:
    async def scenario() -> None:
        def refuse(part: bytes) -> None:
            raise BrokenPipeError("the reader is gone")

        async with served(answers) as (_, client):
            with pytest.raises(BrokenPipeError, match="the reader is gone"):
                await client.request("GET", "/pods", priority=CallPriority.READ, receive=refuse)

    virtual_time.run(scenario())


class Receiver:
    """The data that is kept while a list is received."""

    def __call__(self, part: bytes) -> None:
        self.part = part


def test_what_receives_a_list_is_freed_without_a_garbage_collection() -> None:
    async def scenario() -> None:
        async with raw(answers) as (_, client):
            receiver = Receiver()
            kept = weakref.ref(receiver)
            await client.request("GET", "/pods", priority=CallPriority.READ, receive=receiver)
            assert receiver.part == b"{}"
            del receiver
            assert kept() is None

    gc.disable()
    try:
        virtual_time.run(scenario())
    finally:
        gc.enable()


@both
def test_a_list_has_a_deadline(served: Serve) -> None:
    async def scenario() -> None:
        async def stalls(peer: Peer) -> None:
            await peer.request()
            peer.send(CHUNKED + chunk(b"begun"))
            await peer.closed()

        async with served(stalls, timeout=5) as (_, client):
            begun = asyncio.get_running_loop().time()
            with pytest.raises(TransportError, match=r"no answer within 5\.0 s") as caught:
                await parts_of_list(client)
            assert caught.value.sent
            assert 5 <= asyncio.get_running_loop().time() - begun < 6

    virtual_time.run(scenario())


# --- watches ----------------------------------------------------------------------------------------------------------
@both
def test_the_lines_of_a_watch_are_handed_out_as_they_arrive(served: Serve) -> None:
    async def scenario() -> None:
        found: list[list[bytes]] = []

        async def script(peer: Peer) -> None:
            await peer.request()
            peer.send(CHUNKED + chunk(b"a\nb\nc"))
            await until(lambda: found == [[b"a", b"b"]])
            peer.send(chunk(b"c"))
            peer.send(chunk(b"c\n"))
            await until(lambda: found[1:] == [[b"ccc"]])
            peer.send(chunk(b"torn") + END)
            await peer.closed()

        async with served(script) as (_, client):
            await client.follow("/pods", {}, found.append)
            assert found == [[b"a", b"b"], [b"ccc"]]

    virtual_time.run(scenario())


@both
def test_a_last_line_without_a_newline_is_handed_out_if_it_is_wanted(served: Serve) -> None:
    async def scenario() -> None:
        answer = CHUNKED + chunk(b"a\nb") + chunk(b"c") + END
        async with served(sends(answer)) as (_, client):
            assert await lines_of_watch(client, unfinished=True) == [b"a", b"bc"]

    virtual_time.run(scenario())


@both
@pytest.mark.parametrize("end", [b"", b"9\r\nab", b"xyz\r\n"])
def test_a_watch_that_is_cut_off_while_it_is_followed_ends_with_an_error(served: Serve, end: bytes) -> None:
    async def scenario() -> None:
        async with served(sends(CHUNKED + chunk(b"a\nb\n") + end)) as (_, client):
            found: list[bytes] = []
            with pytest.raises(TransportError, match="GET /pods: ") as caught:
                await client.follow("/pods", {}, found.extend, longest=60)
            assert caught.value.sent
            assert found == [b"a", b"b"] or end == b"xyz\r\n"

    virtual_time.run(scenario())


@both
def test_the_refusal_of_a_watch_is_an_error_of_the_server(served: Serve) -> None:
    async def scenario() -> None:
        async with served(sends(GONE)) as (_, client):
            with pytest.raises(ApiError) as caught:
                await lines_of_watch(client)
            assert (caught.value.status, caught.value.message, caught.value.retry_after) == (410, "too old", 7)

    virtual_time.run(scenario())


@both
def test_a_watch_that_lasts_too_long_is_broken_off(served: Serve) -> None:
    async def scenario() -> None:
        async def ticks(peer: Peer) -> None:
            await peer.request()
            peer.send(CHUNKED)
            while True:
                peer.send(chunk(b"tick\n"))
                await asyncio.sleep(4)

        async with served(ticks) as (_, client):
            begun = asyncio.get_running_loop().time()
            with pytest.raises(TransportError, match=r"no answer within 10\.0 s") as caught:
                await lines_of_watch(client, longest=10)
            assert caught.value.sent
            assert 10 <= asyncio.get_running_loop().time() - begun < 12

    virtual_time.run(scenario())


@both
def test_a_watch_that_is_no_longer_wanted_closes_its_connection(served: Serve) -> None:
    async def scenario() -> None:
        closed: list[bool] = []

        async def script(peer: Peer) -> None:
            await peer.request()
            peer.send(CHUNKED + chunk(b"a\n"))
            await peer.closed()
            closed.append(True)

        async with served(script) as (_, client):
            waiting = asyncio.create_task(lines_of_watch(client))
            await asyncio.sleep(1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await until(lambda: closed == [True])

    virtual_time.run(scenario())


def test_closing_the_client_ends_its_watches() -> None:
    async def scenario() -> None:
        async def script(peer: Peer) -> None:
            await peer.request()
            peer.send(CHUNKED + chunk(b"a\n"))
            await peer.closed()

        async with raw(script) as (_, client):
            watching = asyncio.create_task(lines_of_watch(client))
            await asyncio.sleep(1)
            await client.close()
            with pytest.raises(TransportError):
                await watching
            with pytest.raises(TransportError, match="the client is closed"):
                await lines_of_watch(client)

    virtual_time.run(scenario())


@both
def test_new_credentials_leave_a_watch_alone(served: Serve) -> None:
    async def scenario() -> None:
        go = asyncio.Event()

        async def slow(peer: Peer) -> None:
            await peer.request()
            peer.send(CHUNKED + chunk(b"a\n"))
            await go.wait()
            peer.send(chunk(b"b\n") + END)
            await peer.closed()
            gone.set()

        gone = asyncio.Event()
        async with served(slow, answers) as (server, client):
            watching = asyncio.create_task(lines_of_watch(client))
            await until(lambda: server.connections)
            await asyncio.sleep(1)
            await client._use_access()
            assert await parts_of_list(client) == [b"{}"]
            go.set()
            assert await watching == [b"a", b"b"]
            await gone.wait()  # its connection was closed, since newer ones are used now

    virtual_time.run(scenario())


def test_a_line_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers_module, "MAX_LINE", 1000)

    async def scenario() -> None:
        async def endless(peer: Peer) -> None:
            await peer.request()
            peer.send(CHUNKED)
            while True:
                peer.send(chunk(b"x" * 300))
                await asyncio.sleep(0.1)

        async with raw(endless) as (_, client):
            with pytest.raises(TransportError, match="a line of more than 1000 bytes"):
                await lines_of_watch(client)

    virtual_time.run(scenario())


def test_a_watch_that_the_server_ended_leaves_its_connection_to_others() -> None:
    async def scenario() -> None:
        async def script(peer: Peer) -> None:
            await peer.request()
            peer.send(CHUNKED + chunk(b"a\n") + END)
            await answers(peer)

        async with raw(script) as (server, client):
            assert await lines_of_watch(client) == [b"a"]
            assert await parts_of_list(client) == [b"{}"]
            assert server.connections == 1

    virtual_time.run(scenario())


def test_a_watch_on_a_connection_that_the_server_closes_is_requested_on_another_one() -> None:
    async def scenario() -> None:
        async def closes(peer: Peer) -> None:
            await peer.request()
            peer.send(OK)
            await peer.request()

        async with raw(closes, sends(CHUNKED + chunk(b"a\n") + END)) as (server, client):
            await parts_of_list(client)
            assert await lines_of_watch(client) == [b"a"]
            assert server.connections == 2

    virtual_time.run(scenario())


def test_a_server_that_does_not_complete_a_connection_is_given_up_after_ten_seconds() -> None:
    async def scenario() -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(-1)
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        client = ApiClient(StaticCredentials(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"), Metrics())
        await client.start()
        begun = asyncio.get_running_loop().time()
        with pytest.raises(TransportError, match=r"no connection to .* within 10\.0 s") as caught:
            await lines_of_watch(client)
        assert not caught.value.sent
        assert 10 <= asyncio.get_running_loop().time() - begun < 11
        await client.close()
        server.close()

    virtual_time.run(scenario())


@pytest.mark.parametrize("how", [parts_of_list, lines_of_watch])
def test_a_token_that_has_expired_is_fetched_again(how: Watch) -> None:
    async def scenario() -> None:
        async def guarded(peer: Peer) -> None:
            while True:
                if b"Authorization: Bearer new\r\n" in await peer.request():
                    peer.send(CHUNKED + chunk(b"a\n") + END)
                else:
                    peer.send(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")

        async with raw(guarded) as (_, client):
            client._credentials = StaticCredentials(client.host, ["Bearer old", "Bearer new"])
            client._loaded -= 60
            if how is not parts_of_list:  # a watch is resumed by its caller
                with pytest.raises(ApiError, match="401"):
                    await how(client)
            assert [part.strip() for part in await how(client)] == [b"a"]

    virtual_time.run(scenario())


@pytest.mark.parametrize("how", [parts_of_list, lines_of_watch])
def test_a_server_with_a_certificate_of_another_authority_makes_the_client_read_its_own_again(
    monkeypatch: pytest.MonkeyPatch, how: Watch
) -> None:
    monkeypatch.setattr(clients, "_RELOAD_SECONDS", 0.0)
    rotated = RotatedAuthority()

    async def scenario() -> None:
        server = await asyncio.start_server(
            Raw([sends(CHUNKED + chunk(b"a\n") + END)]), "127.0.0.1", 0, ssl=rotated.serving_tls()
        )
        rotated.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        client = ApiClient(rotated, Metrics())
        await client.start()
        with pytest.raises(TransportError) as refused:
            await how(client)
        assert not refused.value.sent
        assert [part.strip() for part in await how(client)] == [b"a"]
        assert rotated.loads == 2
        assert isinstance(client._transport, Http1Transport)
        await client.close()
        server.close()

    virtual_time.run(scenario())
