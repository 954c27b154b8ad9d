"""Takes objects off the worklist, lets their controllers plan, and carries the plans out concurrently.

A plan in execution is a few numbers, not a task: each write that ends starts what follows it.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import structlog

from scheduler.api.kinds import POD
from scheduler.cluster.kube.operator.change_receiver import ChangeReceiver
from scheduler.cluster.kube.operator.executor import Executor, FilesError
from scheduler.cluster.kube.operator.write_workers import DeferredWrites, ManifestBuilder, WriteKind, WriteWorkers
from scheduler.cluster.kube.transport.errors import RequestError
from scheduler.cluster.kube.transport.fence import Fenced
from scheduler.controllers.effects import (
    BuildAndCreate,
    Create,
    Delete,
    FileEffect,
    Json,
    ObjectEffect,
    Patch,
    Plan,
    Read,
    RecordEvent,
    RemoveFile,
    WriteFile,
)
from scheduler.controllers.worklist import Item, ReconcileQueue
from scheduler.observability.role_metrics import ControllerMetrics

BATCH = 50
"""Reconciliations without a pause; after them watches and the lease get their turn."""
CLOCK_STEP = 1.0
"""Seconds by which the clock has to change against a clock that cannot be set, to count as set."""
_FILE = "File"
"""The kind of files in metrics."""
log = structlog.get_logger(__name__)


@dataclass(eq=False, slots=True)
class _Execution:
    """A plan that is being carried out."""

    item: Item
    plan: Plan
    stage: int = 0
    """The next stage."""
    unfinished: int = 0
    """Writes of the present stage."""
    failure: tuple[ObjectEffect | FileEffect, str] | None = None
    """The first write that failed, and why."""


class ReconcileLoop:
    """Belongs to one event loop. ``run`` until cancelled."""

    def __init__(
        self,
        worklist: ReconcileQueue,
        receiver: ChangeReceiver,
        executor: Executor,
        metrics: ControllerMetrics,
        *,
        writes: int,
        progress: Callable[[], None] = lambda: None,
    ) -> None:
        """``writes``: effects in flight; ``progress``: called in every iteration of the loop."""
        self._progress = progress
        self._clock_ahead = time.time() - time.monotonic()
        """Seconds by which the clock is ahead of a clock that cannot be set."""
        self._worklist = worklist
        self._receiver = receiver
        self._executor = executor
        self._metrics = metrics
        self._workers = WriteWorkers(writes)
        self._builder = ManifestBuilder()
        self._ended = asyncio.Event()
        """Set whenever a plan or a deferrable write has ended."""
        self._deferred = DeferredWrites(self._workers, self._write, self._deferred_failed, self._ended.set)
        self._executions: set[_Execution] = set()
        self._counters: dict[tuple[str, str, str, str], Callable[[], None]] = {}
        """What counts effects, by controller, verb, kind and result."""

    async def run(self) -> None:
        while True:
            self._progress()
            self._metrics.waiting.set(len(self._worklist))
            self._receiver.changed.clear()
            self._follow_clock()
            for _ in range(BATCH):
                item = self._worklist.take(time.time())
                if item is None:
                    break
                self._reconcile(item)
            else:
                await asyncio.sleep(0)
                continue
            due = self._worklist.next_due()
            pause = 30.0 if due is None else min(30.0, max(0.0, due - time.time()))
            # Not asyncio.wait_for: before Python 3.12 it swallows a cancellation that coincides with the event.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._receiver.changed.wait()

    def _follow_clock(self) -> None:
        """Keeps the length of pauses when the clock was set back. If it was set forward, they are over early."""
        ahead = time.time() - time.monotonic()
        back = self._clock_ahead - ahead
        if back > CLOCK_STEP:
            log.warning("the clock was set back", seconds=round(back, 1))
            self._worklist.clock_set_back(back)
        if abs(back) > CLOCK_STEP:
            self._clock_ahead = ahead

    async def drain(self, seconds: float) -> bool:
        """Waits for the plans and deferrable writes in flight; returns whether all plans finished in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._executions or self._deferred.running:
                    self._ended.clear()
                    await self._ended.wait()
        return not self._executions

    async def close(self) -> None:
        await self._workers.close()
        await self._builder.close()

    def _reconcile(self, item: Item) -> None:
        name = item.controller.name
        started = time.perf_counter()
        try:
            plan = item.controller.plan(item.key, time.time())
        except Exception as error:  # one bad object must not stop the others
            self._metrics.plan_errors.labels(name).inc()
            log.exception("controller failed", controller=name, object="/".join(item.key))
            self._worklist.fail(item, None, f"{type(error).__name__}: {error}", time.time())
            return
        self._metrics.plan_seconds.labels(name).observe(time.perf_counter() - started)
        if plan.stages:
            execution = _Execution(item, plan)
            self._executions.add(execution)
            self._advance(execution)
        else:
            self._worklist.finish(item, plan, time.time())

    # --- the execution of a plan --------------------------------------------------------------------------------------
    def _advance(self, execution: "_Execution") -> None:
        """Starts the next stages of a plan, up to one that has writes to wait for."""
        item, stages = execution.item, execution.plan.stages
        while execution.stage < len(stages):
            writes: list[ObjectEffect | FileEffect] = []
            for effect in stages[execution.stage]:
                if isinstance(effect, RecordEvent):
                    self._executor.record(effect)
                elif isinstance(effect, Patch) and effect.deferrable:
                    self._deferred.put(item, effect)
                else:
                    writes.append(effect)
            execution.stage += 1
            if writes:
                execution.unfinished = len(writes)
                for write in writes:
                    self._submit(execution, write)
                return
        self._worklist.finish(item, execution.plan, time.time())
        self._end(execution)

    def _submit(self, execution: "_Execution", effect: ObjectEffect | FileEffect) -> None:
        namespace, _ = execution.item.key
        if isinstance(effect, BuildAndCreate):
            self._workers.submit(namespace, partial(self._build_if_missing, execution, effect), WriteKind.OTHER)
            return
        write = partial(self._carry_out, execution, effect)
        if isinstance(effect, Patch):
            self._deferred.before(effect, partial(self._workers.submit, namespace, write, WriteKind.OTHER))
        else:
            new_pod = isinstance(effect, Create) and effect.kind is POD
            self._workers.submit(namespace, write, WriteKind.NEW_POD if new_pod else WriteKind.OTHER)

    async def _build_if_missing(self, execution: "_Execution", effect: BuildAndCreate) -> None:
        """Queues the manifest to be built if the object does not exist. The object is created after that."""
        created = False

        async def look() -> None:
            nonlocal created
            created = await self._executor.is_created(effect)

        problem = await self._attempt(execution.item, look())
        if problem or created:
            self._report(execution.item, effect, problem)
            self._written(execution, effect, problem)
        else:
            self._builder.submit(execution.item.key[0], effect.build, partial(self._create_built, execution, effect))

    def _create_built(self, execution: "_Execution", effect: BuildAndCreate, built: Json | Exception) -> None:
        if isinstance(built, Exception):
            problem = f"{type(built).__name__}: {built}"
            self._report(execution.item, effect, problem)
            self._written(execution, effect, problem)
        else:
            self._submit(execution, Create(effect.kind, built, effect.owner))

    async def _carry_out(self, execution: "_Execution", effect: Create | Patch | Delete | Read | FileEffect) -> None:
        self._written(execution, effect, await self._write(execution.item, effect))

    def _written(self, execution: "_Execution", effect: ObjectEffect | FileEffect, problem: str) -> None:
        """Continues a plan after one of its writes. ``problem``: why the write failed, or ""."""
        if problem and execution.failure is None:
            execution.failure = effect, problem
        execution.unfinished -= 1
        if execution.unfinished:
            return
        if execution.failure is None:
            self._advance(execution)
        else:
            self._worklist.fail(execution.item, *execution.failure, time.time())
            self._end(execution)

    def _end(self, execution: "_Execution") -> None:
        self._executions.discard(execution)
        self._ended.set()
        self._receiver.changed.set()

    async def _write(self, item: Item, effect: Create | Patch | Delete | Read | FileEffect) -> str:
        """Carries out an effect. Returns why it failed, or ""."""
        problem = await self._attempt(item, self._executor.carry_out(effect))
        self._report(item, effect, problem)
        return problem

    async def _attempt(self, item: Item, requests: Awaitable[None]) -> str:
        """Waits for the requests of an effect. Returns why they failed, or ""."""
        try:
            await requests
        except RequestError as error:
            return error.message or str(error)
        except (FilesError, Fenced) as error:
            return str(error)
        except Exception as error:  # an invalid answer, or an object that a controller cannot process
            log.exception("write failed unexpectedly", object="/".join(item.key))
            return f"{type(error).__name__}: {error}"
        return ""

    def _report(self, item: Item, effect: ObjectEffect | FileEffect, problem: str) -> None:
        """Counts an effect, and logs its failure."""
        verb = "create" if isinstance(effect, BuildAndCreate) else type(effect).__name__.lower()
        kind = _FILE if isinstance(effect, WriteFile | RemoveFile) else effect.kind.name
        self._count((item.controller.name, verb, kind, "error" if problem else "done"))
        if problem:
            log.warning(
                "write failed",
                controller=item.controller.name,
                verb=verb,
                kind=kind,
                object="/".join(item.key),
                problem=problem,
            )

    def _count(self, labels: tuple[str, str, str, str]) -> None:
        """``labels``: controller, verb, kind and result."""
        increment = self._counters.get(labels)
        if increment is None:  # to look up the series of labels costs more than to count
            increment = self._counters[labels] = self._metrics.effects.labels(*labels).inc
        increment()

    def _deferred_failed(self, item: Item, effect: Patch, problem: str) -> None:
        """Schedules a retry of a deferrable write that failed."""
        self._worklist.retry(item, effect, problem, time.time())
        self._receiver.changed.set()
