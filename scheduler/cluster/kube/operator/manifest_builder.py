"""Builds manifests that take much processor time, such as those with new keys, in a thread beside the event loop.

It builds one at a time, so that they take at most one core; namespaces take turns. A manifest that waits to be built
occupies no worker for writes.
"""

import asyncio
from collections.abc import Callable

from scheduler.api.fair_queue import FairQueue
from scheduler.cluster.kube.process.waiting import cancel
from scheduler.controllers.effects import Json

Build = Callable[[], Json]
Built = Callable[[Json | Exception], None]
"""Receives the manifest, or the exception that its construction raised."""


class ManifestBuilder:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting: FairQueue[tuple[Build, Built]] = FairQueue()
        self._task: asyncio.Task[None] | None = None
        """Builds what waits; ends when nothing does."""

    def submit(self, namespace: str, build: Build, built: Built) -> None:
        """Has a manifest built, after those that wait. ``built`` is called on the event loop."""
        self._waiting.add(namespace, (build, built))
        if self._task is None:
            self._task = asyncio.create_task(self._work())

    async def close(self) -> None:
        """Drops what waits."""
        self._waiting.clear()
        if self._task is not None:
            await cancel(self._task)

    async def _work(self) -> None:
        try:
            while self._waiting:
                build, built = self._waiting.take()
                try:
                    manifest: Json | Exception = await asyncio.to_thread(build)
                except Exception as error:  # whatever a plugin raises fails this object alone
                    manifest = error
                built(manifest)
        finally:
            self._task = None
