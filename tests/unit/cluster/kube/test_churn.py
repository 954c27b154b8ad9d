"""Objects that are created and deleted leave nothing behind, neither in a leader nor in a standby."""

import asyncio
import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import scheduler.actions
import scheduler.plugins  # noqa: F401
from scheduler.api.job import Job
from scheduler.api.kinds import COMMAND, CRON_JOB, JOB_FLOW, JOB_TEMPLATE, QUEUE
from scheduler.api.names import GROUP_NAME
from scheduler.api.node import Nodes
from scheduler.cache import task_updater
from scheduler.cluster.kube.operator.role import ControllersSettings as OperatorSettings
from scheduler.cluster.kube.operator.role import Operator
from scheduler.cluster.kube.scheduler import status_throttle
from scheduler.cluster.kube.scheduler.status_throttle import StatusThrottle
from scheduler.cluster.kube.transport.credentials import Credentials
from scheduler.cluster.kube.watch.informer import Informer
from scheduler.cluster.kube.watch.informer_set import InformerSet
from scheduler.cluster.kube.write.lanes import Lanes, Urgency
from scheduler.controllers.catalogue import make_controllers
from scheduler.controllers.effects import Create, Patch
from scheduler.framework.class_view.view import ClassView
from scheduler.framework.session import Session
from tests.unit.cluster.kube.fake_api import PODS, StaticCredentials, serving, until
from tests.unit.cluster.kube.scheduler.test_daemon import World, started
from tests.unit.cluster.kube.tables import grown, tables

OBJECTS = 40
BOUNDED = {"_series", "_deleted", "_exemplar", "_idle", "_open"}
"""Tables with a limited number of entries: Events that are counted, uids of deleted objects, the exemplars of metrics,
one for each bucket, and connections, as many as requests were in flight."""
Raw = dict[str, Any]


def metadata(name: str, version: int, **more: Any) -> Raw:
    return {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(version), **more}


def a_round(number: int) -> Iterator[tuple[str, Raw]]:
    """The kind and object; no two objects are alike, and some are malformed."""
    for i in range(OBJECTS):
        name = f"r{number}-{i}"
        queue = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"}
        yield "Queue", {"metadata": queue, "spec": {"weight": 1}}
        spec = {"minMember": 1, "queue": name if i % 2 else "none", "minResources": {"cpu": "1" if i % 5 else "-"}}
        yield "PodGroup", {"metadata": metadata(name, 1), "spec": spec}
        selector = {"spec": {"selector": {"app": name}}}
        yield "Service", {"metadata": metadata(name, 1) | {"namespace": name}, **selector}
        container = {"name": "main", "image": name, "resources": {"requests": {"cpu": "1" if i % 3 else "900"}}}
        annotations = {GROUP_NAME: name, "volcano.sh/task-priority": "odd" if i % 7 == 0 else "1"}
        pod = metadata(name, 1, annotations=annotations, labels={"app": name})
        yield "Pod", {"metadata": pod, "spec": {"schedulerName": "volcano-py", "containers": [container]}}
        yield "Pod", {"metadata": metadata(f"{name}-bad", 1), "spec": 7}


def informers(watching: InformerSet) -> dict[str, Informer]:
    return {informer.source.kind.name: informer for informer in watching._informers}


def deliver(watchers: dict[str, Informer], type_: str, kind: str, obj: Raw) -> None:
    if kind in watchers:
        watchers[kind]._event(json.dumps({"type": type_, "object": obj}).encode())


async def churned(world: World, number: int, *, leading: bool) -> dict[str, int]:
    """The entries of the scheduler's tables after objects were created and deleted."""
    daemon = world.daemon
    watchers = informers(daemon._informers)
    objects = list(a_round(number))
    for kind, obj in objects:
        deliver(watchers, "ADDED", kind, obj)
    daemon._cycle_timer.require_cycle()
    await (daemon._run_cycle() if leading else standing_by(world))
    for kind, obj in reversed(objects):
        deliver(watchers, "DELETED", kind, obj)
    daemon._cycle_timer.require_cycle()
    await (daemon._run_cycle() if leading else standing_by(world))
    await settled(daemon._lanes)
    return tables(daemon, BOUNDED)


