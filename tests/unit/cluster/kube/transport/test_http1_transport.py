"""Requests to a server that is controlled byte by byte."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from controlplane.credentials import Authority
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.credentials import Access
from scheduler.cluster.kube.transport.errors import ApiError, TransportError
from scheduler.cluster.kube.transport.fence import Fence
from scheduler.cluster.kube.transport.http1.connections import KEPT, ConnectError, ExchangeError, Pool
from scheduler.cluster.kube.transport.http_transport import Http1Transport, HttpRequest, RequestHead
from scheduler.cluster.kube.transport.ratelimit import CallPriority
from scheduler.observability.metrics import Metrics
from tests.unit import virtual_time
from tests.unit.cluster.kube.fake_api import StaticCredentials, until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@dataclass
class Peer:
    """The server's end of one connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def request(self) -> bytes:
        """Reads a request."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next((line for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")), b": 0")
        return head + await self.reader.readexactly(int(length.partition(b": ")[2]))

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def close(self) -> None:
        self.writer.close()

    async def closed(self) -> None:
        """Waits until the client has closed the connection."""
        try:
            while await self.reader.read(4096):
                pass
        except ConnectionError:
            pass


Script = Callable[[Peer], Awaitable[None]]


@dataclass
class Raw:
    """A server that runs a script for each connection, the last one for all further ones."""

    scripts: list[Script]
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        script = self.scripts[min(self.connections, len(self.scripts) - 1)]
        self.connections += 1
        try:
            await script(Peer(reader, writer))
        finally:
            writer.close()


@asynccontextmanager
async def raw(*scripts: Script, timeout: float = 30.0) -> AsyncIterator[tuple[Raw, ApiClient]]:
    handler = Raw(list(scripts))
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    client = ApiClient(
        StaticCredentials(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"), Metrics(), timeout=timeout
    )
    await client.start()
    try:
        yield handler, client
    finally:
        await client.close()
        server.close()


def pool(client: ApiClient) -> Pool:
    assert isinstance(client._transport, Http1Transport)
    return client._transport._pool


async def answers(peer: Peer) -> None:
    """Answers every request."""
    while True:
        try:
            await peer.request()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        peer.send(OK)


def sends(data: bytes) -> Script:
    """Answers the first request with these bytes, then closes the connection."""

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.send(data)

    return script


async def bind(client: ApiClient) -> bytes:
    return await client.request("POST", "/x/binding", body=b"{}", priority=CallPriority.WRITE)


async def get(client: ApiClient) -> bytes:
    return await client.request("GET", "/x", priority=CallPriority.WRITE)


def test_requests_one_after_the_other_share_a_connection() -> None:
    async def scenario() -> None:
        async with raw(answers) as (server, client):
            for _ in range(5):
                assert await bind(client) == b"{}"
            assert server.connections == 1
            await asyncio.gather(*(bind(client) for _ in range(3)))
            assert server.connections == 3

    virtual_time.run(scenario())


def test_a_request_is_written_as_the_standard_wants_it() -> None:
    async def scenario() -> None:
        seen: list[bytes] = []

        async def script(peer: Peer) -> None:
            for _ in range(2):
                seen.append(await peer.request())
                peer.send(OK)

        async with raw(script) as (_, client):
            client._authorization = "Bearer abc"
            client._authorized = float("inf")
            path = "/api/a b\r\nEvil: 1/ü#x"
            await client.request("PATCH", path, body=b"{}", params={"a": "b c"}, priority=CallPriority.WRITE)
            await client.request("DELETE", "/y", priority=CallPriority.WRITE)
        head, _, body = seen[0].partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        assert lines[0] == b"PATCH /api/a%20b%0D%0AEvil:%201/%C3%BC%23x?a=b+c HTTP/1.1"
        assert sorted(line.partition(b": ")[0] for line in lines[1:]) == [
            b"Accept",
            b"Accept-Encoding",
            b"Authorization",
            b"Content-Length",
            b"Content-Type",
            b"Host",
            b"User-Agent",
        ]
        assert b"Authorization: Bearer abc" in lines
        assert body == b"{}"
        assert b"Content-" not in seen[1]

    virtual_time.run(scenario())


def test_the_text_of_a_request_names_neither_its_token_nor_its_body() -> None:
    request = HttpRequest(
        "PUT", "/api/v1/secrets/s?dryRun=All", RequestHead("Bearer secret-token", "application/json"), b"secret"
    )
    for text in (f"{request}", f"{request!r}", f"{request.head!r}"):
        assert "secret-token" not in text and "b'secret'" not in text
    assert str(request) == "PUT /api/v1/secrets/s"


def test_a_token_that_would_forge_a_header_is_not_sent() -> None:
    async def scenario() -> None:
        async with raw(answers) as (server, client):
            client._authorization = "Bearer abc\r\nX-Remote-User: admin"
            client._authorized = float("inf")
            with pytest.raises(TransportError, match="Authorization") as caught:
                await bind(client)
            assert not caught.value.sent
            assert "abc" not in str(caught.value)
            assert not server.connections

    virtual_time.run(scenario())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000,
    ],
)
def test_a_write_without_a_valid_answer_is_reported_as_sent_and_not_repeated(data: bytes) -> None:
    async def scenario() -> None:
        async with raw(sends(data), answers) as (server, client):
            with pytest.raises(TransportError) as caught:
                await bind(client)
            assert caught.value.sent
            assert server.connections == 1
            assert await bind(client) == b"{}"

    virtual_time.run(scenario())


def test_interim_answers_are_skipped() -> None:
    async def scenario() -> None:
        async with raw(sends(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK)) as (
            _,
            client,
        ):
            assert await bind(client) == b"{}"

    virtual_time.run(scenario())


def test_errors_of_the_server_are_those_of_other_requests() -> None:
    async def scenario() -> None:
        status = b'{"reason":"TooManyRequests","message":"slow down"}'
        head = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: %d\r\n\r\n" % len(status)
        async with raw(sends(head + status)) as (_, client):
            with pytest.raises(ApiError) as caught:
                await bind(client)
            error = caught.value
            assert (error.status, error.reason, error.message) == (429, "TooManyRequests", "slow down")
            assert error.retry_after == 7

    virtual_time.run(scenario())


def closes_after_one(peer: Peer) -> Awaitable[None]:
    """Answers one request, reads the next and closes the connection without an answer."""

    async def script() -> None:
        await peer.request()
        peer.send(OK)
        await peer.request()

    return script()


def test_a_read_on_a_connection_that_the_server_closes_is_repeated_on_another_one() -> None:
    async def scenario() -> None:
        async with raw(closes_after_one, answers) as (server, client):
            await get(client)
            assert await get(client) == b"{}"
            assert server.connections == 2

    virtual_time.run(scenario())


def test_a_write_that_may_have_been_processed_is_not_repeated() -> None:
    async def scenario() -> None:
        async with raw(closes_after_one, answers) as (server, client):
            await bind(client)
            with pytest.raises(TransportError) as caught:
                await bind(client)
            assert caught.value.sent
            assert server.connections == 1

    virtual_time.run(scenario())


def test_a_read_on_a_new_connection_is_not_repeated() -> None:
    async def scenario() -> None:
        async with raw(sends(b"")) as (server, client):
            with pytest.raises(TransportError):
                await get(client)
            assert server.connections == 1

    virtual_time.run(scenario())


def test_a_connection_that_the_server_closed_meanwhile_is_not_used() -> None:
    async def scenario() -> None:
        async with raw(sends(OK), answers) as (server, client):
            await bind(client)
            await until(lambda: not pool(client)._open)
            assert await bind(client) == b"{}"
            assert server.connections == 2

    virtual_time.run(scenario())


def test_an_answer_that_nothing_asked_for_closes_the_connection() -> None:
    async def scenario() -> None:
        async def talks(peer: Peer) -> None:
            await peer.request()
            peer.send(OK)
            await asyncio.sleep(1)
            peer.send(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
            await peer.closed()

        async with raw(talks, answers) as (server, client):
            await bind(client)
            await asyncio.sleep(5)
            assert await bind(client) == b"{}"
            assert server.connections == 2

    virtual_time.run(scenario())


def test_bytes_after_an_answer_are_not_taken_for_the_next_one() -> None:
    async def scenario() -> None:
        forged = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
        async with raw(sends(OK + forged), answers) as (_, client):
            assert await bind(client) == b"{}"
            assert await bind(client) == b"{}"

    virtual_time.run(scenario())


def test_an_answer_before_the_whole_request_was_read_does_not_leave_its_rest_to_the_next_request() -> None:
    async def scenario() -> None:
        async def refuses(peer: Peer) -> None:
            await peer.reader.readuntil(b"\r\n\r\n")
            peer.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
            await asyncio.sleep(1)

        async with raw(refuses, answers) as (server, client):
            with pytest.raises(ApiError) as caught:
                await client.request("POST", "/x", body=b"x" * 20_000_000, priority=CallPriority.WRITE)
            assert caught.value.status == 413
            assert await bind(client) == b"{}"
            assert server.connections == 2

    virtual_time.run(scenario())


async def silent(peer: Peer) -> None:
    await peer.request()
    await peer.closed()


def test_a_request_has_a_deadline_and_its_connection_is_closed() -> None:
    async def scenario() -> None:
        async with raw(silent, answers, timeout=5) as (_, client):
            begun = asyncio.get_running_loop().time()
            with pytest.raises(TransportError, match=r"no answer within 5\.0 s") as caught:
                await bind(client)
            assert caught.value.sent
            assert 5 <= asyncio.get_running_loop().time() - begun < 6
            assert not pool(client)._idle
            assert await bind(client) == b"{}"

    virtual_time.run(scenario())


def test_after_a_request_without_an_answer_no_kept_connection_is_used() -> None:
    async def scenario() -> None:
        async def dies(peer: Peer) -> None:
            await peer.request()
            peer.send(OK)
            await peer.closed()

        async with raw(dies, dies, dies, answers, timeout=5) as (server, client):
            await asyncio.gather(*(bind(client) for _ in range(3)))
            with pytest.raises(TransportError):
                await bind(client)
            assert await bind(client) == b"{}"
            assert server.connections == 4

    virtual_time.run(scenario())


def test_the_deadline_of_a_lease_is_that_of_the_write() -> None:
    async def scenario() -> None:
        async with raw(silent) as (_, client):
            now = asyncio.get_running_loop().time
            fence = Fence()
            fence.extend(now() + 10, now() + 3)
            begun = now()
            with pytest.raises(TransportError):
                await client.request("POST", "/x", body=b"{}", priority=CallPriority.WRITE, fence=fence)
            assert now() - begun < 4

    virtual_time.run(scenario())


def test_cancelling_a_request_closes_its_connection() -> None:
    async def scenario() -> None:
        closed = asyncio.Event()

        async def script(peer: Peer) -> None:
            await silent(peer)
            closed.set()

        async with raw(script, answers) as (server, client):
            task = asyncio.create_task(bind(client))
            await until(lambda: server.connections)
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await closed.wait()
            assert await bind(client) == b"{}"

    virtual_time.run(scenario())


def test_idle_connections_are_closed_after_a_while() -> None:
    async def scenario() -> None:
        async with raw(answers) as (server, client):
            await asyncio.gather(*(bind(client) for _ in range(3)))
            for _ in range(4):
                await asyncio.sleep(KEPT / 2)
                await bind(client)
            assert len(pool(client)._open) == 1
            assert server.connections == 3

    virtual_time.run(scenario())


def test_new_credentials_take_new_connections_and_leave_requests_alone() -> None:
    async def scenario() -> None:
        go = asyncio.Event()

        async def slow(peer: Peer) -> None:
            await peer.request()
            await go.wait()
            peer.send(OK)
            await peer.closed()

        async with raw(slow, answers) as (server, client):
            under_way = asyncio.create_task(bind(client))
            await until(lambda: server.connections)
            await client._use_access()
            await bind(client)
            go.set()
            assert await under_way == b"{}"
            await bind(client)
            assert server.connections == 2

    virtual_time.run(scenario())


@pytest.mark.parametrize(
    "access",
    [
        Access("https://10.0.0.1:6443", None, None, "http://proxy:3128"),
        Access("http://user:password@10.0.0.1", None, None, None),
        Access("10.0.0.1:6443", None, None, None),
        Access("", None, None, None),
    ],
)
def test_servers_behind_proxies_and_unusual_addresses_are_left_to_aiohttp(access: Access) -> None:
    assert Http1Transport.to(access) is None


def test_a_server_below_a_path_and_with_an_ipv6_address_is_reached() -> None:
    transport = Http1Transport.to(Access("http://[::1]:8001/k8s/clusters/c-1", None, None, None))
    assert transport is not None
    assert (transport._prefix, transport._host) == ("/k8s/clusters/c-1", "[::1]:8001")
    assert (transport._pool._host, transport._pool._port) == ("::1", 8001)


@pytest.mark.parametrize(
    ("server_name", "certificate", "outcome"),
    [(None, True, b"client"), ("api.example", True, b"client"), ("other.example", True, None), (None, False, None)],
)
def test_both_ends_of_a_tls_connection_show_their_certificates(
    tmp_path: Path, server_name: str | None, certificate: bool, outcome: bytes | None
) -> None:
    authority = Authority(tmp_path)
    server, client = authority.issue("server", ["api.example"]), authority.issue("client", client=True)
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.path)
    serving.load_cert_chain(server.certificate, server.key)
    serving.verify_mode = ssl.CERT_REQUIRED
    trust = ssl.create_default_context(cafile=authority.path)
    if certificate:
        trust.load_cert_chain(client.certificate, client.key)

    async def names_the_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await Peer(reader, writer).request()
        ((_, name),) = writer.get_extra_info("peercert")["subject"][-1]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(name), name.encode()))

    async def scenario() -> None:
        listening = await asyncio.start_server(names_the_client, "127.0.0.1", 0, ssl=serving)
        transport = Http1Transport.to(
            Access(f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}", trust, server_name, None)
        )
        assert transport is not None
        request = HttpRequest("POST", "/x", RequestHead("", "application/json", "application/json"), b"{}")
        if outcome is None:
            with pytest.raises((ConnectError, ExchangeError)):
                await transport.send(request, 30)
        else:
            assert (await transport.send(request, 30)).body == outcome
        await transport.abort()
        listening.close()

    virtual_time.run(scenario())
