"""The life of a role: how every long-running process starts and ends, and how those take turns that must not work side
by side.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import structlog

from scheduler.cluster.kube.process.lease import LeaderElector, LeaseSettings, new_identity
from scheduler.cluster.kube.process.liveness import Liveness, Phase
from scheduler.cluster.kube.process.waiting import unless
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.fence import Fence
from scheduler.observability.role_metrics import RoleMetrics
from scheduler.observability.server import Server

Work = Callable[[bool, "asyncio.Task[str]"], Awaitable[None]]
"""What a leader does until it is stopped, or until the task is done: leadership is lost then, and it says why. Told
before whether another process led until now."""
WIND_UP = 5.0
"""Seconds given to the work to end when leadership is lost; then it is cancelled."""
log = structlog.get_logger(__name__)


@asynccontextmanager
async def alive(client: ApiClient, server: Server, stop: Callable[[], None], **about: str) -> AsyncIterator[None]:
    """From the first connection to the last; signals to end call ``stop``. ``about``: said in the log. Raises
    CredentialsError, and OSError when the server's address cannot be had."""
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    await client.start()
    log.info("starting", server=client.host, **about)
    try:
        await server.start()
        yield
    finally:
        await server.stop()
        await client.close()
        log.info("stopped")


async def lead(
    client: ApiClient,
    lease: LeaseSettings | None,
    fence: Fence,
    metrics: RoleMetrics,
    liveness: Liveness,
    stop: asyncio.Event,
    work: Work,
) -> int:
    """Become the leader (without a lease: be it), work, and let others lead. The exit code: 0 when stopped, 1 when
    leadership was lost."""
    if lease is None:
        fence.open_forever()
        metrics.leading.set(1)
        liveness.enter(Phase.LEADING)
        lost = asyncio.create_task(_never())
        try:
            await work(False, lost)
        finally:
            lost.cancel()
        return 0

    def tell(leading: bool) -> None:
        metrics.leading.set(int(leading))
        liveness.enter(Phase.LEADING if leading else Phase.STOPPING)

    liveness.enter(Phase.STANDING_BY)
    elector = LeaderElector(client, lease, fence, new_identity(), on_change=tell, on_attempt=liveness.progress)
    waited = await unless(stop, elector.acquire())
    if waited is None:
        return 0
    lost = asyncio.create_task(elector.hold())
    working = asyncio.ensure_future(work(waited, lost))
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
        for task in (working, lost):
            task.cancel()
        await asyncio.gather(working, lost, return_exceptions=True)
        await elector.release()


async def _never() -> str:
    await asyncio.Event().wait()
    return ""
