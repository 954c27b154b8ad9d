"""A proxy between our programs and the API server that injects the faults of a schedule into their requests.

Each process has a port of its own, so the proxy knows which process sent a request. The proxy understands as much of
HTTP/1.1 as it needs: a client sends a request when it has received the answer to the one before, so what arrives from
the API server belongs to the latest request.
"""

import asyncio
import json
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, urlsplit

from controlplane.credentials import ServerCertificate
from tests.faults.schedule import Fault, FaultKind, Role, Target, Window

SLOW_BYTES: Final = 512
SLOW_PAUSE: Final = 0.02
"""Seconds between two parts of a slow answer."""
T = TypeVar("T")
_REASONS: Final = {
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass(slots=True)
class Exchange:
    """A request, and its answer so far. Times of ``time.monotonic``."""

    client: str
    role: Role
    method: str
    path: str
    """Without the query."""
    target: Target
    received: float
    status: int = 0
    """What the API server answered; 0: nothing."""
    answered: float = 0.0
    fault: Fault | None = None


@dataclass(slots=True)
class Takeover:
    """A process acquires the lease of its role."""

    role: Role
    client: str
    at: float


@dataclass(slots=True)
class Trigger:
    """Calls ``act`` with the client when the API server has answered this many requests of a kind."""

    role: Role
    target: Target
    number: int
    act: Callable[[str], None]


@dataclass(slots=True)
class _Request:
    method: str
    path: str
    query: dict[str, list[str]]
    raw: bytes
    body: bytes


@dataclass(slots=True, eq=False)
class _Link:
    """A connection of a client, and the connection to the API server that belongs to it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    upstream: asyncio.StreamWriter | None = None
    pump: "asyncio.Task[None] | None" = None
    exchange: Exchange | None = None
    body: bytes = b""
    """The body of the request."""
    fault: FaultKind | None = None
    replacement: Fault | None = None
    silent_since: float = 0.0
    """When the connection was made silent; 0: it was not."""

    @property
    def gone(self) -> bool:
        """Whether the client has closed its connection."""
        return self.reader.at_eof() or self.reader.exception() is not None or self.writer.is_closing()

    def abort(self) -> None:
        """Resets both connections."""
        for writer in (self.writer, self.upstream):
            if writer is not None:
                writer.transport.abort()


@dataclass
class _Faults:
    """The windows in force and what they have met."""

    seed: int = 0
    windows: Sequence[Window] = ()
    began: float = 0.0
    met: Counter[int] = field(default_factory=Counter)

    def next(self, exchange: Exchange) -> Fault | None:
        since = exchange.received - self.began
        for index, window in enumerate(self.windows):
            if window.begin <= since < window.end and window.role is exchange.role and window.target is exchange.target:
                number = self.met[index]
                self.met[index] += 1
                if Random(f"{self.seed}/{index}/{number}").random() < window.share:
                    return window.fault
        return None


class FaultProxy:
    """Runs on a thread with an event loop of its own. ``start`` first, ``stop`` last; methods may be called in any
    thread."""

    def __init__(self, port: int, upstream: ssl.SSLContext, certificate: ServerCertificate) -> None:
        """``port``: the port of the API server on 127.0.0.1."""
        self._port = port
        self._upstream = upstream
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate.certificate, certificate.key)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self._servers: dict[str, asyncio.Server] = {}
        self._links: set[_Link] = set()
        self._faults = _Faults()
        self._calm = asyncio.Event()
        """Set while there are no faults."""
        self._calm.set()
        self._triggers: list[Trigger] = []
        self.leaders: dict[Role, str] = {}
        """The process that wrote the lease of a role last."""
        self.takeovers: list[Takeover] = []
        self.placements: list[Exchange] = []
        """Bindings and new Pods that the API server accepted."""
        self.injected: Counter[str] = Counter()
        self.noticed: list[float] = []
        """Seconds from the silence of each connection that ``silence`` made silent to its end."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        async def close() -> None:
            for server in self._servers.values():
                server.close()
            for link in list(self._links):
                link.abort()
            await asyncio.sleep(0.05)

        self._call(close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def listen(self, client: str, role: Role) -> int:
        """Opens a port for a process and returns it."""

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(client, role, reader, writer)

        async def open_port() -> int:
            server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=self._tls, limit=1 << 20)
            self._servers[client] = server
            return int(server.sockets[0].getsockname()[1])

        return self._call(open_port())

    def close(self, client: str) -> None:
        """Closes the port of a process that has ended."""

        async def close_port() -> None:
            self._servers.pop(client).close()

        self._call(close_port())

    def begin(self, seed: int, windows: Sequence[Window]) -> None:
        """Begins a history."""

        async def set_faults() -> None:
            self._faults = _Faults(seed, windows, time.monotonic())
            self._calm.clear()
            self.placements.clear()
            self.injected.clear()

        self._call(set_faults())

    def calm(self) -> None:
        """Ends all faults, and resets the connections that they hold."""

        async def end() -> None:
            self._faults = _Faults()
            self._triggers.clear()
            self._calm.set()
            for link in list(self._links):
                if link.fault is FaultKind.SILENT:
                    link.abort()

        self._call(end())

    def silence(self, role: Role, seconds: float) -> None:
        """Makes the open watches of a role silent for some time."""

        async def mute() -> None:
            found = [
                link
                for link in self._links
                if link.exchange is not None and link.exchange.role is role and link.exchange.target is Target.WATCH
            ]
            for link in found:
                link.fault, link.silent_since = FaultKind.SILENT, time.monotonic()
                self._loop.call_later(seconds, link.abort)
            self.injected["watch silent"] += len(found)

        self._call(mute())

    def add_trigger(self, trigger: Trigger) -> None:
        """Adds a trigger, which acts once."""
        self._loop.call_soon_threadsafe(self._triggers.append, trigger)

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    # --- one connection -----------------------------------------------------------------------------------------------
    async def _serve(self, client: str, role: Role, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(reader, writer)
        self._links.add(link)
        try:
            while (request := await _read(reader)) is not None:
                if not await self._handle(client, role, request, link):
                    break
        except (OSError, EOFError):
            pass
        finally:
            self._links.discard(link)
            if link.silent_since:
                self.noticed.append(time.monotonic() - link.silent_since)
            if link.pump is not None:
                link.pump.cancel()
            for each in (writer, link.upstream):
                if each is not None:
                    each.close()

    async def _handle(self, client: str, role: Role, request: _Request, link: _Link) -> bool:
        """Returns whether the connection can carry another request."""
        exchange = Exchange(client, role, request.method, request.path, _target(request), time.monotonic())
        fault = exchange.fault = self._faults.next(exchange)
        link.exchange, link.body, link.fault, link.replacement = exchange, request.body, None, None
        if fault is not None:
            self.injected[f"{exchange.target} {fault}"] += 1
            match fault.kind:
                case FaultKind.REFUSED:
                    link.writer.write(_answer(fault.status))
                    await link.writer.drain()
                    return True
                case FaultKind.EXPIRED:
                    link.writer.write(_EXPIRED)
                    await link.writer.drain()
                    return True
                case FaultKind.UNANSWERED:
                    await self._hold(link.reader)
                    link.abort()
                    return False
                case FaultKind.DELAYED:
                    await asyncio.sleep(fault.seconds)
                    if link.gone:
                        return False
            link.fault, link.replacement = fault.kind, fault
        if link.upstream is None:
            try:
                back, link.upstream = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._upstream)
            except OSError:  # the API server is not there
                link.abort()
                return False
            link.pump = asyncio.create_task(self._pump(link, back))
        link.upstream.write(request.raw)
        await link.upstream.drain()
        return True

    async def _hold(self, reader: asyncio.StreamReader) -> None:
        """Waits until the faults end, or the client closes the connection."""
        waits = [asyncio.ensure_future(self._calm.wait()), asyncio.ensure_future(reader.read(1))]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()

    async def _pump(self, link: _Link, back: asyncio.StreamReader) -> None:
        """Passes on what the API server sends."""
        with suppress(OSError):
            while data := await back.read(65536):
                exchange = link.exchange
                first = exchange is not None and not exchange.status
                if exchange is not None and first:
                    self._note(exchange, link.body, data)
                if not await self._pass_on(link, data, first=first):
                    return
        link.writer.close()

    async def _pass_on(self, link: _Link, data: bytes, *, first: bool) -> bool:
        """Returns whether the connection goes on."""
        writer = link.writer
        match link.fault:
            case FaultKind.ANSWER_LOST:
                link.abort()
                return False
            case FaultKind.ANSWER_REPLACED:
                assert link.replacement is not None
                writer.write(_answer(link.replacement.status, close=True))
                writer.close()
                return False
            case FaultKind.TORN:
                writer.write(data[: max(1, len(data) // 2)])
                await writer.drain()
                await asyncio.sleep(0.01)
                link.abort()
                return False
            case FaultKind.SILENT if not first:
                return True
            case FaultKind.SLOW:
                for begin in range(0, len(data), SLOW_BYTES):
                    writer.write(data[begin : begin + SLOW_BYTES])
                    await writer.drain()
                    if not self._calm.is_set():
                        await asyncio.sleep(SLOW_PAUSE)
                return True
        writer.write(data)
        await writer.drain()
        return True

    def _note(self, exchange: Exchange, body: bytes, data: bytes) -> None:
        """Notes the status of an answer, of which ``data`` is the beginning."""
        exchange.status = int(data[9:12]) if data[9:12].isdigit() else -1
        exchange.answered = time.monotonic()
        if not 200 <= exchange.status < 300:
            return
        if exchange.target is Target.LEASE and exchange.method != "GET":
            self._lease_written(exchange, body)
        elif exchange.target in (Target.BINDING, Target.NEW_POD):
            self.placements.append(exchange)
        for trigger in list(self._triggers):
            if trigger.role is exchange.role and trigger.target is exchange.target:
                trigger.number -= 1
                if trigger.number <= 0:
                    self._triggers.remove(trigger)
                    trigger.act(exchange.client)

    def _lease_written(self, exchange: Exchange, body: bytes) -> None:
        holder = (json.loads(body).get("spec") or {}).get("holderIdentity")
        if not holder:
            self.leaders.pop(exchange.role, None)
        elif self.leaders.get(exchange.role) != exchange.client:
            self.leaders[exchange.role] = exchange.client
            self.takeovers.append(Takeover(exchange.role, exchange.client, exchange.answered))


async def _read(reader: asyncio.StreamReader) -> _Request | None:
    """Reads a request; None at the end of the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    lines = head.decode("latin-1").split("\r\n")
    method, target, _ = lines[0].split(" ", 2)
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
    if "transfer-encoding" in fields:
        raise OSError("the proxy reads no chunked requests")
    body = await reader.readexactly(int(fields.get("content-length", "0")))
    parts = urlsplit(target)
    return _Request(method, parts.path, parse_qs(parts.query), head + body, body)


def _target(request: _Request) -> Target:
    words = request.path.split("/")
    if "leases" in words:
        return Target.LEASE
    if request.method == "GET":
        if "watch" in request.query:
            return Target.WATCH
        return Target.LIST if "limit" in request.query or not _names_object(words) else Target.READ
    if words[-1] == "binding":
        return Target.BINDING
    if request.method == "POST" and words[-1] == "pods":
        return Target.NEW_POD
    return Target.EVENT if "events" in words else Target.WRITE


def _names_object(words: list[str]) -> bool:
    """Whether a path names one object: ``/api/v1/namespaces/ns/pods/name``."""
    below = words[3 if words[1] == "api" else 4 :]
    if below[:1] == ["namespaces"] and len(below) > 2:
        below = below[2:]
    return len(below) > 1


def _answer(status: int, *, close: bool = False) -> bytes:
    reason = _REASONS[status]
    body = json.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": reason,
            "message": "injected by the fault proxy",
            "code": status,
        }
    ).encode()
    extra = "Retry-After: 1\r\n" if status == 429 else ""
    end = "Connection: close\r\n" if close else ""
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\n{extra}{end}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _chunked(line: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + f"{len(line):x}\r\n".encode() + line + b"\r\n0\r\n\r\n"


_EXPIRED: Final = _chunked(
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure",'
    b'"reason":"Expired","message":"too old resource version","code":410}}\n'
)
