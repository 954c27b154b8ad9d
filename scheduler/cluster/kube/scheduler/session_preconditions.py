"""What has to exist before the first session: the Queues ``root`` and the default one for PodGroups that name none, and
the first lists of the ConfigMaps that the plugins of the configuration want.
"""

import asyncio
import contextlib
from collections.abc import Callable

import msgspec
import structlog

from scheduler.api.kinds import CONFIG_MAP, QUEUE
from scheduler.api.names import ROOT_QUEUE
from scheduler.api.scheduling import Queue
from scheduler.cluster.kube.process.waiting import unless_stopped
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.errors import REQUEST_ERRORS, status_of
from scheduler.cluster.kube.transport.fence import Fence, Fenced
from scheduler.cluster.kube.transport.ratelimit import Backoff, CallPriority
from scheduler.cluster.kube.transport.sources import WatchSource
from scheduler.cluster.kube.watch.informer import Informer, Sink
from scheduler.cluster.kube.watch.informer_set import InformerSet
from scheduler.cluster.kube.watch.problems import Report
from scheduler.framework.cache_requirements import cache_requirements_of
from scheduler.framework.configuration import Configuration
from scheduler.observability.role_metrics import RoleMetrics

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


class PluginConfigMaps:
    """Belongs to one event loop. A ConfigMap that was wanted once is watched until the process ends."""

    def __init__(self, client: ApiClient, sink: Sink, report: Report, metrics: RoleMetrics) -> None:
        """``sink`` receives the ConfigMaps, ``report`` the ConfigMaps that cannot be decoded."""
        self._client = client
        self._sink = sink
        self._report = report
        self._metrics = metrics
        self._informers = InformerSet([])
        self._watched: set[WatchSource] = set()

    async def watch(self, configuration: Configuration, stop: asyncio.Event, patience: float) -> None:
        """Starts to watch what is not watched yet, and waits for the first lists, at most ``patience`` seconds: the
        right to read them may be missing. Raises PluginError."""
        requirements = cache_requirements_of(configuration, {})
        wanted = {WatchSource(CONFIG_MAP, namespace, name=name) for namespace, name in requirements.config_maps}
        for namespace, name in requirements.optional_config_maps:
            wanted.add(WatchSource(CONFIG_MAP, namespace, name=name, optional=True))
        for namespace, labels in requirements.labelled_config_maps:
            wanted.add(WatchSource(CONFIG_MAP, namespace, labels=labels, optional=True))
        wanted -= self._watched
        self._watched |= wanted
        for source in sorted(wanted, key=lambda source: (source.namespace, source.name, source.labels)):
            self._informers.add(Informer(self._client, source, self._sink, self._report, self._metrics))
        if wanted:
            with contextlib.suppress(TimeoutError):
                await unless_stopped(stop, self._informers.listed(), timeout=patience)

    async def close(self) -> None:
        """Stops to watch."""
        await self._informers.close()
