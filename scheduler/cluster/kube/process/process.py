"""The parts of a process that all roles share: a client, a stop signal, endpoints of health and metrics, and leader
election for roles that write.

A role makes a ``Process`` and works inside ``running``. One that writes also works under ``run_as_leader``, so that
only one of its replicas is active.
"""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import structlog

from scheduler.cluster.kube.process.election import LeaderElector, new_identity
from scheduler.cluster.kube.process.lease import free_version
from scheduler.cluster.kube.process.liveness import Liveness, Phase
from scheduler.cluster.kube.process.settings import ProcessSettings
from scheduler.cluster.kube.process.waiting import cancel, unless_stopped
from scheduler.cluster.kube.transport.client import ApiClient, CredentialSource
from scheduler.cluster.kube.transport.fence import Fence
from scheduler.observability.role_metrics import RoleMetrics

if TYPE_CHECKING:
    from scheduler.observability.server import Health, ServerThread

CatchUp = Callable[[], Awaitable[bool]]
"""Waits until all that another leader has written has arrived; returns False if stopped before."""
Work = Callable[["asyncio.Future[bool]", "asyncio.Task[str]"], Awaitable[None]]
"""What a leader does until it is stopped, or until leadership is lost: the task ends then and returns why. The first
argument is the result of ``CatchUp``; it is True at once if no other process led before."""
WIND_UP = 5.0
"""Seconds that the work has to end when leadership is lost; then it is cancelled."""
log = structlog.get_logger(__name__)


class Process:
    """Belongs to one event loop. Its client can be used inside ``running``."""

    def __init__(
        self,
        settings: ProcessSettings,
        credentials: CredentialSource,
        metrics: RoleMetrics,
        ready: "Health",
        *,
        now: Callable[[], float] = time.monotonic,
        client: ApiClient | None = None,
    ) -> None:
        """``ready``: what ``/readyz`` answers. ``client``: a client with these credentials that has been started."""
        self.client = client or ApiClient(credentials, metrics, qps=settings.qps, burst=settings.burst)
        self.client.count_in(metrics)
        self.fence = Fence()
        """Open while this process leads."""
        self.liveness = Liveness(self.fence, stopping=settings.stopping, now=now)
        self.stopping = asyncio.Event()
        """Set by ``stop``."""
        self.free_lease = ""
        """``free_version`` of the lease, before this process began to read the cluster."""
        self._settings = settings
        self._lease = settings.lease
        self._metrics = metrics
        self._ready = ready

    @cached_property
    def server(self) -> "ServerThread":
        """The endpoints of health and metrics. It loads a web server, which takes a twentieth of a start."""
        from scheduler.observability.server import EndpointServer, ServerThread

        return ServerThread(
            EndpointServer(
                self._metrics,
                self.liveness.problem,
                self._ready,
                metrics_address=self._settings.metrics_address,
                health_address=self._settings.health_address,
            )
        )

    def stop(self) -> None:
        """Asks the role to stop. It finishes the work in flight."""
        self.liveness.enter(Phase.STOPPING)
        self.stopping.set()

    @asynccontextmanager
    async def running(self, **about: str) -> AsyncIterator[None]:
        """Connects, serves health and metrics, and calls ``stop`` on SIGTERM and SIGINT. ``about`` goes into the log.

        Raises CredentialsError, and OSError when it cannot listen.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.stop)
        await self.client.start()
        log.info("starting", server=self.client.host, **about)
        try:
            if self._settings.serves:
                await self.server.start()
            yield
        finally:
            if self._settings.serves:
                await self.server.stop()
            await self.client.close()
            log.info("stopped")

    async def observe_lease(self) -> None:
        """Remembers whether another process leads. The role calls it before it begins to read the cluster: what the
        last leader wrote is known then, unless another process leads in between."""
        self.free_lease = await free_version(self.client, self._lease)

    async def run_as_leader(self, work: Work, catch_up: CatchUp) -> int:
        """Becomes the leader, works, and releases the lease; without a lease, works at once.

        ``catch_up`` begins before the lease of a leader that was killed expires: the leader does not write any more
        then. Otherwise it begins when this process has become the leader.

        Returns the exit code: 0 when stopped, 1 when leadership was lost.
        """
        if self._lease is None:
            await self._run_without_lease(work)
            return 0
        self.liveness.enter(Phase.STANDING_BY)
        catching_up = _Restarted(catch_up)
        elector = LeaderElector(
            self.client,
            self._lease,
            self.fence,
            new_identity(),
            on_change=self._leadership_changed,
            on_attempt=self.liveness.progress,
            on_expiring=catching_up.start,
            free=self.free_lease,
        )
        try:
            waited = await unless_stopped(self.stopping, elector.acquire())
            if waited is None:
                return 0
            if waited and not elector.replaced_expired:
                catching_up.start()
            return await self._lead(elector, work, catching_up.task if waited else _true())
        finally:
            await catching_up.cancel()

    async def _lead(self, elector: LeaderElector, work: Work, caught_up: "asyncio.Future[bool]") -> int:
        """Works while the lease is renewed, and releases it."""
        lost = asyncio.create_task(elector.hold())
        working = asyncio.ensure_future(work(caught_up, lost))
        try:
            await asyncio.wait((working, lost), return_when=asyncio.FIRST_COMPLETED)
            if lost.done():
                await asyncio.wait((working,), timeout=WIND_UP)
            if working.done():
                working.result()
            if lost.done():
                log.error("leadership lost: exiting", why=lost.result(), work_ended=working.done())
                return 1
            return 0
        finally:
            await cancel(working, lost)
            await elector.release()

    async def _run_without_lease(self, work: Work) -> None:
        self.fence.open_forever()
        self._leadership_changed(True)
        never = asyncio.create_task(_never())
        try:
            await work(_true(), never)
        finally:
            never.cancel()

    def _leadership_changed(self, leading: bool) -> None:
        self._metrics.leading.set(int(leading))
        self.liveness.enter(Phase.LEADING if leading else Phase.STOPPING)


class _Restarted:
    """A wait of which only the latest start counts."""

    def __init__(self, catch_up: CatchUp) -> None:
        self._catch_up = catch_up
        self.task: asyncio.Future[bool] = _true()

    def start(self) -> None:
        self.task.cancel()
        self.task = asyncio.ensure_future(self._catch_up())

    async def cancel(self) -> None:
        await cancel(self.task)


def _true() -> "asyncio.Future[bool]":
    future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    future.set_result(True)
    return future


async def _never() -> str:
    await asyncio.Event().wait()
    return ""
