"""The endpoints of a role in a thread of their own, so that they answer while the event loop of the role is busy.

A session or a reconciliation may take long because of what a user has written. If ``/healthz`` did not answer
meanwhile, the kubelet would restart the process, and the next one would do the same work again. ``/healthz`` answers
whether the role makes progress (``cluster/kube/process/liveness.py``), not whether its loop is free at the moment.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from scheduler.observability.server import Server

T = TypeVar("T")


class ServerThread:
    """Runs a server. Its health functions are called in the thread, so they only read."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def ports(self) -> dict[str, int]:
        """Path -> port in use."""
        return self._server.ports

    async def start(self) -> None:
        """Listens. Raises OSError when an address cannot be had."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="health", daemon=True)
        self._thread.start()
        await self._run(self._server.start())

    async def stop(self) -> None:
        """Stops listening, and ends the thread."""
        if self._loop is None or self._thread is None:
            return
        await self._run(self._server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join)
        self._loop.close()
        self._loop = self._thread = None

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
