"""The life of a leader: a process holds the lease while it works, and releases it whatever happens."""

import asyncio
import contextlib
import signal
import urllib.request
from collections.abc import Awaitable

import aiohttp
import pytest

from scheduler.cluster.kube.process import process as processes
from scheduler.cluster.kube.process.lease import LeaseSettings
from scheduler.cluster.kube.process.liveness import STOPPING, STUCK, Phase
from scheduler.cluster.kube.process.process import Process, Work
from scheduler.cluster.kube.process.settings import ProcessSettings
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.observability.metrics import Metrics
from tests.unit import virtual_time
from tests.unit.cluster.kube.fake_api import StaticCredentials, healthz, serving, until
from tests.unit.cluster.kube.process.test_lease import SETTINGS, leases


class Replica:
    """One of several processes that share a lease."""

    def __init__(self, client: ApiClient, lease: LeaseSettings | None = SETTINGS) -> None:
        self.metrics = Metrics()
        self.passed = 0.0
        """The seconds that the liveness probe takes to have passed."""
        settings = ProcessSettings(lease=lease, health_address="127.0.0.1:0")
        self.process = Process(
            settings, StaticCredentials(client.host), self.metrics, lambda: "", now=lambda: self.passed
        )
        self.process.client = client

        self.catch_ups = 0
        """The number of times that the process has begun to catch up with another leader."""

    def lead(self, work: Work) -> Awaitable[int]:
        return self.process.run_as_leader(work, self._catch_up)

    async def _catch_up(self) -> bool:
        self.catch_ups += 1
        return True

    @property
    def leading(self) -> float:
        return (
            self.metrics.registry.get_sample_value("volcano_py_leader", {"role": self.metrics.role, "shard": ""}) or 0.0
        )


def test_the_lease_is_renewed_from_the_beginning_of_the_work_to_its_end() -> None:
    async def scenario() -> None:
        async with leases() as (server, client):
            replica = Replica(client)

            async def work(caught_up: "asyncio.Future[bool]", lost: "asyncio.Task[str]") -> None:
                await asyncio.sleep(SETTINGS.duration + 0.5)
                assert replica.process.fence.is_open and replica.leading == 1 and not lost.done()

            assert await replica.lead(work) == 0
            assert server.holder == "" and not replica.process.fence.is_open and replica.leading == 0

    virtual_time.run(scenario())


class Pair:
    """Given two processes: one leads until it is stopped, and the other is the standby."""

    def __init__(self, client: ApiClient) -> None:
        self.first, self.second = Replica(client), Replica(client)
        self.led: list[bool] = []
        """For each process that became the leader: whether it has caught up with another leader."""

    async def start(self) -> None:
        """Returns when the first leads and the second has tried to."""
        self.holding = asyncio.ensure_future(self.first.lead(self._hold))
        await until(lambda: self.led)
        self.standing_by = asyncio.ensure_future(self.second.lead(self._note))
        await until(lambda: self.second.process.liveness.phase is Phase.STANDING_BY)
        await self.try_to_lead()

    async def try_to_lead(self) -> None:
        """Returns when the second has tried to lead (again): nothing else is progress of a standby."""
        self.second.passed += STUCK + 1
        assert self.second.process.liveness.problem()
        await until(lambda: not self.second.process.liveness.problem())

    async def _hold(self, caught_up: "asyncio.Future[bool]", lost: "asyncio.Task[str]") -> None:
        self.led.append(await caught_up and self.first.catch_ups > 0)
        await self.first.process.stopping.wait()

    async def _note(self, caught_up: "asyncio.Future[bool]", lost: "asyncio.Task[str]") -> None:
        self.led.append(await caught_up and self.second.catch_ups > 0)


def test_a_process_that_is_stopped_before_it_leads_does_no_work() -> None:
    async def scenario() -> None:
        async with leases() as (_, client):
            pair = Pair(client)
            await pair.start()
            pair.second.process.stop()
            assert await pair.standing_by == 0 and pair.led == [False]
            pair.first.process.stop()
            assert await pair.holding == 0

    virtual_time.run(scenario())


def test_the_next_leader_knows_that_another_led() -> None:
    async def scenario() -> None:
        async with leases() as (_, client):
            pair = Pair(client)
            await pair.start()
            pair.first.process.stop()
            assert await pair.holding == 0
            assert await asyncio.wait_for(pair.standing_by, 30) == 0
            assert pair.led == [False, True]

    virtual_time.run(scenario())


def test_a_standby_catches_up_with_a_killed_leader_before_it_leads_itself() -> None:
    async def scenario() -> None:
        async with leases() as (server, client):
            spec = {"holderIdentity": "killed", "leaseDurationSeconds": 2}
            server.lease = {"metadata": {"name": "volcano-py", "resourceVersion": "1"}, "spec": spec}
            replica = Replica(client)

            async def work(caught_up: "asyncio.Future[bool]", lost: "asyncio.Task[str]") -> None:
                assert caught_up.done() and caught_up.result()

            leading = asyncio.ensure_future(replica.lead(work))
            await until(lambda: replica.catch_ups)
            assert server.holder == "killed"
            assert await leading == 0
            assert replica.catch_ups == 1

    virtual_time.run(scenario())


