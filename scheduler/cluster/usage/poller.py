"""Asking how busy nodes are, again and again beside everything else: no answer, or a wrong one, holds up nobody."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog

from scheduler.api.usage import NodeUsage
from scheduler.cluster.kube.transport.backoff import Backoff
from scheduler.cluster.usage.source import Get, Source, SourceError, open_source
from scheduler.framework.usage_source import UsageSource
from scheduler.observability.metrics import Metrics

ROUND_SECONDS: Final = 60.0
"""For all questions of one round."""
_LONGEST_PAUSE: Final = 300.0
_NAMED: Final = 5
"""Nodes named in a log line."""
log = structlog.get_logger(__name__)


class UsagePoller:
    """Belongs to one event loop."""

    def __init__(
        self,
        nodes: Callable[[], Sequence[str]],
        deliver: Callable[[Mapping[str, NodeUsage]], None],
        metrics: Metrics,
        get: Get,
    ) -> None:
        """``nodes``: names of those of interest. ``get``: how to ask the API server."""
        self._nodes = nodes
        self._deliver = deliver
        self._metrics = metrics
        self._get = get
        self._settings: UsageSource | None = None
        self._task: asyncio.Task[None] | None = None
        self._answered = asyncio.Event()
        self._problem = ""
        self._lacking: frozenset[str] = frozenset()

    def follow(self, settings: UsageSource | None) -> None:
        """Ask this source from now on (None: nobody)."""
        if settings == self._settings:
            return
        self._settings = settings
        self._problem, self._lacking = "", frozenset()
        if self._task is not None:
            self._task.cancel()
        self._task = None if settings is None else asyncio.create_task(self._run(settings))

    async def first_answer(self) -> None:
        """Wait for the first round, if there is a source; it may be for ever."""
        if self._settings is not None:
            await self._answered.wait()

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self, settings: UsageSource) -> None:
        backoff = Backoff(settings.interval, max(settings.interval, _LONGEST_PAUSE))
        log.info("the load of nodes is asked for", type=settings.type.value, address=settings.address)
        if not settings.verify_tls:
            log.warning("the certificate of the source of node loads is not verified", address=settings.address)
        async with open_source(settings, self._get) as source:
            while True:
                if await self._round(source):
                    backoff.reset()
                    await asyncio.sleep(settings.interval)
                else:
                    await asyncio.sleep(backoff.next())

    async def _round(self, source: Source) -> bool:
        """Ask once; whether there was an answer."""
        nodes = self._nodes()
        try:
            async with asyncio.timeout(ROUND_SECONDS):
                usages = await source.measure(nodes)
        except SourceError as error:
            self._failed(str(error))
        except TimeoutError:
            self._failed(f"no answer within {ROUND_SECONDS:.0f} s")
        except Exception as error:  # whatever an answer holds, the next may be sound
            log.exception("an answer about the load of nodes could not be understood")
            self._failed(f"{type(error).__name__}: {error}")
        else:
            self._succeeded(nodes, usages)
            return True
        return False

    def _failed(self, problem: str) -> None:
        self._metrics.usage_polls.labels("error").inc()
        if problem != self._problem:
            log.warning("the load of nodes is not known", error=problem)
        self._problem = problem

    def _succeeded(self, nodes: Sequence[str], usages: Mapping[str, NodeUsage]) -> None:
        self._metrics.usage_polls.labels("success").inc()
        self._metrics.nodes_with_usage.set(len(usages))
        if self._problem:
            log.info("the load of nodes is known again")
        self._problem = ""
        lacking = frozenset(nodes) - usages.keys()
        if lacking != self._lacking and lacking:
            log.warning("no figures of some nodes", number=len(lacking), of=len(nodes), nodes=sorted(lacking)[:_NAMED])
        self._lacking = lacking
        self._deliver(usages)
        self._answered.set()
