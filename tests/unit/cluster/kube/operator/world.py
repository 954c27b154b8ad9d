"""The reconcile loop with a controller whose plans are given to it, on a fake API server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from scheduler.api.decisions import EventRecord
from scheduler.api.kinds import POD_GROUP, QUEUE, Kind
from scheduler.api.objects import KubeObject, ObjectMeta
from scheduler.api.scheduling import Queue
from scheduler.cluster.kube.operator.change_receiver import ChangeReceiver
from scheduler.cluster.kube.operator.executor import Executor
from scheduler.cluster.kube.operator.reconcile_loop import ReconcileLoop
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.fence import Fence
from scheduler.cluster.kube.write.events import EventRecorder
from scheduler.controllers.controller import Controller
from scheduler.controllers.effects import Effect, Plan
from scheduler.controllers.store import Key, Store
from scheduler.controllers.worklist import ReconcileQueue
from scheduler.observability.role_metrics import ControllerMetrics
from tests.unit.cluster.kube.fake_api import FakeApi, serving

GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups"


class ScriptedController(Controller):
    """A controller of Queues whose plans are given to it."""

    name = "controller"
    kinds: tuple[Kind, ...] = (QUEUE,)

    def __init__(self) -> None:
        self.plans: dict[str, list[Plan | Exception]] = {}
        self.reconciled: list[str] = []
        self.finished: list[str] = []
        self.failures: list[tuple[str, str]] = []

    def observe(self, kind: Kind, old: KubeObject | None, new: KubeObject | None, now: float) -> list[Key]:
        obj = new or old
        return [(obj.metadata.namespace, obj.metadata.name)] if obj else []

    def plan(self, key: Key, now: float) -> Plan:
        self.reconciled.append(key[1])
        waiting = self.plans.get(key[1]) or [Plan()]
        plan = waiting.pop(0)
        if isinstance(plan, Exception):
            raise plan
        return plan

    def done(self, key: Key, now: float) -> None:
        self.finished.append(key[1])

    def failed(self, key: Key, effect: Effect, error: str, now: float) -> None:
        self.failures.append((key[1], error))


class World:
    def __init__(self, api: FakeApi, client: ApiClient, writes: int) -> None:
        self.api = api
        self.client = client
        self.controller = ScriptedController()
        self.store = Store()
        self.metrics = ControllerMetrics()
        self.recorded: list[EventRecord] = []
        self.fence = Fence()
        self.fence.open_forever()
        worklist = ReconcileQueue([self.controller])
        self.receiver = ChangeReceiver(self.store, worklist)
        self.executor = Executor(client, self.fence, cast(EventRecorder, self), self.receiver)
        self.progress = 0
        """The number of iterations of the loop."""
        self.loop = ReconcileLoop(
            worklist, self.receiver, self.executor, self.metrics, writes=writes, progress=self._turned
        )

    def _turned(self) -> None:
        self.progress += 1

    def record(self, event: EventRecord) -> None:
        self.recorded.append(event)

    def queue(self, name: str, *plans: Plan | Exception, namespace: str = "") -> None:
        """A Queue comes, and these are the plans for it. With a namespace, it takes turns as an object of it."""
        self.controller.plans[name] = list(plans)
        self.receiver.written(QUEUE, Queue(metadata=ObjectMeta(name=name, namespace=namespace, resource_version="1")))


@asynccontextmanager
async def world(writes: int = 8, leading: bool = True) -> AsyncIterator[World]:
    async with serving() as (api, client):
        made = World(api, client, writes)
        if leading:
            made.receiver.lead()
        running = asyncio.create_task(made.loop.run())
        try:
            yield made
        finally:
            running.cancel()
            await made.loop.close()


def group(name: str, version: str = "5") -> dict[str, Any]:
    return {
        "apiVersion": POD_GROUP.api_version,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "ns", "resourceVersion": version},
    }
