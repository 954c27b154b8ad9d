"""The controllers as a long-running process: watches, leader election, and the reconcile loop."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import structlog

from scheduler.api import batch
from scheduler.api.batch import JobFlow, JobPhase
from scheduler.api.kinds import (
    COMMAND,
    CONFIG_MAP,
    CRON_JOB,
    JOB_FLOW,
    JOB_TEMPLATE,
    POD,
    QUEUE,
    SCHEDULER_KINDS,
    VCJOB,
    Kind,
)
from scheduler.api.names import NPU_JOB_KIND, RESCHEDULING_STATE, SYSTEM_NAMESPACE
from scheduler.api.objects import KubeObject, Pod
from scheduler.api.times import parse_timestamp
from scheduler.cluster.kube.operator.change_receiver import ChangeReceiver, InformerSink
from scheduler.cluster.kube.operator.executor import DirectoryFiles, Executor
from scheduler.cluster.kube.operator.handlers import Handlers
from scheduler.cluster.kube.operator.reconcile_loop import ReconcileLoop
from scheduler.cluster.kube.process.process import Process
from scheduler.cluster.kube.process.settings import ProcessSettings
from scheduler.cluster.kube.process.waiting import cancel, wait_with_progress
from scheduler.cluster.kube.transport.credentials import Credentials
from scheduler.cluster.kube.transport.sources import WatchSource
from scheduler.cluster.kube.watch.informer import Informer
from scheduler.cluster.kube.watch.informer_set import InformerSet, long_lived_objects
from scheduler.cluster.kube.write.events import EventRecorder
from scheduler.cluster.kube.write.lanes import make_lanes
from scheduler.controllers.catalogue import CONFIGURATION
from scheduler.controllers.controller import Controller
from scheduler.controllers.job.observation import job_of
from scheduler.controllers.jobflow.status import FAILED, SUCCEED
from scheduler.controllers.store import Key, Store, key_of
from scheduler.controllers.worklist import ReconcileQueue
from scheduler.observability.role_metrics import ControllerMetrics

T = TypeVar("T", bound=KubeObject)
COMPONENT = "volcano-py-controllers"
BY_HAND: frozenset[Kind] = frozenset({QUEUE, COMMAND, CRON_JOB, JOB_FLOW, JOB_TEMPLATE})
"""Kinds that people write by hand; kopf watches them."""
HEAD_START = 0.08
"""Seconds that a scheduler has to bind a plain Pod before its PodGroup is created. A session and a binding take less on
a quiet cluster, and the API server has nothing else to do for the Pod in that time."""
FLUSH = 10.0
"""Seconds that plans in flight have to finish when stopping."""
log = structlog.get_logger(__name__)


class ControllersSettings(msgspec.Struct, frozen=True):
    """The settings of the role; times in seconds."""

    process: ProcessSettings = msgspec.field(default_factory=ProcessSettings)
    writes: int = 64
    """Writes in flight."""
    configuration: Key = CONFIGURATION
    """Namespace and name of the ConfigMap that configures the controllers."""
    files: str = ""
    """The directory for rank tables; "" if they are not written to files."""


class Operator:
    """One process of controllers. ``run`` once."""

    def __init__(
        self,
        settings: ControllersSettings,
        make_controllers: Callable[[Store], Sequence[Controller]],
        credentials: Credentials,
    ) -> None:
        self._settings = settings
        self._metrics = ControllerMetrics()
        self.process = process = Process(settings.process, credentials, self._metrics, self._unready)
        self._client, self._fence, self._liveness = process.client, process.fence, process.liveness
        self._stop = process.stopping
        self._lanes = make_lanes(settings.writes, self._metrics)
        store = Store()
        controllers = make_controllers(store)
        self._worklist = ReconcileQueue(controllers)
        observer = JobObserver(store, self._metrics)
        self._receiver = ChangeReceiver(store, self._worklist, observer.observe)
        recorder = EventRecorder(self._client, self._lanes, self._metrics, self._fence, COMPONENT)
        files = DirectoryFiles(Path(settings.files)) if settings.files else None
        executor = Executor(self._client, self._fence, recorder, self._receiver, files)
        self._reconcile_loop = ReconcileLoop(
            self._worklist,
            self._receiver,
            executor,
            self._metrics,
            writes=settings.writes,
            progress=self._liveness.progress,
        )
        wanted = sorted({kind for controller in controllers for kind in controller.kinds}, key=_first_others)
        self._busy_kinds = [kind for kind in wanted if kind not in BY_HAND]
        self._informers = InformerSet(
            [
                Informer(self._client, source, InformerSink(self._receiver), recorder.malformed, self._metrics)
                for kind in self._busy_kinds
                for source in self._sources(kind)
            ]
        )
        by_hand = [kind for kind in wanted if kind in BY_HAND]
        self._handlers = Handlers(by_hand, self._client, credentials, self._receiver, recorder.malformed)
        self._names = ", ".join(controller.name for controller in controllers)

    def _sources(self, kind: Kind) -> list[WatchSource]:
        """The sources of a kind: of ConfigMaps, only the configuration, the record of restarts after faults, and those
        for rank tables."""
        if kind is not CONFIG_MAP:
            return [WatchSource(kind)]
        namespace, name = self._settings.configuration
        return [
            WatchSource(kind, namespace, name=name),
            WatchSource(kind, SYSTEM_NAMESPACE, name=RESCHEDULING_STATE, optional=True),
            WatchSource(kind, labels=NPU_JOB_KIND, optional=True),
        ]

    async def run(self) -> int:
        """Reconciles until stopped. Returns the exit code: 0 when stopped, 1 when leadership was lost."""
        async with self.process.running(controllers=self._names):
            await self.process.observe_lease()
            self._informers.start()
            handling = asyncio.create_task(self._handlers.run())
            try:
                with long_lived_objects():
                    if not await self._synced():
                        return 0
                return await self.process.run_as_leader(self._control, self._catch_up)
            finally:
                await cancel(handling)
                await self._reconcile_loop.close()
                await self._informers.close()
                await self._lanes.close()

    def _unready(self) -> str:
        """Why this process is not ready to reconcile or to stand by, or ""."""
        if self._stop.is_set():
            return "stopping"
        return self._informers.unready() or ("" if self._handlers.synced.is_set() else "not listed yet: handlers")

    async def _synced(self) -> bool:
        progress = self._liveness.progress
        if not await self._informers.synced(self._stop, progress):
            return False
        return await wait_with_progress(self._stop, self._handlers.synced.wait, progress) is not None

    async def _catch_up(self) -> bool:
        return await self._informers.catch_up(self._busy_kinds, self._stop)

    async def _control(self, caught_up: "asyncio.Future[bool]", lost: "asyncio.Task[str]") -> None:
        """Reconciles as the leader. ``caught_up``: see ``Work``."""
        if not await caught_up:
            return
        self._receiver.lead()
        reconciling, stopping = asyncio.create_task(self._reconcile_loop.run()), asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait((reconciling, stopping, lost), return_when=asyncio.FIRST_COMPLETED)
            if reconciling.done():
                reconciling.result()
        finally:
            await cancel(reconciling, stopping)
        if not lost.done():
            log.info("stopping", finished=await self._reconcile_loop.drain(FLUSH))


def _first_others(kind: Kind) -> tuple[int, str]:
    """Sorts kinds: a kind comes before the kinds that refer to it."""
    return (SCHEDULER_KINDS.index(kind) if kind in SCHEDULER_KINDS else len(SCHEDULER_KINDS), str(kind))


class JobObserver:
    """Derives Volcano's metrics of vcjobs and JobFlows from the changes that the controllers receive, while this
    process leads. The series of an object end with the object, so there are never more
    series than objects."""

    def __init__(self, store: Store, metrics: ControllerMetrics) -> None:
        self._store = store
        self._metrics = metrics
        self._flows: dict[str, Counter[str]] = {}
        """Namespace -> the JobFlows that were counted, and how often."""
        self._observers: dict[Kind, Callable[[Any, Any], None]] = {}
        self._add(POD, self._observe_pod)
        self._add(VCJOB, self._observe_job)
        self._add(JOB_FLOW, self._observe_flow)

    def observe(self, kind: Kind, old: KubeObject | None, new: KubeObject | None) -> None:
        """Takes a change. ``old``: None if the object was not known; ``new``: None if it is gone."""
        observer = self._observers.get(kind)
        if observer is not None:
            observer(old, new)

    def _add(self, kind: Kind[T], observer: Callable[[T | None, T | None], None]) -> None:
        self._observers[kind] = observer

    def _observe_pod(self, old: Pod | None, pod: Pod | None) -> None:
        """The first time that a Pod is seen, this process has created it, if a vcjob owns it."""
        owner = job_of(pod) if old is None and pod is not None else None
        if pod is None or owner is None:
            return
        job = self._store.get(VCJOB, pod.metadata.namespace, owner.name)
        if job is None or job.metadata.uid != owner.uid:
            return
        began = parse_timestamp(job.metadata.creation_timestamp)
        created = parse_timestamp(pod.metadata.creation_timestamp)
        if began is not None and created is not None:
            self._metrics.pod_creation.observe(max(0.0, created - began) * 1000)

    def _observe_job(self, old: batch.Job | None, new: batch.Job | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._metrics.job_phases.forget("/".join(key_of(old)))
        elif old is not None and new is not None and old.status.state.phase != new.status.state.phase:
            phase = new.status.state.phase
            if phase in (JobPhase.COMPLETED, JobPhase.FAILED):
                self._metrics.job_phases.count(phase, "/".join(key_of(new)), new.spec.queue)

    def _observe_flow(self, old: JobFlow | None, new: JobFlow | None) -> None:
        if old is None:
            return
        namespace, name = key_of(old)
        if new is None:
            counted = self._flows.get(namespace)
            if counted is not None and counted.pop(name, 0) and not counted:
                del self._flows[namespace]
                self._metrics.flow_phases.forget(namespace)
            return
        phase = _flow_phase(new)
        if phase != _flow_phase(old) and phase in (SUCCEED, FAILED):
            self._flows.setdefault(namespace, Counter())[name] += 1
            self._metrics.flow_phases.count(phase, namespace)


def _flow_phase(flow: JobFlow) -> str:
    state = flow.status.get("state")
    return str(state.get("phase", "")) if isinstance(state, dict) else ""