def test_leadership_that_is_lost_ends_in_failure() -> None:
    async def scenario() -> None:
        async with leases() as (server, client):

            async def work(caught_up: "asyncio.Future[bool]", lost: "asyncio.Task[str]") -> None:
                server.down = True
                await asyncio.wait((lost,))

            replica = Replica(client)
            assert await replica.lead(work) == 1
            assert not replica.process.fence.is_open

    virtual_time.run(scenario())


def test_work_that_continues_after_leadership_is_lost_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "WIND_UP", 0.05)

    async def scenario() -> None:
        async with leases() as (server, client):

            async def work(caught_up: "asyncio.Future[bool]", lost: "asyncio.Task[str]") -> None:
                server.down = True
                await asyncio.Event().wait()

            async with asyncio.timeout(30):
                assert await Replica(client).lead(work) == 1

    virtual_time.run(scenario())


def test_health_fails_when_leadership_was_lost_and_the_process_does_not_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "WIND_UP", 0.05)

    async def scenario() -> None:
        async with leases() as (server, client):
            free = asyncio.Event()

            async def work(caught_up: "asyncio.Future[bool]", lost: "asyncio.Task[str]") -> None:
                server.down = True
                while not free.is_set():
                    with contextlib.suppress(asyncio.CancelledError):  # the fault: a cancellation is swallowed
                        await free.wait()

            replica = Replica(client)
            health, liveness = replica.process.server, replica.process.liveness
            await health.start()
            leading = asyncio.ensure_future(replica.lead(work))
            await until(lambda: liveness.phase is Phase.LEADING)
            assert await healthz(health) == (200, "ok")
            await until(lambda: liveness.phase is Phase.STOPPING)
            replica.passed = STOPPING
            assert await healthz(health) == (200, "ok")
            replica.passed += 1
            assert await healthz(health) == (503, "stopping for 31 s (limit 30 s)")
            free.set()
            assert await leading == 1
            await health.stop()

    virtual_time.run(scenario())


def test_a_standby_is_healthy_as_long_as_it_tries_to_lead() -> None:
    async def scenario() -> None:
        async with leases() as (_, client):
            pair = Pair(client)
            await pair.start()
            await pair.try_to_lead()
            assert pair.second.process.liveness.phase is Phase.STANDING_BY
            pair.second.process.stop()
            pair.first.process.stop()
            await asyncio.gather(pair.holding, pair.standing_by)

    virtual_time.run(scenario())


def test_the_lease_is_released_when_the_work_fails() -> None:
    async def scenario() -> None:
        async with leases() as (server, client):

            async def work(caught_up: "asyncio.Future[bool]", lost: "asyncio.Task[str]") -> None:
                raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await Replica(client).lead(work)
            assert server.holder == ""

    virtual_time.run(scenario())


def test_without_a_lease_one_leads_at_once() -> None:
    async def scenario() -> None:
        async with leases() as (server, client):
            replica = Replica(client, lease=None)
            seen: list[bool] = []

            async def work(caught_up: "asyncio.Future[bool]", lost: "asyncio.Task[str]") -> None:
                seen.append(await caught_up and replica.catch_ups == 0 and not lost.done())
                assert replica.process.fence.is_open and replica.leading == 1

            assert await replica.lead(work) == 0
            assert seen == [True] and server.lease is None

    virtual_time.run(scenario())


def test_health_is_answered_while_the_event_loop_is_busy() -> None:
    async def scenario() -> None:
        async with serving() as (api, _):
            settings = ProcessSettings(health_address="127.0.0.1:0")
            process = Process(settings, StaticCredentials(api.url), Metrics(), ready=lambda: "")
            async with process.running():
                url = f"http://127.0.0.1:{process.server.ports['/healthz']}/healthz"
                with urllib.request.urlopen(url, timeout=30) as answer:  # blocks the loop
                    assert (answer.status, answer.read()) == (200, b"ok")

    asyncio.run(scenario())


def test_health_and_metrics_are_served_while_a_process_runs_and_a_signal_asks_it_to_stop() -> None:
    async def scenario() -> None:
        async with serving() as (api, _):
            local = "127.0.0.1:0"
            settings = ProcessSettings(metrics_address=local, health_address=local)
            process = Process(settings, StaticCredentials(api.url), Metrics(), ready=lambda: "not listed yet")
            async with process.running(), aiohttp.ClientSession() as session:
                for path, status in (("/healthz", 200), ("/readyz", 503), ("/metrics", 200)):
                    url = f"http://127.0.0.1:{process.server.ports[path]}{path}"
                    async with session.get(url) as answer:
                        assert answer.status == status
                signal.raise_signal(signal.SIGTERM)
                await asyncio.wait_for(process.stopping.wait(), 30)
                assert process.liveness.phase is Phase.STOPPING
            with pytest.raises(aiohttp.ClientConnectorError):
                await healthz(process.server)

    virtual_time.run(scenario())