async def settled(lanes: Lanes) -> None:
    """Waits until there is nothing left to write."""
    await lanes.drain(list(Urgency), 5)
    await until(lambda: not lanes._tasks)


async def standing_by(world: World) -> None:
    world.daemon._cache.prepare()


@pytest.mark.slow
@pytest.mark.parametrize("leading", [True, False])
def test_a_scheduler_keeps_nothing_of_objects_that_are_gone(
    leading: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_updater, "MIN_CLASS_LIMIT", 0)
    monkeypatch.setattr(status_throttle, "DESERVED_SECONDS", 0.0)

    async def scenario() -> None:
        # Every session computes its figures, however fast sessions follow each other.
        async with started(tmp_path / "scheduler.conf", period=1e-9) as world:
            world.api.answer("POST", f"{PODS}/[^/]+/binding", status=201)
            daemon = world.daemon
            daemon._cache.configure(daemon._configuration.current)
            daemon._throttle = StatusThrottle(hold=0.0)
            daemon._fence.open_forever()
            await daemon._client.start()
            for i in range(2):
                amounts = {"cpu": "100", "memory": "1Ti", "pods": "1000"}
                node = {"metadata": {"name": f"n{i}", "uid": f"n{i}"}, "status": {"allocatable": amounts}}
                deliver(informers(daemon._informers), "ADDED", "Node", node)
            await churned(world, 0, leading=leading)
            before = await churned(world, 1, leading=leading)
            after = await churned(world, 2, leading=leading)
            await daemon._lanes.close()
            await daemon._client.close()
            assert grown(before, after) == {}
            assert len(daemon._recorder._series) <= daemon._recorder._remembered

    asyncio.run(scenario())


BATCH, FLOW = "batch.volcano.sh/v1alpha1", "flow.volcano.sh/v1alpha1"
BY_HAND = {kind.name: kind for kind in (QUEUE, COMMAND, CRON_JOB, JOB_FLOW, JOB_TEMPLATE)}


def what_controllers_see(number: int) -> Iterator[tuple[str, Raw]]:
    """The kind and object: jobs with Pods and PodGroups, some of which wait for queues, templates and claims that are
    never created."""
    for i in range(OBJECTS):
        name = f"r{number}-{i}"
        template = {"spec": {"containers": [{"name": "main", "image": "i"}]}}
        spec = {"schedulerName": "volcano-py", "minAvailable": 1, "tasks": [{"name": "w", "replicas": 1}]}
        spec["tasks"] = [{"name": "w", "replicas": 1, "template": template}]
        if i % 2:
            spec["queue"] = name
        if i % 3 == 0:
            spec["volumes"] = [{"mountPath": "/x", "volumeClaimName": name}]
        job = {"apiVersion": BATCH, "kind": "Job", "metadata": metadata(name, 1), "spec": spec}
        yield "Job", job
        owner = {"apiVersion": BATCH, "kind": "Job", "name": name, "uid": f"uid-{name}", "controller": True}
        owned = metadata(f"{name}-w-0", 1, ownerReferences=[owner], annotations={GROUP_NAME: name})
        yield "Pod", {"metadata": owned, "spec": {"schedulerName": "volcano-py"}, "status": {"phase": "Running"}}
        yield "PodGroup", {"metadata": metadata(f"{name}-g", 1, ownerReferences=[owner]), "spec": {"queue": name}}
        yield "Pod", {"metadata": metadata(f"{name}-alone", 1), "spec": {"schedulerName": "volcano-py"}}
        yield "JobFlow", {"metadata": metadata(f"{name}-f", 1), "spec": {"flows": [{"name": f"{name}-t"}]}}
        yield "JobTemplate", {"metadata": metadata(f"{name}-u", 1), "spec": spec}
        cron = {"schedule": "* * * * *", "jobTemplate": {"spec": spec}}
        yield "CronJob", {"metadata": metadata(f"{name}-c", 1), "spec": cron}
        target = {"apiVersion": BATCH, "kind": "Job", "name": f"{name}-x", "uid": "x", "controller": True}
        yield "Command", {"metadata": metadata(f"{name}-o", 1), "action": "AbortJob", "target": target}
        yield "Job", {"metadata": metadata(f"{name}-bad", 1), "spec": 7}


