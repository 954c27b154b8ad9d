"""The Queues that have to exist: ``root`` above all others, and the one for PodGroups that name none."""

import asyncio
from collections.abc import Callable

import msgspec
import structlog

from scheduler.api.names import ROOT_QUEUE, SCHEDULING_API_VERSION
from scheduler.api.objects import Queue
from scheduler.cluster.kube.backoff import Backoff
from scheduler.cluster.kube.client import ApiClient, ApiError, TransportError
from scheduler.cluster.kube.fence import Fence, Fenced
from scheduler.cluster.kube.ratelimit import Priority

log = structlog.get_logger(__name__)


async def ensure_queues(client: ApiClient, default_queue: str, fence: Fence, made: Callable[[Queue], None]) -> None:
    """Make the Queues where they lack; tries until it has worked or may not write any more. ``made`` is given each."""
    for name, reclaimable in ((ROOT_QUEUE, False), (default_queue, True)):
        body = msgspec.json.encode(
            {
                "apiVersion": SCHEDULING_API_VERSION,
                "kind": "Queue",
                "metadata": {"name": name},
                "spec": {"weight": 1, "reclaimable": reclaimable},
            }
        )
        backoff = Backoff(1.0, 60.0)
        while True:
            try:
                answer = await client.request(
                    "POST",
                    f"/apis/{SCHEDULING_API_VERSION}/queues",
                    body=body,
                    priority=Priority.STATUS,
                    fence=fence,
                )
                made(msgspec.json.decode(answer, type=Queue))
                log.info("queue made", queue=name)
                break
            except Fenced:
                return
            except ApiError as error:
                if error.status == 409:
                    break
                log.warning("a queue could not be made", queue=name, error=str(error))
            except TransportError as error:
                log.warning("a queue could not be made", queue=name, error=str(error))
            await asyncio.sleep(backoff.next())
