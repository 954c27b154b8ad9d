"""Creates the Queues that must exist: ``root``, and the default one for PodGroups that name none."""

import asyncio
from collections.abc import Callable

import msgspec
import structlog

from scheduler.api.kinds import QUEUE
from scheduler.api.names import ROOT_QUEUE
from scheduler.api.scheduling import Queue
from scheduler.cluster.kube.transport.backoff import Backoff
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.errors import REQUEST_ERRORS, status_of
from scheduler.cluster.kube.transport.fence import Fence, Fenced
from scheduler.cluster.kube.transport.ratelimit import CallPriority

log = structlog.get_logger(__name__)


async def ensure_queues(client: ApiClient, default_queue: str, fence: Fence, made: Callable[[Queue], None]) -> None:
    """Creates the Queues that are missing. Retries until it succeeds or this process no longer leads. ``made`` is
    called with each."""
    await asyncio.gather(
        _ensure(client, ROOT_QUEUE, fence, made, reclaimable=False),
        _ensure(client, default_queue, fence, made, reclaimable=True),
    )


async def _ensure(
    client: ApiClient, name: str, fence: Fence, made: Callable[[Queue], None], *, reclaimable: bool
) -> None:
    spec = {"weight": 1, "reclaimable": reclaimable}
    queue = {"apiVersion": QUEUE.api_version, "kind": QUEUE.name, "metadata": {"name": name}, "spec": spec}
    backoff = Backoff(1.0, 60.0)
    while True:
        try:
            answer = await client.request(
                "POST", QUEUE.path, body=msgspec.json.encode(queue), priority=CallPriority.STATUS, fence=fence
            )
            made(msgspec.json.decode(answer, type=Queue))
            log.info("queue created", queue=name)
            return
        except Fenced:
            return
        except REQUEST_ERRORS as error:
            if status_of(error) == 409:
                return
            log.warning("queue could not be created", queue=name, error=str(error))
        await asyncio.sleep(backoff.next())
