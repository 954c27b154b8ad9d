"""Shared by the benchmarks on a real API server: a client that fills it and watches the results, our programs as child
processes, and the resources that a process has used."""

import asyncio
import json
import os
import re
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import aiohttp
import msgspec

from controlplane.run import ControlPlane
from scheduler.api.kinds import find_kind

IN_FLIGHT = 64
LINE_LIMIT = 2**22
TIMEOUT = 900.0
"""The seconds after which a contender is stopped."""
_ANSWERED = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct):
    phase: str = ""


class Seen(msgspec.Struct):
    """The fields of a Pod or a PodGroup that a watch reads."""

    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class SeenMap(msgspec.Struct):
    """The fields of a ConfigMap that a watch reads."""

    metadata: _Meta = msgspec.field(default_factory=_Meta)
    data: dict[str, str] = {}


S = TypeVar("S", Seen, SeenMap)


class _Event(msgspec.Struct, Generic[S]):
    type: str
    object: S


def collection_of(raw: dict[str, Any]) -> str:
    """The API path to which an object is posted."""
    kind = find_kind(raw["apiVersion"], raw["kind"])
    assert kind is not None
    return kind.path_in(raw["metadata"].get("namespace", ""))


class Api:
    """The part of a client that benchmarks need."""

    def __init__(self, url: str, token: str, tls: ssl.SSLContext) -> None:
        connector = aiohttp.TCPConnector(limit=IN_FLIGHT * 2, ssl=tls)
        self._session = aiohttp.ClientSession(
            url, connector=connector, headers={"Authorization": f"Bearer {token}"}, read_bufsize=LINE_LIMIT
        )

    @classmethod
    def of(cls, plane: ControlPlane) -> Self:
        """Returns a client with the rights of the administrator of a control plane."""
        user = json.loads(plane.kubeconfig.read_text(encoding="utf-8"))["users"][0]["user"]
        return cls(plane.url, user["token"], plane.authority.client_context())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def post(self, path: str, body: bytes) -> None:
        async with self._session.post(path, data=body, headers={"Content-Type": "application/json"}) as answer:
            if answer.status >= 300:
                raise RuntimeError(f"POST {path}: {answer.status} {(await answer.text())[:300]}")
            await answer.read()

    async def post_all(self, requests: Iterable[tuple[str, bytes]]) -> None:
        """Sends POST requests, with IN_FLIGHT requests in flight."""
        await self.do_all(self.post, requests)

    async def patch_all(self, requests: Iterable[tuple[str, bytes]]) -> None:
        """Sends JSON merge patches, with IN_FLIGHT requests in flight."""
        await self.do_all(self.patch, requests)

    async def do_all(
        self, send: Callable[[str, bytes], Awaitable[None]], requests: Iterable[tuple[str, bytes]]
    ) -> None:
        """Calls ``send`` with each path and body, with IN_FLIGHT calls in flight."""
        source = iter(requests)

        async def work() -> None:
            for path, body in source:
                await send(path, body)

        await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))

    async def patch(self, path: str, body: bytes) -> None:
        """A JSON merge patch."""
        headers = {"Content-Type": "application/merge-patch+json"}
        async with self._session.patch(path, data=body, headers=headers) as answer:
            if answer.status >= 300:
                raise RuntimeError(f"PATCH {path}: {answer.status} {(await answer.text())[:300]}")
            await answer.read()

    async def delete(self, path: str) -> None:
        async with self._session.delete(path) as answer:
            if answer.status >= 300:
                raise RuntimeError(f"DELETE {path}: {answer.status} {(await answer.text())[:300]}")

    async def watch(self, path: str, ready: asyncio.Event | None = None) -> AsyncGenerator[Seen, None]:
        """Yields existing, added and changed objects without end; sets ``ready`` once the watch is open."""
        async with aclosing(self._watch(path, _Event[Seen], ready)) as objects:
            async for each in objects:
                yield each

    async def watch_maps(self, path: str, ready: asyncio.Event | None = None) -> AsyncGenerator[SeenMap, None]:
        """Watches ConfigMaps, as ``watch`` does for other objects."""
        async with aclosing(self._watch(path, _Event[SeenMap], ready)) as objects:
            async for each in objects:
                yield each

    async def _watch(self, path: str, struct: type[_Event[S]], ready: asyncio.Event | None) -> AsyncGenerator[S, None]:
        decoder = msgspec.json.Decoder(struct)
        query = {"watch": "true", "resourceVersion": "0"}
        timeout = aiohttp.ClientTimeout(total=None)
        # A definition that is fresh is not served at once, and a busy API server ends watches at any time. They go on
        # where they ended: to be sent all objects again would be more work for it than what is measured.
        while True:
            async with self._session.get(path, params=query, timeout=timeout) as answer:
                if answer.status == 200:
                    if ready is not None:
                        ready.set()
                    async for line in answer.content:
                        event = decoder.decode(line)
                        if event.type == "ERROR":  # the version is too old
                            query["resourceVersion"] = "0"
                            break
                        query["resourceVersion"] = event.object.metadata.resource_version
                        if event.type in ("ADDED", "MODIFIED"):
                            yield event.object
            await asyncio.sleep(0.02)

    async def watch_bindings(
        self, path: str, counts: Callable[[str], bool], expected: int, times: list[float], ready: asyncio.Event
    ) -> None:
        """Records the time when each Pod with a counted name is first seen with a node, until ``expected`` Pods have
        been seen."""
        seen: set[tuple[str, str]] = set()
        async with aclosing(self.watch(path, ready)) as pods:
            async for pod in pods:
                key = pod.metadata.namespace, pod.metadata.name
                if pod.spec.node_name and counts(pod.metadata.name) and key not in seen:
                    seen.add(key)
                    times.append(time.perf_counter())
                    if len(seen) >= expected:
                        return


def installed() -> dict[str, str]:
    """The environment of a program as if it were installed: its modules are compiled once, not at each start."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@contextmanager
def running(role: str, plane: ControlPlane, folder: Path, *options: str) -> Iterator[int]:
    """Runs one of our programs (``scheduler``, ``controllers``, ``webhooks``) without rate limits, and yields its
    process id. Its log is written to ``folder``."""
    flags = ["--kube-api-qps=100000", "--kube-api-burst=100000", "--enable-healthz=false"]
    if role != "webhooks":
        flags.append("--enable-metrics=false")
    with command(role, plane, folder, *flags, *options) as pid:
        yield pid


@contextmanager
def command(name: str, plane: ControlPlane, folder: Path, *options: str) -> Iterator[int]:
    """Runs one of our sub-commands until the end of the block, and yields its process id. Its output is written to
    ``folder``."""
    whole = [sys.executable, "-m", "scheduler.cli.main", name, "--kubeconfig", str(plane.kubeconfig), *options]
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(whole, stdout=log, stderr=log, env=installed())
    try:
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def cpu_seconds(pid: int) -> float:
    """The user and system time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_memory(pid: int) -> float:
    """The most memory a process has had, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def answered_requests(metrics: str) -> Counter[str]:
    """The number of requests that an API server has answered, such as ``DELETE pods``, without watches and requests
    about leases. ``metrics``: the text at ``/metrics``."""
    found: Counter[str] = Counter()
    for labels, number in _ANSWERED.findall(metrics):
        label = dict(_LABEL.findall(labels))
        if label["verb"] != "WATCH" and label["resource"] != "leases":
            found[f"{label['verb']} {label['resource']}/{label['subresource']}".rstrip("/")] += int(float(number))
    return found
