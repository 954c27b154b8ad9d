"""The scheduler as a long-running process on a real cluster.

It wires the parts together (informers, cache, leader election, cycles, writer), runs a cycle every period while it
leads, and ends in good order. Decisions are made on another thread, so that watches and the lease go on meanwhile; the
cache and the writer belong to the event loop.
"""

import asyncio
import functools
import signal
import time
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from scheduler.api.decisions import Decisions
from scheduler.api.kinds import POD, POD_GROUP
from scheduler.api.names import DEFAULT_QUEUE
from scheduler.api.reasons import Malformed
from scheduler.api.snapshot import Snapshot
from scheduler.cluster.kube.bootstrap import ensure_queues
from scheduler.cluster.kube.client import ApiClient, CredentialSource
from scheduler.cluster.kube.damper import Damper
from scheduler.cluster.kube.events import Recorder
from scheduler.cluster.kube.fence import Fence
from scheduler.cluster.kube.informer import Informer, Sink
from scheduler.cluster.kube.lease import LeaderElector, LeaseSettings, new_identity
from scheduler.cluster.kube.reload import ConfigurationFile
from scheduler.cluster.kube.sources import sources
from scheduler.cluster.kube.watching import Watching, unless
from scheduler.cluster.kube.writer import Failures, Writer, make_lanes
from scheduler.framework.configuration import Configuration
from scheduler.framework.cycle import Outcome, run_cycle
from scheduler.observability.metrics import Metrics
from scheduler.observability.server import Server

IDLE_CYCLE = 5.0
"""Seconds after which a cycle is run although nothing has changed: some decisions depend on time."""
STUCK = 120.0
"""Seconds without a turn of the loop after which the process calls itself unwell."""
FLUSH = 10.0
"""Seconds given to writes in flight when stopping."""
QUEUES = 3.0
"""Seconds given to the making of the default Queues before the first cycle; it goes on after that."""
log = structlog.get_logger(__name__)


class Cache(Sink, Failures, Protocol):
    """What the daemon needs of the cache."""

    version: int

    def snapshot(self, now: float) -> Snapshot: ...

    def assume(self, decisions: Decisions) -> None: ...

    def take_malformed(self) -> list[Malformed]: ...


@dataclass(frozen=True, slots=True)
class Settings:
    """How the daemon runs; seconds where times are meant."""

    scheduler_names: tuple[str, ...]
    schedule_period: float = 1.0
    default_queue: str = DEFAULT_QUEUE
    lease: LeaseSettings | None = None
    """None: no leader election."""
    qps: float = 2000
    burst: int = 2000
    bind_workers: int = 64
    percentage_nodes: int = 100
    """Per cent of the nodes among which enough feasible ones are looked for; 0: fewer the more nodes there are."""
    minimum_nodes: int = 100
    metrics_address: str = ""
    health_address: str = ""


@dataclass(slots=True)
class _Last:
    """The last cycle, as far as it matters for leaving the next one out."""

    version: int = -1
    idle: bool = False
    at: float = field(default_factory=time.monotonic)


