"""Takes objects off the worklist, lets their controllers plan, and carries the plans out concurrently."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence

import structlog

from scheduler.cluster.kube.operator.change_receiver import ChangeReceiver
from scheduler.cluster.kube.operator.deferred_writes import DeferredWrites
from scheduler.cluster.kube.operator.executor import Executor
from scheduler.cluster.kube.operator.files import FilesError
from scheduler.cluster.kube.operator.slots import WriteSlots
from scheduler.cluster.kube.transport.client import ApiError, TransportError
from scheduler.cluster.kube.transport.fence import Fenced
from scheduler.controllers.effects import Effect, FileEffect, ObjectEffect, Patch, Plan, Post, RemoveFile, WriteFile
from scheduler.controllers.worklist import Item, Worklist
from scheduler.observability.controller_metrics import ControllerMetrics

BATCH = 50
"""Reconciliations without a pause; after them watches and the lease get their turn."""
_FILE = "File"
"""What the metrics call the kind of files."""
log = structlog.get_logger(__name__)


class ReconcileLoop:
    """Belongs to one event loop. ``run`` until cancelled."""

    def __init__(
        self,
        worklist: Worklist,
        receiver: ChangeReceiver,
        executor: Executor,
        metrics: ControllerMetrics,
        *,
        writes: int,
        progress: Callable[[], None] = lambda: None,
    ) -> None:
        """``writes``: effects in flight; ``progress``: called in every iteration of the loop."""
        self._progress = progress
        self._worklist = worklist
        self._receiver = receiver
        self._executor = executor
        self._metrics = metrics
        self._slots = WriteSlots(writes)
        self._deferred = DeferredWrites(self._slots, self._write, self._deferred_failed)
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        while True:
            self._progress()
            self._metrics.waiting.set(len(self._worklist))
            self._receiver.changed.clear()
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

    async def drain(self, seconds: float) -> bool:
        """Waits for the plans in flight; returns whether all finished in time."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        await self._deferred.drain(seconds)
        return not self._tasks

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._deferred.close()

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
            task = asyncio.create_task(self._carry_out(item, plan))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._worklist.finish(item, plan, time.time())

    async def _carry_out(self, item: Item, plan: Plan) -> None:
        for stage in plan.stages:
            outcomes = await self._do_all(item, stage)
            for effect, problem in zip(stage, outcomes, strict=True):
                if problem:
                    self._worklist.fail(item, effect, problem, time.time())
                    self._receiver.changed.set()
                    return
        self._worklist.finish(item, plan, time.time())
        self._receiver.changed.set()

    async def _do_all(self, item: Item, stage: Sequence[Effect]) -> Sequence[str]:
        """Carries out effects concurrently. Returns why each failed, or ""."""
        if len(stage) == 1:  # most stages are one status or Event; a task of its own would cost more than its plan
            return [await self._do(item, stage[0])]
        return await asyncio.gather(*(self._do(item, effect) for effect in stage))

    async def _do(self, item: Item, effect: Effect) -> str:
        """Carries out an effect. Returns why it failed, or ""."""
        if isinstance(effect, Post):
            await self._executor.carry_out(effect)
            return ""
        if isinstance(effect, Patch):
            if effect.deferrable:
                self._deferred.put(item, effect)
                return ""
            await self._deferred.settle(effect)
        await self._slots.acquire(deferrable=False)
        try:
            return await self._write(item, effect)
        finally:
            self._slots.release()

    async def _write(self, item: Item, effect: ObjectEffect | FileEffect) -> str:
        """Carries out an effect while holding a slot. Returns why it failed, or ""."""
        problem = ""
        try:
            await self._executor.carry_out(effect)
        except ApiError as error:
            problem = error.message or str(error)
        except (TransportError, FilesError, Fenced) as error:
            problem = str(error)
        except Exception as error:  # an invalid answer, or an object that a controller cannot process
            log.exception("write failed unexpectedly", object="/".join(item.key))
            problem = f"{type(error).__name__}: {error}"
        verb = type(effect).__name__.lower()
        kind = _FILE if isinstance(effect, WriteFile | RemoveFile) else effect.kind.name
        result = "error" if problem else "done"
        self._metrics.effects.labels(item.controller.name, verb, kind, result).inc()
        if problem:
            log.warning(
                "write failed",
                controller=item.controller.name,
                verb=verb,
                kind=kind,
                object="/".join(item.key),
                problem=problem,
            )
        return problem

    def _deferred_failed(self, item: Item, effect: Patch, problem: str) -> None:
        """Schedules a retry of a deferrable write that failed."""
        self._worklist.retry(item, effect, problem, time.time())
        self._receiver.changed.set()
