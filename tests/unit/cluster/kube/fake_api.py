"""An in-process API server for tests: gives prepared answers, records requests, streams watches line by line."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from scheduler.api.objects import PodSpec
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.credentials import Access
from scheduler.observability.metrics import Metrics
from scheduler.observability.server import EndpointServer, ServerThread

PODS = "/api/v1/namespaces/ns/pods"


@dataclass
class Call:
    """One request that the server received."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str]
    at: float = field(default_factory=lambda: asyncio.get_running_loop().time())


Answer = web.StreamResponse | dict[str, Any] | None
Handler = Callable[[Call, web.Request], Awaitable[Answer]]


class FakeApi:
    """``on`` registers handlers (the newest match wins); a request without a match is answered with 404."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.url = ""
        self._handlers: list[tuple[str, re.Pattern[str], Handler]] = []

    def on(self, method: str, path: str, handler: Handler) -> None:
        self._handlers.insert(0, (method, re.compile(path), handler))

    def answer(self, method: str, path: str, body: dict[str, Any] | None = None, status: int = 200) -> None:
        async def handler(call: Call, request: web.Request) -> Answer:
            return web.json_response(body or {}, status=status)

        self.on(method, path, handler)

    def to(self, method: str, path: str) -> list[Call]:
        """The calls so far that match."""
        return [c for c in self.calls if c.method == method and re.fullmatch(path, c.path)]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        call = Call(
            request.method, request.path, dict(request.query), json.loads(raw) if raw else None, dict(request.headers)
        )
        self.calls.append(call)
        for method, pattern, handler in self._handlers:
            if method == request.method and pattern.fullmatch(request.path):
                answer = await handler(call, request)
                return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer or {})
        return refusal(404, "NotFound", f"{request.path} not found")


def refusal(status: int, reason: str, message: str = "", **headers: str) -> web.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.json_response(
        {"kind": "Status", "code": status, "reason": reason, "message": message}, status=status, headers=named
    )


class WatchFeed:
    """Events for one watch after the other: a list per watch, as objects or as JSON; the last watch stays open."""

    def __init__(self, *watches: Sequence[dict[str, Any] | str]) -> None:
        self.watches = list(watches)
        self.versions: list[str] = []
        """The resourceVersion each watch began at."""

    async def __call__(self, call: Call, request: web.Request) -> Answer:
        self.versions.append(call.query["resourceVersion"])
        lines = self.watches.pop(0) if self.watches else None
        response = web.StreamResponse()
        await response.prepare(request)
        for line in lines or ():
            text = line if isinstance(line, str) else json.dumps(line)
            await response.write(text.encode() + b"\n")
        if not self.watches:
            await asyncio.sleep(60)
        return response


class StaticCredentials:
    def __init__(self, url: str, tokens: list[str] | None = None) -> None:
        self._url = url
        self._tokens = tokens or [""]

    def load(self) -> Access:
        return Access(self._url, None, None, None)

    def authorization(self) -> str:
        return self._tokens.pop(0) if len(self._tokens) > 1 else self._tokens[0]


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[tuple[FakeApi, ApiClient]]:
    """A running server and a client for it."""
    api = FakeApi()
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", api.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    api.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    tokens = options.pop("tokens", None)
    client = ApiClient(StaticCredentials(api.url, tokens), Metrics(), **options)
    await client.start()
    try:
        yield api, client
    finally:
        await client.close()
        await runner.cleanup()


async def healthz(server: EndpointServer | ServerThread, path: str = "/healthz") -> tuple[int, str]:
    """The answer of a role to a probe."""
    url = f"http://127.0.0.1:{server.ports[path]}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


async def until(condition: Callable[[], object], timeout: float = 30.0) -> None:
    """Waits for a condition, with a long time limit, since many processes may share the machine."""
    async with asyncio.timeout(timeout):
        while not condition():
            await asyncio.sleep(0.005)


def a_task(name: str = "p", *, message: str = "", status: TaskStatus = TaskStatus.PENDING) -> Task:
    import numpy as np

    cls = TaskClass(
        id=1,
        namespace="ns",
        labels={},
        annotations={},
        spec=PodSpec(),
        request=np.zeros(8),
        best_effort=True,
        nonzero=(0.0, 0.0),
    )
    return Task(
        uid=f"uid-{name}",
        namespace="ns",
        name=name,
        job="ns/group",
        cls=cls,
        role="",
        status=status,
        node="",
        priority=1,
        creation=0.0,
        index=-1,
        gated=False,
        preemptable=True,
        nominated="",
        annotations={},
        resource_version="1",
        ours=True,
        message=message,
    )
