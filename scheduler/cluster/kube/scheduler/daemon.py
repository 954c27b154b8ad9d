"""The scheduler as a long-running process on a real cluster.

It wires the parts together (informers, cache, leader election, cycles, writer), runs cycles while it leads
(``cycle_timer`` decides when), and shuts down in order. Decisions are made on another thread, so that watches and the
lease continue; the cache and the writer belong to the event loop.
"""

import asyncio
import functools
import time
import weakref
from typing import TYPE_CHECKING

import structlog

from scheduler.api.kinds import NODE_SHARD, POD, POD_GROUP, QUEUE
from scheduler.api.reasons import first_fields
from scheduler.api.snapshot import Snapshot
from scheduler.cache import ClusterCache
from scheduler.cluster.external_calls import HttpCalls
from scheduler.cluster.kube.process.lease import until_released
from scheduler.cluster.kube.process.liveness import Phase
from scheduler.cluster.kube.process.process import Process
from scheduler.cluster.kube.process.reload import ConfigurationFile
from scheduler.cluster.kube.process.waiting import cancel, unless_stopped, wait_with_progress
from scheduler.cluster.kube.scheduler.cycle_timer import CycleTimer
from scheduler.cluster.kube.scheduler.derived_groups import KINDS as DERIVING_KINDS
from scheduler.cluster.kube.scheduler.derived_groups import DerivedGroups
from scheduler.cluster.kube.scheduler.report import CycleReport, WatchedPods
from scheduler.cluster.kube.scheduler.session_preconditions import PluginConfigMaps, ensure_queues
from scheduler.cluster.kube.scheduler.settings import DaemonSettings
from scheduler.cluster.kube.scheduler.shard_member import ShardMember
from scheduler.cluster.kube.scheduler.status_throttle import StatusThrottle
from scheduler.cluster.kube.scheduler.unserved_pods import UnservedPods
from scheduler.cluster.kube.transport.client import CredentialSource
from scheduler.cluster.kube.transport.sources import sources
from scheduler.cluster.kube.watch.informer import Informer, Sink
from scheduler.cluster.kube.watch.informer_set import InformerSet, long_lived_objects
from scheduler.cluster.kube.watch.lists_ahead import ListsAhead
from scheduler.cluster.kube.write.events import EventRecorder
from scheduler.cluster.kube.write.lanes import make_lanes
from scheduler.cluster.kube.write.object_writers import WriteContext
from scheduler.cluster.kube.write.signing_key import SharedKey
from scheduler.cluster.kube.write.writer import Writer
from scheduler.cluster.usage import UsagePoller
from scheduler.framework.configuration import Configuration
from scheduler.framework.cycle import Outcome, SessionDemand, SessionObserver, run_cycle
from scheduler.framework.external_calls import ExternalCalls
from scheduler.framework.failures import PluginError
from scheduler.framework.session import Session
from scheduler.observability.metrics import Metrics
from scheduler.record.cache import RecordedCache

if TYPE_CHECKING:
    from scheduler.cluster.kube.scheduler.visibility.role import Visibility

STANDBY_PERIOD = 30.0
"""Seconds between two preparations of a standby's cache for its first session."""
UNSERVED_PERIOD = 5.0
"""Seconds that another scheduler has, at least, to consider a Pod whose schedulerName resembles one of ours."""
FLUSH = 10.0
"""Seconds that writes in flight have to finish when stopping."""
PREPARATION = 3.0
"""Seconds that a cycle waits for the default Queues, the first usage of nodes, and the first lists of ConfigMaps that
plugins want; all of these continue after that."""
log = structlog.get_logger(__name__)


