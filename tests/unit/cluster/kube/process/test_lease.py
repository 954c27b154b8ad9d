"""Leader election: there is one leader at a time, and no leader works longer than its lease."""

import asyncio
import json
import math
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from scheduler.cluster.kube.process import election
from scheduler.cluster.kube.process.election import LeaderElector
from scheduler.cluster.kube.process.lease import LeaseSettings, free_version, until_released
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.fence import Fence
from tests.unit import virtual_time
from tests.unit.cluster.kube.fake_api import Answer, Call, FakeApi, refusal, serving, until

PATH = "/apis/coordination.k8s.io/v1/namespaces/volcano-system/leases"
SETTINGS = LeaseSettings("volcano-system", "volcano-py", duration=2.0, renew_deadline=1.5, retry_period=0.1)


class Leases:
    """One Lease with optimistic locking, as the API server keeps it. ``down``: the server answers only with errors;
    ``hanging``: the number of updates that are never answered."""

    def __init__(self, api: FakeApi) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.down = False
        self.hanging = 0
        api.on("GET", f"{PATH}/volcano-py", self.get)
        api.on("POST", PATH, self.create)
        api.on("PUT", f"{PATH}/volcano-py", self.update)

    @property
    def holder(self) -> str:
        return self.lease["spec"]["holderIdentity"] if self.lease else ""

    async def get(self, call: Call, request: web.Request) -> Answer:
        if self.down:
            return refusal(503, "ServiceUnavailable")
        return json.loads(json.dumps(self.lease)) if self.lease else refusal(404, "NotFound")

    async def create(self, call: Call, request: web.Request) -> Answer:
        if self.down:
            return refusal(503, "ServiceUnavailable")
        return self._store(call.body) if self.lease is None else refusal(409, "AlreadyExists")

    async def update(self, call: Call, request: web.Request) -> Answer:
        if self.hanging:
            self.hanging -= 1
            await asyncio.sleep(60)
        if self.down:
            return refusal(503, "ServiceUnavailable")
        if self.lease is None or call.body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            return refusal(409, "Conflict")
        return self._store(call.body)

    def _store(self, body: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.lease = body
        return body


@asynccontextmanager
async def leases() -> AsyncIterator[tuple[Leases, ApiClient]]:
    async with serving() as (api, client):
        yield Leases(api), client


def candidate(client: ApiClient, name: str, settings: LeaseSettings = SETTINGS) -> tuple[LeaderElector, Fence]:
    fence = Fence()
    return LeaderElector(client, settings, fence, name), fence


def test_the_first_candidate_leads_and_the_second_waits_until_the_lease_is_released() -> None:
    async def scenario() -> None:
        async with leases() as (server, client):
            first, first_fence = candidate(client, "first")
            second, second_fence = candidate(client, "second")
            assert await first.acquire() is False
            holding = asyncio.create_task(first.hold())
            waiting = asyncio.create_task(second.acquire())
            await asyncio.sleep(SETTINGS.duration + 0.5)  # it is renewed meanwhile
            assert server.holder == "first"
            assert (first_fence.is_open, second_fence.is_open) == (True, False)
            holding.cancel()
            await first.release()
            assert not first_fence.is_open
            assert await asyncio.wait_for(waiting, 30) is True
            assert server.holder == "second"
            assert server.lease is not None
            assert server.lease["spec"]["leaseTransitions"] == 1

    virtual_time.run(scenario())


def test_a_lease_whose_last_renewal_was_cancelled_but_stored_is_released() -> None:
    async def scenario() -> None:
        async with leases() as (server, client):
            leader, _ = candidate(client, "leader")
            await leader.acquire()
            assert server.lease is not None
            server.lease["metadata"]["resourceVersion"] = "99"  # the renewal, of which the leader saw no answer
            await leader.release()
            assert server.holder == ""

    virtual_time.run(scenario())


def test_a_lease_that_another_process_has_taken_is_not_released() -> None:
    async def scenario() -> None:
        async with leases() as (server, client):
            leader, _ = candidate(client, "leader")
            await leader.acquire()
            assert server.lease is not None
            server.lease["spec"]["holderIdentity"] = "successor"
            server.lease["metadata"]["resourceVersion"] = "99"
            await leader.release()
            assert server.holder == "successor"

    virtual_time.run(scenario())


def test_a_leader_that_ended_while_another_process_read_the_cluster_is_caught_up_with() -> None:
    async def scenario() -> None:
        async with leases() as (_, client):
            last, _ = candidate(client, "last")
            assert await last.acquire() is False
            assert await free_version(client, SETTINGS) == "", "it leads"
            await last.release()
            late = LeaderElector(client, SETTINGS, Fence(), "late", free="")
            assert await late.acquire() is True
            await late.release()

    virtual_time.run(scenario())


def test_a_leader_that_ended_before_another_process_read_the_cluster_is_not() -> None:
    async def scenario() -> None:
        async with leases() as (server, client):
            assert await free_version(client, SETTINGS) == "", "there is no lease"
            last, _ = candidate(client, "last")
            assert await last.acquire() is False
            await last.release()
            free = await free_version(client, SETTINGS)
            assert server.lease is not None and free == server.lease["metadata"]["resourceVersion"]
            assert await LeaderElector(client, SETTINGS, Fence(), "next", free=free).acquire() is False
            server.down = True
            assert await free_version(client, SETTINGS) == "", "not known"

    virtual_time.run(scenario())


def test_a_dead_leader_is_followed_only_after_its_lease_has_run_out() -> None:
    async def scenario() -> None:
        async with leases() as (server, client):
            dead, _ = candidate(client, "dead")
            await dead.acquire()
            second, _ = candidate(client, "second")
            begun = asyncio.get_running_loop().time()
            await asyncio.wait_for(second.acquire(), 30)
            assert asyncio.get_running_loop().time() - begun >= SETTINGS.duration
            assert server.holder == "second"

    virtual_time.run(scenario())


def test_a_leader_that_cannot_renew_closes_its_fence_before_the_lease_runs_out() -> None:
    async def scenario() -> None:
        async with leases() as (server, client):
            leader, fence = candidate(client, "leader")
            await leader.acquire()
            server.down = True
            begun = asyncio.get_running_loop().time()
            why = await asyncio.wait_for(leader.hold(), 30)
            assert asyncio.get_running_loop().time() - begun < SETTINGS.duration
            assert not fence.is_open
            assert "503" in why

    virtual_time.run(scenario())


def test_a_renewal_that_is_never_answered_does_not_cost_the_lease() -> None:
    async def scenario() -> None:
        async with leases() as (server, client):
            leader, fence = candidate(client, "leader")
            await leader.acquire()
            server.hanging = 1
            holding = asyncio.create_task(leader.hold())
            await asyncio.sleep(SETTINGS.duration)
            assert not holding.done() and fence.is_open
            holding.cancel()
            await asyncio.gather(holding, return_exceptions=True)

    virtual_time.run(scenario())


def test_a_lease_is_renewed_after_a_quarter_of_its_duration_and_a_failed_renewal_is_retried_sooner() -> None:
    async def scenario() -> None:
        async with leases() as (server, client):
            leader, fence = candidate(client, "leader", LeaseSettings("volcano-system", "volcano-py"))
            await leader.acquire()
            written = server.version
            holding = asyncio.create_task(leader.hold())
            await asyncio.sleep(4 * 15.0 + 1.0)
            assert server.version - written == 16
            server.down = True
            await asyncio.sleep(3.5)  # the next renewal fails
            server.down = False
            await asyncio.sleep(2.0)
            assert server.version - written == 17
            assert not holding.done() and fence.is_open
            holding.cancel()
            await asyncio.gather(holding, return_exceptions=True)

    virtual_time.run(scenario())


@pytest.mark.parametrize(
    ("duration", "deadline", "retry", "renewal"),
    [(15.0, 10.0, 2.0, 3.75), (60.0, 40.0, 5.0, 15.0), (15.0, 6.0, 2.0, 2.0), (6.0, 4.0, 0.5, 1.5)],
)
def test_two_more_attempts_fit_between_a_failed_renewal_and_the_deadline(
    duration: float, deadline: float, retry: float, renewal: float
) -> None:
    settings = LeaseSettings("volcano-system", "l", duration=duration, renew_deadline=deadline, retry_period=retry)
    assert settings.renew_period == renewal
    assert renewal + 2 * retry <= deadline


def test_the_fence_closes_by_itself_without_a_renewal() -> None:
    async def scenario() -> None:
        async with leases() as (_, client):
            leader, fence = candidate(client, "leader")
            await leader.acquire()
            assert fence.is_open
            await asyncio.sleep(SETTINGS.renew_deadline + 0.05)
            assert not fence.is_open

    virtual_time.run(scenario())


def test_a_lease_taken_by_another_ends_leadership_at_once() -> None:
    async def scenario() -> None:
        async with leases() as (server, client):
            leader, fence = candidate(client, "leader")
            await leader.acquire()
            assert server.lease is not None
            server.lease["spec"]["holderIdentity"] = "usurper"
            server.lease["metadata"]["resourceVersion"] = "99"
            why = await asyncio.wait_for(leader.hold(), 30)
            assert "usurper" in why
            assert not fence.is_open

    virtual_time.run(scenario())


class Simulated:
    """An API server with a lease that is renewed every 2 s until its holder is killed, with its clock."""

    def __init__(self, killed: float, phase: float) -> None:
        self.now = 100.0
        self.killed = killed
        self._phase = phase
        self.taken_at = math.inf

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        self.now += 0.01
        if method == "PUT":
            self.taken_at = self.now
            return bytes(options["body"])
        renewals = math.floor((min(self.now, self.killed) - self._phase) / 2.0)
        spec = {"holderIdentity": "dead", "leaseDurationSeconds": 15}
        return json.dumps({"metadata": {"name": "l", "resourceVersion": str(renewals)}, "spec": spec}).encode()


@pytest.mark.slow
def test_a_lease_that_is_renewed_or_released_late_has_not_expired() -> None:
    async def scenario() -> None:
        async with leases() as (_, client):
            leader, fence = candidate(client, "leader")
            await leader.acquire()
            announced: list[float] = []
            loop = asyncio.get_running_loop()
            standby = LeaderElector(
                client, SETTINGS, Fence(), "standby", on_expiring=lambda: announced.append(loop.time())
            )
            waiting = asyncio.create_task(standby.acquire())
            await until(lambda: len(announced) == 1)
            assert await leader._try(0.0, 1.0), "renewed at the last moment"
            await until(lambda: len(announced) == 2)
            fence.open_forever()
            await leader.release()
            assert await asyncio.wait_for(waiting, 30) is True
            assert not standby.replaced_expired, "the leader wrote after the announcement"

    virtual_time.run(scenario())


@pytest.mark.parametrize("seed", range(50))
def test_a_killed_leader_is_followed_within_the_duration_and_a_third_of_a_second(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    world = Simulated(killed=130.0 + chance.uniform(0.0, 2.0), phase=chance.uniform(0.0, 2.0))
    monkeypatch.setattr(election, "clock", world.clock)
    monkeypatch.setattr(asyncio, "sleep", world.sleep)
    monkeypatch.setattr(random, "uniform", chance.uniform)
    settings = LeaseSettings("volcano-system", "l", duration=15.0, renew_deadline=10.0, retry_period=2.0)

    announced: list[float] = []
    elector = LeaderElector(
        world,  # type: ignore[arg-type]
        settings,
        Fence(),
        "standby",
        on_expiring=lambda: announced.append(world.now),
    )
    asyncio.run(elector.acquire())

    assert elector.replaced_expired and len(announced) == 1
    assert world.taken_at - 15.0 + settings.renew_deadline < announced[0] < world.taken_at - 2.0
    last_renewal = world.killed - (world.killed - world._phase) % 2.0
    assert last_renewal + 15.0 <= world.taken_at <= world.killed + 15.0 + 1 / 3


@pytest.mark.slow
def test_waiting_until_a_lease_is_released_or_not_renewed_any_more() -> None:
    async def scenario() -> None:
        async with serving() as (api, client):
            leases, steps = Leases(api), 0

            def progress() -> None:
                nonlocal steps
                steps += 1
                leases.down = steps < 3
                if steps < 10:
                    hold(f"2026-01-01T00:00:{steps:02d}Z")

            def hold(renewed: str) -> None:
                spec = {"holderIdentity": "another", "leaseDurationSeconds": 1, "renewTime": renewed}
                leases.lease = {"metadata": {"name": "volcano-py", "resourceVersion": "1"}, "spec": spec}

            hold("2026-01-01T00:00:00Z")
            leases.down = True
            began = asyncio.get_running_loop().time()
            await until_released(client, SETTINGS, progress)
            assert steps > 10, "it was renewed ten times"
            assert asyncio.get_running_loop().time() - began > 1, "its duration after the last renewal"

            assert leases.lease is not None
            leases.lease["spec"]["holderIdentity"] = ""
            steps = 0
            await until_released(client, SETTINGS, progress)
            leases.lease = None
            await until_released(client, SETTINGS, progress)
            assert steps == 0

    asyncio.run(scenario())
