"""The watches of simulated components."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from scheduler.api.decisions import ObjectRef
from scheduler.api.reasons import Malformed
from scheduler.cluster.kube.process.waiting import cancel
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.sources import WatchSource
from scheduler.cluster.kube.watch.informer import Informer, Sink
from scheduler.observability.role_metrics import RoleMetrics


@asynccontextmanager
async def watched(
    client: ApiClient,
    sources: Sequence[WatchSource],
    sink: Sink,
    set_aside: Callable[[Malformed, ObjectRef], None],
) -> AsyncIterator[None]:
    """Watches the sources during the block; their objects are in the sink from the beginning.

    ``set_aside``: is called with each object that cannot be decoded.
    """
    metrics = RoleMetrics()
    informers = [Informer(client, source, sink, set_aside, metrics) for source in sources]
    tasks = [asyncio.create_task(informer.run()) for informer in informers]
    try:
        await asyncio.gather(*(informer.synced.wait() for informer in informers))
        yield
    finally:
        await cancel(*tasks)
