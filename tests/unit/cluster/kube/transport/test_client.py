"""The way to the API server: credentials, rate limits, errors."""

import asyncio
import selectors
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from scheduler.cluster.kube.transport import client as clients
from scheduler.cluster.kube.transport.aiohttp_transport import AiohttpTransport
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.credentials import Credentials, CredentialsError
from scheduler.cluster.kube.transport.errors import ApiError, TransportError
from scheduler.cluster.kube.transport.fence import Fence, Fenced
from scheduler.cluster.kube.transport.ratelimit import Backoff, CallPriority, RateLimiter
from scheduler.observability.metrics import Metrics
from tests.unit import virtual_time
from tests.unit.cluster.kube.fake_api import Answer, Call, refusal, serving
from tests.unit.cluster.kube.transport.authorities import RotatedAuthority


def test_more_important_calls_take_the_next_token_first() -> None:
    async def scenario() -> None:
        limiter = RateLimiter(qps=10, burst=1)
        await limiter.acquire(CallPriority.EVENT)
        order: list[str] = []

        async def call(priority: CallPriority) -> None:
            await limiter.acquire(priority)
            order.append(priority.label)

        classes = (CallPriority.EVENT, CallPriority.STATUS, CallPriority.EVENT, CallPriority.WRITE)
        await asyncio.gather(*(call(priority) for priority in classes))
        assert order == ["write", "status", "event", "event"]

    virtual_time.run(scenario())


