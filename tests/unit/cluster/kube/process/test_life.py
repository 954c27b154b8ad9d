"""How a role leads: the lease is kept from the moment it is had, and let go of whatever happens."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from scheduler.cluster.kube.process import life
from scheduler.cluster.kube.process.life import lead
from scheduler.cluster.kube.process.liveness import STOPPING, STUCK, Liveness, Phase
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.fence import Fence
from scheduler.observability.metrics import Metrics
from scheduler.observability.server import Server
from tests.unit.cluster.kube.fake_api import healthz, until
from tests.unit.cluster.kube.process.test_lease import SETTINGS, leases

Work = Callable[[bool, "asyncio.Task[str]"], Awaitable[None]]


class Process:
    def __init__(self, client: ApiClient) -> None:
        self.stop = asyncio.Event()
        self.fence = Fence()
        self.metrics = Metrics()
        self.passed = 0.0
        """Seconds that the liveness takes to have passed."""
        self.liveness = Liveness(self.fence, now=lambda: self.passed)
        self._client = client

    def lead(self, work: Work) -> Awaitable[int]:
        return lead(self._client, SETTINGS, self.fence, self.metrics, self.liveness, self.stop, work)

    @property
    def leading(self) -> float:
        return self.metrics.registry.get_sample_value("volcano_py_leader") or 0.0


def test_the_lease_is_renewed_from_the_beginning_of_the_work_to_its_end() -> None:
    async def story() -> None:
        async with leases() as (server, client):
            process = Process(client)

            async def work(waited: bool, lost: "asyncio.Task[str]") -> None:
                await asyncio.sleep(2 * SETTINGS.duration)
                assert process.fence.is_open and process.leading == 1 and not lost.done()

            assert await process.lead(work) == 0
            assert server.holder == "" and not process.fence.is_open and process.leading == 0

    asyncio.run(story())


class Pair:
    """Two processes: one leads until it is stopped, the other stands by."""

    def __init__(self, client: ApiClient) -> None:
        self.first, self.second = Process(client), Process(client)
        self.led: list[bool] = []
        """What each was told when it came to lead."""

    async def start(self) -> None:
        self.holding = asyncio.ensure_future(self.first.lead(self._hold))
        await asyncio.sleep(0.05)
        self.standing_by = asyncio.ensure_future(self.second.lead(self._note))
        await asyncio.sleep(0.05)

    async def _hold(self, waited: bool, lost: "asyncio.Task[str]") -> None:
        self.led.append(waited)
        await self.first.stop.wait()

    async def _note(self, waited: bool, lost: "asyncio.Task[str]") -> None:
        self.led.append(waited)


def test_whoever_is_stopped_before_it_leads_does_no_work() -> None:
    async def story() -> None:
        async with leases() as (_, client):
            pair = Pair(client)
            await pair.start()
            pair.second.stop.set()
            assert await pair.standing_by == 0 and pair.led == [False]
            pair.first.stop.set()
            assert await pair.holding == 0

    asyncio.run(story())


def test_the_next_is_told_that_another_led() -> None:
    async def story() -> None:
        async with leases() as (_, client):
            pair = Pair(client)
            await pair.start()
            pair.first.stop.set()
            assert await pair.holding == 0
            assert await asyncio.wait_for(pair.standing_by, 5) == 0
            assert pair.led == [False, True]

    asyncio.run(story())


def test_leadership_that_is_lost_ends_in_failure() -> None:
    async def story() -> None:
        async with leases() as (server, client):

            async def work(waited: bool, lost: "asyncio.Task[str]") -> None:
                server.down = True
                await asyncio.wait((lost,))

            process = Process(client)
            assert await process.lead(work) == 1
            assert not process.fence.is_open

    asyncio.run(story())


def test_work_that_goes_on_after_leadership_is_lost_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "WIND_UP", 0.05)

    async def story() -> None:
        async with leases() as (server, client):

            async def work(waited: bool, lost: "asyncio.Task[str]") -> None:
                server.down = True
                await asyncio.Event().wait()

            async with asyncio.timeout(5):
                assert await Process(client).lead(work) == 1

    asyncio.run(story())


def test_health_fails_when_leadership_was_lost_and_the_process_does_not_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "WIND_UP", 0.05)

    async def story() -> None:
        async with leases() as (server, client):
            free = asyncio.Event()

            async def work(waited: bool, lost: "asyncio.Task[str]") -> None:
                server.down = True
                while not free.is_set():
                    with contextlib.suppress(asyncio.CancelledError):  # the fault: a cancellation is swallowed
                        await free.wait()

            process = Process(client)
            health = Server(process.metrics, process.liveness.problem, health_address="127.0.0.1:0")
            await health.start()
            leading = asyncio.ensure_future(process.lead(work))
            await until(lambda: process.liveness.phase is Phase.LEADING)
            assert await healthz(health) == (200, "ok")
            await until(lambda: process.liveness.phase is Phase.STOPPING)
            process.passed = STOPPING
            assert await healthz(health) == (200, "ok")
            process.passed += 1
            assert await healthz(health) == (503, "stopping for 31 s (limit 30 s)")
            free.set()
            assert await leading == 1
            await health.stop()

    asyncio.run(story())


def test_who_stands_by_is_well_for_as_long_as_it_tries_to_lead() -> None:
    async def story() -> None:
        async with leases() as (_, client):
            pair = Pair(client)
            await pair.start()
            standby = pair.second
            assert standby.liveness.phase is Phase.STANDING_BY
            standby.passed = STUCK + 1
            await asyncio.sleep(2 * SETTINGS.retry_period)
            assert standby.liveness.problem() == ""
            standby.stop.set()
            pair.first.stop.set()
            await asyncio.gather(pair.holding, pair.standing_by)

    asyncio.run(story())


def test_the_lease_is_let_go_of_when_the_work_fails() -> None:
    async def story() -> None:
        async with leases() as (server, client):

            async def work(waited: bool, lost: "asyncio.Task[str]") -> None:
                raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await Process(client).lead(work)
            assert server.holder == ""

    asyncio.run(story())


def test_without_a_lease_one_leads_at_once() -> None:
    async def story() -> None:
        async with leases() as (server, client):
            process = Process(client)
            seen: list[bool] = []

            async def work(waited: bool, lost: "asyncio.Task[str]") -> None:
                seen.append(waited or lost.done())
                assert process.fence.is_open and process.leading == 1

            assert await lead(client, None, process.fence, process.metrics, process.liveness, process.stop, work) == 0
            assert seen == [False] and server.lease is None

    asyncio.run(story())