def look_at_all(operator: Operator, now: float) -> None:
    """Makes plans for all due items, and lets every third plan fail."""
    worklist = operator._worklist
    for number in range(20 * OBJECTS):
        item = worklist.take(now)
        if item is None:
            return
        plan = item.controller.plan(item.key, now)
        effects = [effect for stage in plan.stages for effect in stage if isinstance(effect, Create | Patch)]
        if effects and number % 3 == 0:
            worklist.fail(item, effects[0], "no", now)
        else:
            worklist.finish(item, plan, now)


@pytest.mark.slow
@pytest.mark.parametrize("leading", [True, False])
def test_controllers_keep_nothing_of_objects_that_are_gone(leading: bool) -> None:
    async def scenario() -> None:
        async with serving() as (api, _):
            operator = Operator(
                OperatorSettings(),
                lambda store: make_controllers(store, ["volcano-py"]),
                cast("Credentials", StaticCredentials(api.url)),
            )
            watchers, handlers = informers(operator._informers), operator._handlers
            operator._fence.open_forever()
            await operator._client.start()
            if leading:
                operator._receiver.lead()
            now = 2_000_000_000.0
            sizes = []
            for number in range(3):
                objects = list(what_controllers_see(number))
                for kind, obj in objects:
                    if kind in BY_HAND:
                        handlers._upsert(BY_HAND[kind], obj)
                    else:
                        deliver(watchers, "ADDED", kind, obj)
                look_at_all(operator, now)
                for kind, obj in reversed(objects):
                    if kind in BY_HAND:
                        handlers._delete(BY_HAND[kind], ("ns", obj["metadata"]["name"]))
                    else:
                        deliver(watchers, "DELETED", kind, obj)
                for _ in range(3):
                    now += 1000.0
                    look_at_all(operator, now)
                await settled(operator._lanes)
                sizes.append(tables(operator, BOUNDED))
            await operator._lanes.close()
            await operator._client.close()
            assert grown(sizes[1], sizes[2]) == {}
            assert list(operator._receiver._store) == []

    asyncio.run(scenario())


def test_sessions_that_are_over_are_freed_at_once(tmp_path: Path) -> None:
    def alive() -> int:
        """The number of objects in memory that hold data of a session."""
        kinds = (Session, ClassView, Job, Nodes)
        return sum(isinstance(it, kinds) and holds(it) for it in gc.get_objects())

    async def scenario() -> None:
        async with started(tmp_path / "scheduler.conf") as world:
            daemon = world.daemon
            daemon._fence.open_forever()
            daemon._cache.configure(daemon._configuration.current)
            await daemon._client.start()
            for kind, obj in a_round(0):
                deliver(informers(daemon._informers), "ADDED", kind, obj)
            for _ in range(3):
                await another_turn(world)
            gc.collect()
            gc.disable()
            before = alive()
            try:
                for _ in range(5):
                    await another_turn(world)
                assert alive() == before
            finally:
                gc.enable()
            await daemon._lanes.close()
            await daemon._client.close()

    asyncio.run(scenario())


async def another_turn(world: World) -> None:
    cycles = world.cycles
    world.daemon._cycle_timer.require_cycle()
    await world.daemon._run_cycle()
    assert world.cycles == cycles + 1


def holds(it: object) -> bool:
    """Whether an object has anything left."""
    return bool(getattr(it, "__dict__", True))