class Daemon:
    """One scheduler process. ``run`` once."""

    def __init__(
        self,
        settings: DaemonSettings,
        configuration: ConfigurationFile,
        cache: ClusterCache,
        credentials: CredentialSource,
        metrics: Metrics | None = None,
        sessions: RecordedCache | None = None,
        ahead: ListsAhead | None = None,
    ) -> None:
        """``sessions`` records every session. ``ahead``: lists that have begun, with the credentials."""
        self._settings = settings
        self._configuration = configuration
        self._cache = cache
        self._metrics = metrics or Metrics(settings.shard)
        client = None if ahead is None else ahead.client
        self.process = process = Process(settings.process, credentials, self._metrics, self._unready, client=client)
        self._ahead = ahead
        self._client, self._fence, self._liveness = process.client, process.fence, process.liveness
        self._stop = process.stopping
        self._lanes = make_lanes(settings.bind_workers, self._metrics)
        name = settings.scheduler_names[0]
        self._recorder = EventRecorder(self._client, self._lanes, self._metrics, self._fence, name)
        self._report = CycleReport(self._metrics, self._recorder, settings.schedule_period)
        self._signing = SharedKey(self._client, settings.signing_key_namespace, settings.signing_key_secret)
        self._writer = Writer(
            WriteContext(
                client=self._client,
                fence=self._fence,
                lanes=self._lanes,
                cache=cache,
                recorder=self._recorder,
                metrics=self._metrics,
                signing=self._signing,
                scheduler_name=name,
            )
        )
        self._unserved = UnservedPods(settings.scheduler_names)
        self._informers = self._make_informers()
        self._plugin_config_maps = PluginConfigMaps(self._client, cache, self._recorder.malformed, self._metrics)
        self._http = HttpCalls()
        self._external_calls: ExternalCalls = self._http if sessions is None else sessions.recording(self._http)
        self._relisting: list[asyncio.Task[bool]] = []
        """Lists that are repeated because the plugins of a new configuration require more of the objects."""
        self._usage = UsagePoller(cache.node_names, cache.take_usage, self._metrics, self._client)
        self._visibility = self._make_visibility()
        self._shard = None
        if settings.shard:
            self._shard = ShardMember(
                settings.shard, self._client, self._fence, cache, self._flush, self._catch_up_with_shards
            )
        self._session: weakref.ref[Session] | None = None
        """The session in progress, or the last one."""
        self._reload_at = 0.0
        """When the configuration file is read again."""
        self._throttle = throttle = StatusThrottle(period=settings.schedule_period)
        self._cycle_timer = CycleTimer(
            settings.schedule_period,
            cache,
            unwritten=lambda: throttle.waits,
            unreported=lambda: self._report.figures_wait,
        )
        # The shard decides what the cache uses, before the timer looks for changes; the timer counts the time of the
        # report, and not that of the web page.
        observers = (sessions, self._shard, self._report, self._cycle_timer, self._visibility)
        self._observers: list[SessionObserver] = [observer for observer in observers if observer is not None]

    def _make_informers(self) -> InformerSet:
        settings, cache = self._settings, self._cache
        pods: Sink = WatchedPods(cache, self._metrics, self._unserved)
        if not settings.shard:  # which scheduler a job belongs to is decided for PodGroups that exist
            pods = DerivedGroups(pods, settings.scheduler_names, lambda key: bool(cache.group_uid(key)))
        return InformerSet(
            [
                Informer(
                    self._client,
                    source,
                    pods if source.kind in DERIVING_KINDS else cache,
                    self._recorder.malformed,
                    self._metrics,
                    originals=cache,
                    ahead=self._ahead,
                )
                for source in sources(csi_storage=settings.csi_storage, shards=bool(settings.shard))
            ]
        )

    def _make_visibility(self) -> "Visibility | None":
        if self._settings.visibility is None:
            return None
        from scheduler.cluster.kube.scheduler.visibility.role import Visibility  # it loads libraries of its own

        return Visibility(
            self._settings.visibility, self._client, self._metrics, lambda: self._liveness.phase is Phase.STANDING_BY
        )

    # --- running ------------------------------------------------------------------------------------------------------
    async def run(self) -> int:
        """Schedules until stopped. Returns the exit code: 0 when stopped, 1 when leadership was lost."""
        async with self.process.running(schedulers=", ".join(self._settings.scheduler_names)):
            try:
                if self._visibility is not None:
                    await self._visibility.start()
                self._cache.configure(self._configuration.current)
                await wait_with_progress(self._stop, self._signing.load, self._liveness.progress)
                self._cache.set_signing_key(self._signing.key)
                if self._ahead is None:
                    await self.process.observe_lease()
                else:
                    self.process.free_lease = self._ahead.free_lease
                self._informers.start()
                with long_lived_objects():
                    if not await self._informers.synced(self._stop, self._liveness.progress):
                        return 0
                return await self._lead()
            finally:
                await cancel(*self._relisting)
                if self._visibility is not None:
                    await self._visibility.close()
                await self._usage.close()
                await asyncio.to_thread(self._http.close)
                await self._informers.close()
                await self._plugin_config_maps.close()
                await self._writer.close()
                await self._lanes.close()

    def _unready(self) -> str:
        """Why this process is not ready to schedule or to stand by, or ""."""
        return "stopping" if self._stop.is_set() else self._informers.unready()

    async def _lead(self) -> int:
        preparing = asyncio.create_task(self._prepare_periodically())
        try:
            return await self.process.run_as_leader(self._work, self._catch_up)
        finally:
            await cancel(preparing)

    async def _prepare_periodically(self) -> None:
        """Prepares the cache of a standby for its first session."""
        while self._liveness.phase is Phase.STANDING_BY:
            self._cache.prepare()
            await asyncio.sleep(STANDBY_PERIOD)

    async def _catch_up(self) -> bool:
        """Waits until the cache has what other leaders wrote: bindings, admissions and, with shards, claims. The last
        leader of this shard may have withdrawn a claim that the watch still shows."""
        return await self._informers.catch_up((POD, POD_GROUP, NODE_SHARD), self._stop)

    async def _flush(self) -> bool:
        return await self._writer.flush(FLUSH)

    async def _catch_up_with_shards(self) -> bool:
        """Waits until the cache has what other schedulers bound, admitted and claimed."""
        caught_up = await self._catch_up()
        if caught_up:
            self._cache.verify_admissions(self._signing.key, time.time())
        return caught_up

    async def _work(self, caught_up: "asyncio.Future[bool]", lost: "asyncio.Task[str]") -> None:
        """Schedules as the leader. ``caught_up``: see ``Work``."""
        made = functools.partial(self._cache.upsert, QUEUE)
        self._usage.set_source(self._configuration.current.metrics)
        lease = self._settings.whole_cluster_lease if self._shard is not None else None
        preparations = [
            asyncio.create_task(ensure_queues(self._client, self._settings.default_queue, self._fence, made)),
            asyncio.create_task(self._usage.first_usage()),
            asyncio.create_task(self._sign()),
        ]
        if lease is None:  # otherwise, another scheduler may still write them
            preparations.append(asyncio.create_task(self._watch_plugin_config_maps()))
        try:
            if not await caught_up:
                return
            if lease is not None:
                await unless_stopped(self._stop, until_released(self._client, lease, self._liveness.progress))
                if not await self._catch_up():
                    return
            await asyncio.wait(preparations, timeout=PREPARATION)
            await self._watch_plugin_config_maps()  # those not watched yet; raises here what a plugin raises
            self._cache.verify_admissions(self._signing.key, time.time())
            await self._schedule(lost)
            if not lost.done():
                log.info("stopping", flushed=await self._writer.flush(FLUSH))
        finally:
            await cancel(*preparations)

    async def _sign(self) -> None:
        """Signs every binding from now on."""
        await self._signing.begin(self._fence)
        self._cache.set_signing_key(self._signing.key)

    # --- cycles -------------------------------------------------------------------------------------------------------
    async def _schedule(self, lost: "asyncio.Task[str]") -> None:
        """Runs cycles until stopped or no longer the leader."""
        stopping = asyncio.create_task(self._stop.wait())
        reporting = asyncio.create_task(self._report_unserved_pods())
        try:
            log.info("Open Session: the first of this process")
            while not (self._stop.is_set() or lost.done()):
                await self._run_cycle()
                self._liveness.progress()
                await self._cycle_timer.wait((stopping, lost))
        finally:
            stopping.cancel()
            await cancel(reporting)

    async def _report_unserved_pods(self) -> None:
        """Records the Warnings about Pods with misspelt schedulerNames; of several schedulers with shards, one does."""
        while True:
            await asyncio.sleep(UNSERVED_PERIOD)
            if self._cache.writes_queue(self._settings.default_queue):
                for problem in self._unserved.take():
                    self._recorder.malformed(problem)

    async def _run_cycle(self) -> None:
        """Runs one cycle, unless none is needed or possible now. Decides nothing if code of a plugin fails."""
        # 1. Report what was malformed in objects that have arrived; leave the API server time if it is behind.
        self._cycle_timer.cycle_began()
        malformed = self._cache.take_malformed()
        for problem in first_fields(malformed) if malformed else ():
            self._recorder.malformed(problem)
        if self._writer.overloaded:
            return
        try:
            # 2. Read the configuration file.
            if self._reload_configuration():
                self._cycle_timer.require_cycle()
                self._usage.set_source(self._configuration.current.metrics)
                await self._watch_plugin_config_maps()
            # 3. Decide whether a session is needed.
            demand = max([await observer.demand() for observer in self._observers])
            if demand is not SessionDemand.NOW:
                if demand is not SessionDemand.FORBIDDEN:
                    self._metrics.cycles_skipped.inc()
                self._cycle_timer.cycle_skipped(rests=demand is SessionDemand.NONE)
                return
            # 4. Take a snapshot of a cache that has all that the plugins require.
            if not self._configure():
                return
            # 5. Hold the session.
            outcome = await self._hold_session(self._cache.snapshot(time.time()))
        except PluginError as error:
            self._metrics.cycle_errors.inc()
            self._report.plugin_failed(error)
            return
        except Exception:
            self._metrics.cycle_errors.inc()
            log.exception("cycle failed; nothing was decided")
            return
        # 6. Leave out what this process may not write, and statuses that need not be written now.
        if not self._fence.is_open:
            log.warning("decisions dropped: no longer the leader")
            return
        decisions = outcome.decisions
        decisions.queues[:] = [update for update in decisions.queues if self._cache.writes_queue(update.name)]
        self._throttle.throttle(decisions, time.monotonic(), outcome.session.active_jobs)
        # 7. Carry the decisions out. Observers follow once requests have been sent: a Pod does not wait for a report.
        self._writer.submit(decisions)
        self._cache.assume(decisions)
        await self._writer.started()
        for observer in self._observers:
            await observer.ended(outcome)
        outcome.session.release()

    async def _hold_session(self, snapshot: Snapshot) -> Outcome:
        configuration, limit = self._configuration.current, self._nodes_limit(snapshot)
        for observer in self._observers:
            observer.opened(snapshot, configuration, limit)
        if self._cycle_timer.is_brief(snapshot, configuration):
            outcome = self._decide(snapshot, configuration, limit)
        else:
            async with self._liveness.watching(self._searches):
                outcome = await asyncio.to_thread(self._decide, snapshot, configuration, limit)
        for observer in self._observers:
            observer.decided(outcome.decisions)
        return outcome

    async def _watch_plugin_config_maps(self) -> None:
        """Starts to watch what the plugins of the configuration want."""
        await self._plugin_config_maps.watch(self._configuration.current, self._stop, PREPARATION)

    def _configure(self) -> bool:
        """Applies the present configuration to the cache. Returns whether the cache has all that its plugins require;
        otherwise the objects concerned are being listed again."""
        kinds = self._cache.configure(self._configuration.current)
        if kinds:
            self._relisting.append(asyncio.create_task(self._informers.list_again(kinds, self._stop)))
        self._relisting = [listing for listing in self._relisting if not listing.done()]
        return not self._relisting

    def _reload_configuration(self) -> bool:
        """Reads the configuration file, once per period. Returns whether a new configuration is in force."""
        now = time.monotonic()
        if now < self._reload_at:
            return False
        self._reload_at = now + self._settings.schedule_period / 2  # sessions may begin a little early
        return self._configuration.poll(self._metrics)

    def _nodes_limit(self, snapshot: Snapshot) -> int:
        return nodes_to_find(len(snapshot.nodes.names), self._settings.percentage_nodes, self._settings.minimum_nodes)

    def _decide(self, snapshot: Snapshot, configuration: Configuration, limit: int) -> Outcome:
        """Runs one cycle; called on another thread, unless it is brief."""
        self._session = None
        return run_cycle(
            snapshot,
            configuration,
            nodes_limit=limit,
            make_session=self._make_session,
            external_calls=self._external_calls,
        )

    def _make_session(
        self,
        snapshot: Snapshot,
        configuration: Configuration,
        *,
        nodes_limit: int,
        external_calls: ExternalCalls,
    ) -> Session:
        session = Session(snapshot, configuration, nodes_limit=nodes_limit, external_calls=external_calls)
        self._session = weakref.ref(session)
        return session

    def _searches(self) -> int:
        """The number of searches of the session in progress, which shows whether it makes progress."""
        session = None if self._session is None else self._session()
        return -1 if session is None else session.searches


def nodes_to_find(nodes: int, percentage: int, minimum: int) -> int:
    """The number of feasible nodes that are enough for a task; 0: all nodes are checked. ``percentage`` 0 adapts to the
    number of nodes."""
    if percentage >= 100 or nodes <= minimum:
        return 0
    if percentage <= 0:
        percentage = max(5, 50 - nodes // 125)
    return max(minimum, nodes * percentage // 100)