class Daemon:
    """One scheduler process. ``run`` once."""

    def __init__(
        self,
        settings: Settings,
        configuration: ConfigurationFile,
        cache: Cache,
        credentials: CredentialSource,
        metrics: Metrics | None = None,
    ) -> None:
        self._settings = settings
        self._configuration = configuration
        self._cache = cache
        self._metrics = metrics or Metrics()
        self._fence = Fence()
        self._client = ApiClient(credentials, self._metrics, qps=settings.qps, burst=settings.burst)
        self._lanes = make_lanes(settings.bind_workers)
        name = settings.scheduler_names[0]
        self._recorder = Recorder(self._client, self._lanes, self._metrics, self._fence, name)
        self._writer = Writer(self._client, cache, self._lanes, self._recorder, self._metrics, self._fence, name)
        self._watching = Watching(
            [Informer(self._client, source, cache, self._recorder.malformed, self._metrics) for source in sources()]
        )
        self._stop = asyncio.Event()
        self._last = _Last()
        self._turn: float | None = None
        """When the last cycle ended; None before the first, which a process that stands by may never come to."""
        self._complained: frozenset[Malformed] = frozenset()
        self._problems: tuple[str, ...] = ()
        self._damper = Damper()
        self.server = Server(
            self._metrics,
            self._health,
            metrics_address=settings.metrics_address,
            health_address=settings.health_address,
        )

    def stop(self) -> None:
        """Begin to stop: no new cycle, finish what is in flight, release the lease."""
        self._stop.set()

    def _health(self) -> str:
        silent = 0.0 if self._turn is None else time.monotonic() - self._turn
        return f"no scheduling cycle has ended for {silent:.0f} s" if silent > STUCK else ""

    # --- life ---------------------------------------------------------------------------------------------------------
    async def run(self) -> int:
        """Schedule until stopped. The exit code: 0 when stopped, 1 when leadership was lost."""
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.stop)
        await self._client.start()
        log.info("starting", server=self._client.host, schedulers=", ".join(self._settings.scheduler_names))
        background: list[asyncio.Task[object]] = []
        try:
            await self.server.start()
            self._watching.start()
            if not await self._watching.synced(self._stop):
                return 0
            return await self._lead(background)
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await self._watching.close()
            await self._lanes.close()
            await self.server.stop()
            await self._client.close()
            log.info("stopped")

    async def _lead(self, background: list[asyncio.Task[object]]) -> int:
        """Become the leader, schedule as one, and give it up in the end."""
        elector = self._elector()
        if elector is None:
            self._fence.open_forever()
            self._metrics.leading.set(1)
        else:
            waited = await unless(self._stop, elector.acquire())
            if waited is None:
                return 0
            # What the leader before us wrote last may not have reached us.
            if waited and not await self._watching.list_again((POD, POD_GROUP), self._stop):
                return 0
        made = functools.partial(self._cache.upsert, "Queue")
        queues = asyncio.create_task(ensure_queues(self._client, self._settings.default_queue, self._fence, made))
        background.append(queues)
        await asyncio.wait((queues,), timeout=QUEUES)
        lost = asyncio.create_task(elector.hold() if elector else asyncio.Event().wait())
        background.append(lost)
        await self._schedule(lost)
        if lost.done():
            log.error("leadership lost: exiting", why=lost.result())
            return 1
        flushed = await self._writer.flush(FLUSH)
        log.info("stopping", flushed=flushed)
        lost.cancel()
        if elector is not None:
            await elector.release()
        return 0

    def _elector(self) -> LeaderElector | None:
        if self._settings.lease is None:
            return None
        return LeaderElector(
            self._client,
            self._settings.lease,
            self._fence,
            new_identity(),
            on_change=lambda leading: self._metrics.leading.set(int(leading)),
        )

    # --- cycles -------------------------------------------------------------------------------------------------------
    async def _schedule(self, lost: asyncio.Task[object]) -> None:
        """Cycle after cycle, until stopped or no longer the leader."""
        stopping = asyncio.create_task(self._stop.wait())
        try:
            log.info("Open Session: the first of this process")
            while not (self._stop.is_set() or lost.done()):
                await self._turn_once()
                self._turn = time.monotonic()
                await asyncio.wait(
                    (stopping, lost), timeout=self._settings.schedule_period, return_when=asyncio.FIRST_COMPLETED
                )
        finally:
            stopping.cancel()

    async def _turn_once(self) -> None:
        for problem in self._cache.take_malformed():
            self._recorder.malformed(problem)
        if self._configuration.poll(self._metrics):
            self._last.version = -1
        if self._writer.overloaded:
            return
        if self._nothing_to_do():
            self._metrics.cycles_skipped.inc()
            return
        version = self._cache.version
        try:
            snapshot = self._cache.snapshot(time.time())
            outcome = await asyncio.to_thread(self._decide, snapshot, self._configuration.current)
        except Exception:
            self._metrics.cycle_errors.inc()
            log.exception("a cycle failed; nothing was decided")
            return
        if not self._fence.is_open:
            log.warning("decisions dropped: no longer the leader")
            return
        self._damper.damp(outcome.decisions, time.monotonic())
        self._carry_out(outcome)
        self._last = _Last(version, not outcome.decisions)

    def _nothing_to_do(self) -> bool:
        """The last cycle decided nothing, and nothing has changed since it began."""
        last = self._last
        return last.idle and last.version == self._cache.version and time.monotonic() - last.at < IDLE_CYCLE

    def _decide(self, snapshot: Snapshot, configuration: Configuration) -> Outcome:
        """One cycle, on a thread of its own."""
        limit = nodes_to_find(len(snapshot.nodes.names), self._settings.percentage_nodes, self._settings.minimum_nodes)
        outcome = run_cycle(snapshot, configuration, nodes_limit=limit)
        bound = {bind.task.job for bind in outcome.decisions.binds}
        session = outcome.session
        self._metrics.session.update(session.jobs, session.queues, session.dimensions, bound, snapshot.now)
        return outcome

    def _carry_out(self, outcome: Outcome) -> None:
        decisions = outcome.decisions
        self._writer.submit(decisions)
        self._cache.assume(decisions)
        self._report(outcome)
        self._measure(outcome)

    def _report(self, outcome: Outcome) -> None:
        """Tell of what plugins set aside, and of wrong arguments: once, not every cycle."""
        malformed = frozenset(outcome.malformed)
        for problem in sorted(malformed - self._complained, key=lambda p: (p.kind, p.namespace, p.name, p.field)):
            self._recorder.malformed(problem)
        self._complained = malformed
        problems = tuple(outcome.session.problems)
        if problems != self._problems:
            for text in problems:
                log.warning("configuration", problem=text)
        self._problems = problems

    def _measure(self, outcome: Outcome) -> None:
        decisions, metrics = outcome.decisions, self._metrics
        metrics.cycle(
            seconds=outcome.seconds,
            opening=outcome.open_seconds,
            actions=outcome.action_seconds,
            plugins=outcome.session.open_seconds,
        )
        metrics.schedule_attempts.labels("scheduled").inc(len(decisions.binds))
        metrics.schedule_attempts.labels("unschedulable").inc(len(decisions.pods))
        metrics.unscheduled_jobs.set(sum(1 for job in outcome.session.jobs.values() if job.fit_errors or job.refusals))
        if decisions.evictions:
            metrics.victims.set(len(decisions.evictions))
        now = time.time()
        for key in {bind.task.job for bind in decisions.binds}:
            job = outcome.session.jobs.get(key)
            if job is not None:
                metrics.job_latency.observe(max(0.0, now - job.creation) * 1000)
        if decisions:
            log.info(
                "cycle",
                binds=len(decisions.binds),
                evictions=len(decisions.evictions),
                statuses=len(decisions.pod_groups) + len(decisions.pods) + len(decisions.queues),
                events=len(decisions.events),
                milliseconds=round(outcome.seconds * 1000, 1),
            )


def nodes_to_find(nodes: int, percentage: int, minimum: int) -> int:
    """How many feasible nodes are enough for a task; 0: look at all. ``percentage`` 0 adapts to the number of nodes."""
    if percentage >= 100 or nodes <= minimum:
        return 0
    if percentage <= 0:
        percentage = max(5, 50 - nodes // 125)
    return max(minimum, nodes * percentage // 100)