class Clock(selectors.DefaultSelector):
    """The clock of an event loop on which nothing but waiting takes time."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += timeout or 0.0
        return super().select(0)


class TimedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.clock = Clock()
        super().__init__(self.clock)

    def time(self) -> float:
        return self.clock.now


def run_timed(scenario: Coroutine[Any, Any, None]) -> None:
    """Runs a scenario that neither reads from a network nor starts a thread; ``now()`` is exact in it."""
    with asyncio.Runner(loop_factory=TimedLoop) as runner:
        runner.run(scenario)


def now() -> float:
    return asyncio.get_running_loop().time()


def test_calls_come_no_faster_than_allowed_and_those_of_the_lease_at_once() -> None:
    async def scenario() -> None:
        limiter = RateLimiter(qps=50, burst=5)
        begun = now()
        for _ in range(15):
            await limiter.acquire(CallPriority.WRITE)
        assert 0.18 <= now() - begun < 0.22
        begun = now()
        for _ in range(100):
            await limiter.acquire(CallPriority.CONTROL)
        assert now() == begun

    run_timed(scenario())


def test_a_call_that_is_given_up_leaves_its_token_to_others() -> None:
    async def scenario() -> None:
        limiter = RateLimiter(qps=20, burst=1)
        await limiter.acquire(CallPriority.WRITE)
        given_up = asyncio.create_task(limiter.acquire(CallPriority.WRITE))
        await asyncio.sleep(0)
        given_up.cancel()
        begun = now()
        await limiter.acquire(CallPriority.EVENT)
        assert now() - begun < 0.09

    run_timed(scenario())


def test_an_error_carries_what_the_server_said() -> None:
    async def scenario() -> None:
        async with serving() as (api, client):

            async def busy(call: Call, request: web.Request) -> Answer:
                return refusal(429, "TooManyRequests", "slow down", Retry_After="7")

            api.on("GET", "/x", busy)
            with pytest.raises(ApiError) as caught:
                await client.request("GET", "/x", priority=CallPriority.READ)
            error = caught.value
            assert (error.status, error.reason, error.message) == (429, "TooManyRequests", "slow down")
            assert error.retry_after == 7
            assert error.transient
            assert not error.uncertain

    virtual_time.run(scenario())


def test_a_token_that_has_expired_is_fetched_again() -> None:
    async def scenario() -> None:
        async with serving(tokens=["Bearer old", "Bearer new"]) as (api, client):

            async def guarded(call: Call, request: web.Request) -> Answer:
                return {} if call.headers["Authorization"] == "Bearer new" else refusal(401, "Unauthorized")

            api.on("GET", "/x", guarded)
            client._loaded -= 60
            await client.request("GET", "/x", priority=CallPriority.READ)
            assert [call.headers["Authorization"] for call in api.calls] == ["Bearer old", "Bearer new"]

    virtual_time.run(scenario())


def test_a_server_that_cannot_be_reached_was_sent_nothing() -> None:
    async def scenario() -> None:
        async with serving() as (_, client):
            client._access = type(client._access)("http://127.0.0.1:1", None, None, None)
            await client._use_access()
            with pytest.raises(TransportError) as caught:
                await client.request("POST", "/x", priority=CallPriority.WRITE)
            assert not caught.value.sent

    virtual_time.run(scenario())


def test_a_closed_fence_lets_nothing_through() -> None:
    async def scenario() -> None:
        async with serving() as (api, client):
            with pytest.raises(Fenced):
                await client.request("POST", "/x", priority=CallPriority.WRITE, fence=Fence())
            assert not api.calls

    virtual_time.run(scenario())


def test_waits_grow_to_a_bound_and_start_over_after_success() -> None:
    backoff = Backoff(1.0, 8.0)
    waits = [backoff.next() for _ in range(10)]
    assert all(0.5 * 2**i <= wait <= 2**i for i, wait in enumerate(waits[:4]))
    assert all(4 <= wait <= 8 for wait in waits[3:])
    assert backoff.next(at_least=60) == 60
    backoff.reset()
    assert backoff.next() <= 1.0


def kubeconfig(path: Path, user: dict[str, str]) -> str:
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "clusters": [{"name": "k", "cluster": {"server": "http://10.0.0.1:6443/"}}],
                "users": [{"name": "u", "user": user}],
            }
        ),
        encoding="utf-8",
    )
    return str(path)


def test_a_kubeconfig_gives_address_and_token_and_master_overrides_the_address(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", {"token": "abc"})
    credentials = Credentials(kubeconfig=path)
    assert credentials.load().host == "http://10.0.0.1:6443"
    assert credentials.authorization() == "Bearer abc"
    assert Credentials(kubeconfig=path, master="https://other:1/").load().host == "https://other:1"


def test_unusable_credentials_are_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="no such file"):
        Credentials(kubeconfig=str(tmp_path / "missing")).load()
    broken = tmp_path / "broken"
    broken.write_text("contexts: [", encoding="utf-8")
    with pytest.raises(CredentialsError, match="broken"):
        Credentials(kubeconfig=str(broken)).load()


def test_a_kubeconfig_of_the_environment_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "none")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", path)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", path)  # read at import
    with pytest.raises(CredentialsError, match=f"cannot load credentials from KUBECONFIG={path}"):
        Credentials().load()


def test_a_service_account_is_read_from_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(CredentialsError, match="service account"):
        Credentials().load()
    assert Credentials(master="127.0.0.1:8080").load().host == "http://127.0.0.1:8080"


@pytest.mark.parametrize("priority", [CallPriority.READ, CallPriority.WRITE])
def test_a_server_with_a_certificate_of_another_authority_is_trusted_once_that_has_come(
    monkeypatch: pytest.MonkeyPatch, priority: CallPriority
) -> None:
    monkeypatch.setattr(clients, "_RELOAD_SECONDS", 0.0)
    rotated = RotatedAuthority()

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="here")

    async def scenario() -> None:
        app = web.Application()
        app.router.add_get("/", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=rotated.serving_tls()).start()
        rotated.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        client = ApiClient(rotated, Metrics())
        await client.start()
        with pytest.raises(TransportError) as refused:
            await client.request("GET", "/", priority=priority)
        assert not refused.value.sent
        assert await client.request("GET", "/", priority=priority) == b"here"
        await client.close()
        await runner.cleanup()

    virtual_time.run(scenario())


@pytest.mark.parametrize("own", [True, False], ids=["connections of our own", "aiohttp"])
def test_a_stream_is_followed_line_by_line_to_its_end(own: bool) -> None:
    async def stream(call: Call, request: web.Request) -> Answer:
        response = web.StreamResponse()
        await response.prepare(request)
        for part in (b"on", b"e\ntwo\nth", b"ree\ntorn"):
            await response.write(part)
            await asyncio.sleep(0.01)
        return response

    async def scenario() -> None:
        async with serving() as (api, client):
            api.on("GET", "/watched", stream)
            if not own:
                client._transport = AiohttpTransport(client._access)
            lines: list[bytes] = []
            for _ in range(2):
                await client.follow("/watched", {"watch": "1"}, lines.extend, longest=10.0)
            assert lines == [b"one", b"two", b"three"] * 2
            assert [call.query for call in api.calls] == [{"watch": "1"}] * 2

    asyncio.run(scenario())


@pytest.mark.parametrize("own", [True, False], ids=["connections of our own", "aiohttp"])
def test_a_stream_that_is_refused_or_does_not_end_is_an_error(own: bool) -> None:
    async def endless(call: Call, request: web.Request) -> Answer:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(60)
        return response

    async def scenario() -> None:
        async with serving() as (api, client):
            api.on("GET", "/gone", lambda call, request: _refused())
            api.on("GET", "/endless", endless)
            if not own:
                client._transport = AiohttpTransport(client._access)
            lines: list[bytes] = []
            with pytest.raises(ApiError) as refused:
                await client.follow("/gone", {}, lines.extend, longest=10.0)
            assert (refused.value.status, refused.value.message) == (410, "too old")
            with pytest.raises(TransportError) as silent:
                await client.follow("/endless", {}, lines.extend, longest=0.1)
            assert silent.value.sent
            assert not lines

    asyncio.run(scenario())


async def _refused() -> Answer:
    return refusal(410, "Expired", "too old")


@pytest.mark.parametrize("own", [True, False], ids=["connections of our own", "aiohttp"])
def test_an_error_of_what_receives_a_stream_breaks_it_off(own: bool) -> None:
    async def stream(call: Call, request: web.Request) -> Answer:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await asyncio.sleep(60)
        return response

    def fail(lines: list[bytes]) -> None:
        raise LookupError(lines[0].decode())

    async def scenario() -> None:
        async with serving() as (api, client):
            api.on("GET", "/watched", stream)
            api.answer("GET", "/other", {"kind": "Status"})
            if not own:
                client._transport = AiohttpTransport(client._access)
            with pytest.raises(LookupError, match="one"):
                await client.follow("/watched", {}, fail, longest=10.0)
            await client.request("GET", "/other", priority=CallPriority.CONTROL)  # not on the same connection

    asyncio.run(scenario())
