"""From a change to a write: controllers observe the change, the reconcile loop carries out their plans, and the store
has the result."""

import asyncio
import re
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any, cast

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from scheduler.api.decisions import EventRecord, ObjectRef
from scheduler.api.kinds import CONFIG_MAP, POD, POD_GROUP, QUEUE, Kind
from scheduler.api.objects import KubeObject, ObjectMeta, Pod
from scheduler.api.reasons import Malformed
from scheduler.api.scheduling import PodGroup, Queue
from scheduler.cluster.kube.operator.change_receiver import InformerSink
from scheduler.cluster.kube.operator.handlers import Handlers
from scheduler.cluster.kube.operator.write_workers import HOLD, WriteKind, WriteWorkers
from scheduler.cluster.kube.transport.credentials import Credentials
from scheduler.cluster.kube.transport.errors import ApiError
from scheduler.controllers.effects import NOT_OURS, Create, Delete, Patch, Plan, Read, RecordEvent
from scheduler.controllers.store import Key
from tests.unit import virtual_time
from tests.unit.cluster.kube.fake_api import PODS, Answer, Call, StaticCredentials, refusal, until
from tests.unit.cluster.kube.operator.world import GROUPS, group, world

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
EVENT = EventRecord(ObjectRef("v1", "Pod", "ns", "p"), "Normal", "Why", "because")


# --- the executor -----------------------------------------------------------------------------------------------------
def test_a_created_object_is_known_before_the_watch_reports_it() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.api.answer("POST", GROUPS, group("g"), status=201)

            await w.executor.carry_out(Create(POD_GROUP, group("g")))

            assert w.store.get(POD_GROUP, "ns", "g") is not None

    virtual_time.run(scenario())


def test_creating_what_is_there_already_counts_as_done() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.api.on("POST", GROUPS, _answering(409, "AlreadyExists"))

            await w.executor.carry_out(Create(POD_GROUP, group("g")))

            assert w.store.get(POD_GROUP, "ns", "g") is None

    virtual_time.run(scenario())


@pytest.mark.parametrize(("status", "reason"), [(409, "Conflict"), (403, "Forbidden"), (422, "Invalid")])
def test_creating_what_the_server_refuses_fails(status: int, reason: str) -> None:
    async def scenario() -> None:
        async with world() as w:
            w.api.on("POST", GROUPS, _answering(status, reason))

            with pytest.raises(ApiError):
                await w.executor.carry_out(Create(POD_GROUP, group("g")))

    virtual_time.run(scenario())


def test_a_patch_names_the_uid_so_that_a_namesake_is_left_alone() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.api.on("PATCH", f"{GROUPS}/g", _answering(409, "Conflict", "UID in precondition: u, UID in object: v"))

            await w.executor.carry_out(Patch(POD_GROUP, "ns", "g", {"spec": {"minMember": 2}}, uid="u"))

            (call,) = w.api.to("PATCH", f"{GROUPS}/g")
            assert call.body == {"spec": {"minMember": 2}, "metadata": {"uid": "u"}}

    virtual_time.run(scenario())


def test_an_object_that_is_not_watched_is_read_into_the_store_and_out_of_it() -> None:
    async def scenario() -> None:
        async with world() as w:
            path = "/api/v1/namespaces/ns/configmaps/rule"
            w.api.answer("GET", path, {"metadata": {"name": "rule", "namespace": "ns", "resourceVersion": "9"}})
            await w.executor.carry_out(Read(CONFIG_MAP, "ns", "rule"))
            assert w.store.get(CONFIG_MAP, "ns", "rule") is not None

            w.api.on("GET", path, _answering(404, "NotFound"))
            await w.executor.carry_out(Read(CONFIG_MAP, "ns", "rule"))
            assert w.store.get(CONFIG_MAP, "ns", "rule") is None

            w.api.on("GET", path, _answering(403, "Forbidden"))
            with pytest.raises(ApiError):
                await w.executor.carry_out(Read(CONFIG_MAP, "ns", "rule"))

    virtual_time.run(scenario())


def test_a_status_goes_to_the_subresource() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.api.answer("PATCH", f"{QUEUES}/q/status", {"metadata": {"name": "q", "resourceVersion": "9"}})

            await w.executor.carry_out(Patch(QUEUE, "", "q", {"status": {"state": "Open"}}, subresource="status"))

            queue = w.store.get(QUEUE, "", "q")
            assert queue is not None and queue.metadata.resource_version == "9"

    virtual_time.run(scenario())


def test_patching_and_deleting_a_deleted_object_counts_as_done() -> None:
    async def scenario() -> None:
        async with world() as w:
            await w.executor.carry_out(Patch(POD_GROUP, "ns", "g", {}))
            await w.executor.carry_out(Delete(POD_GROUP, "ns", "g", uid="u"))

            assert len(w.api.calls) == 2

    virtual_time.run(scenario())


@pytest.mark.parametrize(
    ("message", "done"),
    [
        ("Precondition failed: UID in precondition: u, UID in object meta: v", True),
        ('"druid" has been modified', False),
    ],
)
def test_a_deletion_that_meets_a_conflict_is_done_only_if_a_namesake_has_come(message: str, done: bool) -> None:
    async def scenario() -> None:
        async with world() as w:
            w.api.on("DELETE", f"{GROUPS}/g", _answering(409, "Conflict", message))

            with nullcontext() if done else pytest.raises(ApiError):
                await w.executor.carry_out(Delete(POD_GROUP, "ns", "g", uid="u"))

    virtual_time.run(scenario())


def test_a_deletion_names_the_uid_and_how_what_is_owned_goes() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.api.answer("DELETE", f"{GROUPS}/g", {"kind": "Status", "status": "Success"})

            await w.executor.carry_out(Delete(POD_GROUP, "ns", "g", uid="u", foreground=True))

            (call,) = w.api.to("DELETE", f"{GROUPS}/g")
            assert call.body["preconditions"] == {"uid": "u"}
            assert call.body["propagationPolicy"] == "Foreground"

    virtual_time.run(scenario())


@pytest.mark.parametrize(
    ("owners", "deletions"),
    [
        ([{"uid": "job", "controller": True}], [{"uid": "u"}]),
        ([{"uid": "job"}], []),
        ([{"uid": "another", "controller": True}], []),
        (None, []),
    ],
)
def test_only_what_a_certain_object_controls_is_deleted(owners: Any, deletions: list[Any]) -> None:
    async def scenario() -> None:
        async with world() as w:
            path = "/api/v1/namespaces/ns/configmaps/c"
            w.api.answer("GET", path, {"metadata": {"name": "c", "uid": "u", "ownerReferences": owners}})
            w.api.answer("DELETE", path, {"kind": "Status", "status": "Success"})

            await w.executor.carry_out(Delete(CONFIG_MAP, "ns", "c", owner="job"))

            assert [call.body["preconditions"] for call in w.api.to("DELETE", path)] == deletions

    virtual_time.run(scenario())


@pytest.mark.parametrize(
    ("there", "problem"),
    [
        ({"ownerReferences": [{"uid": "job", "controller": True}]}, ""),
        ({"ownerReferences": None}, ""),
        ({"ownerReferences": [{"uid": "old", "kind": "Job", "name": "j", "controller": True}]}, r"Job j \(old\)"),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "is being deleted"),
    ],
)
def test_what_is_there_already_and_will_go_with_another_owner_does_not_do(there: Any, problem: str) -> None:
    async def scenario() -> None:
        async with world() as w:
            path = "/api/v1/namespaces/ns/configmaps"
            w.api.on("POST", path, _answering(409, "AlreadyExists"))
            w.api.answer("GET", f"{path}/c", {"metadata": {"name": "c", "uid": "u"} | there})
            create = Create(CONFIG_MAP, {"metadata": {"name": "c", "namespace": "ns"}}, owner="job")

            with pytest.raises(ApiError, match=problem) if problem else nullcontext():
                await w.executor.carry_out(create)

    virtual_time.run(scenario())


@pytest.mark.parametrize(("owner", "patches"), [("job", [{"data": {}, "metadata": {"uid": "u"}}]), ("another", [])])
def test_only_what_a_certain_object_controls_is_changed(owner: str, patches: list[Any]) -> None:
    async def scenario() -> None:
        async with world() as w:
            path = "/api/v1/namespaces/ns/configmaps/c"
            owners = [{"uid": owner, "controller": True}]
            w.api.answer("GET", path, {"metadata": {"name": "c", "uid": "u", "ownerReferences": owners}})
            w.api.answer("PATCH", path, {})

            await w.executor.carry_out(Patch(CONFIG_MAP, "ns", "c", {"data": {}}, owner="job"))

            assert [call.body for call in w.api.to("PATCH", path)] == patches

    virtual_time.run(scenario())


@pytest.mark.parametrize("data", [{"hccl.json": ""}, {"mine": "1"}, None])
def test_a_config_map_without_the_expected_key_is_left_alone_and_the_patch_fails(data: dict[str, str] | None) -> None:
    async def scenario() -> None:
        async with world() as w:
            path = "/api/v1/namespaces/ns/configmaps/c"
            w.api.answer("GET", path, {"metadata": {"name": "c", "uid": "u"}, "data": data})
            w.api.answer("PATCH", path, {})
            patch = Patch(CONFIG_MAP, "ns", "c", {"data": {}}, data_key="hccl.json")
            ours = data is not None and "hccl.json" in data

            with nullcontext() if ours else pytest.raises(ApiError, match=NOT_OURS):
                await w.executor.carry_out(patch)

            assert [call.body["metadata"]["uid"] for call in w.api.to("PATCH", path)] == (["u"] if ours else [])

    virtual_time.run(scenario())


def test_an_object_deleted_before_its_owner_is_fetched_counts_as_deleted() -> None:
    async def scenario() -> None:
        async with world() as w:
            await w.executor.carry_out(Delete(CONFIG_MAP, "ns", "c", owner="job"))

    virtual_time.run(scenario())


def test_an_object_that_is_deleted_at_once_is_removed_from_the_store() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.receiver.written(POD_GROUP, PodGroup(metadata=ObjectMeta(name="g", namespace="ns")))
            w.api.answer("DELETE", f"{GROUPS}/g", {"kind": "Status", "status": "Success"})

            await w.executor.carry_out(Delete(POD_GROUP, "ns", "g"))

            assert w.store.get(POD_GROUP, "ns", "g") is None

    virtual_time.run(scenario())


def test_a_pod_that_terminates_is_known_as_terminating() -> None:
    async def scenario() -> None:
        async with world() as w:
            terminating = {
                "metadata": {
                    "name": "p",
                    "namespace": "ns",
                    "resourceVersion": "4",
                    "deletionTimestamp": "2026-01-01T00:00:00Z",
                }
            }
            w.receiver.written(POD, Pod(metadata=ObjectMeta(name="p", namespace="ns", resource_version="3")))
            w.api.answer("DELETE", "/api/v1/namespaces/ns/pods/p", {"kind": "Pod", **terminating})

            await w.executor.carry_out(Delete(POD, "ns", "p"))

            pod = w.store.get(POD, "ns", "p")
            assert pod is not None and pod.metadata.deletion_timestamp

    virtual_time.run(scenario())


def test_the_answer_to_a_deletion_does_not_bring_back_what_the_watch_has_seen_go() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.receiver.written(POD, Pod(metadata=ObjectMeta(name="p", namespace="ns", resource_version="3")))

            async def gone_meanwhile(call: Call, request: web.Request) -> Answer:
                w.receiver.removed(POD, "ns", "p")
                return {"kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "resourceVersion": "9"}}

            w.api.on("DELETE", "/api/v1/namespaces/ns/pods/p", gone_meanwhile)
            await w.executor.carry_out(Delete(POD, "ns", "p"))

            assert w.store.get(POD, "ns", "p") is None

    virtual_time.run(scenario())


def test_a_late_word_of_the_watch_does_not_take_out_the_namesake_we_made_since() -> None:
    async def scenario() -> None:
        async with world() as w:
            sink = InformerSink(w.receiver)
            sink.upsert(POD, Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="old", resource_version="3")))
            w.receiver.removed(POD, "ns", "p", "old")
            w.receiver.written(POD, Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="new", resource_version="8")))

            sink.delete(POD, "ns", "p")

            pod = w.store.get(POD, "ns", "p")
            assert pod is not None and pod.metadata.uid == "new"

    virtual_time.run(scenario())


def test_objects_that_are_only_carried_through_are_written_all_the_same() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.api.answer("POST", "/api/v1/namespaces/ns/configmaps", status=201)
            manifest = {"metadata": {"name": "c", "namespace": "ns"}, "data": {"a": "b"}}

            await w.executor.carry_out(Create(CONFIG_MAP, manifest))

            assert w.api.calls[0].body == manifest

    virtual_time.run(scenario())


# --- reconciliations ------------------------------------------------------------------------------------------------
def test_stages_follow_each_other_and_events_are_recorded() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.api.answer("POST", GROUPS, group("g"), status=201)
            w.api.answer("DELETE", f"{GROUPS}/old", {"kind": "Status"})
            plan = Plan().then(Create(POD_GROUP, group("g"))).then(Delete(POD_GROUP, "ns", "old"), RecordEvent(EVENT))

            w.queue("q", plan)
            await until(lambda: w.controller.finished)

            assert [call.method for call in w.api.calls] == ["POST", "DELETE"]
            assert w.recorded == [EVENT]

    virtual_time.run(scenario())


def test_a_plan_takes_no_more_tasks_than_writes_may_be_in_flight() -> None:
    async def scenario() -> None:
        async with world(writes=3) as w:
            started: list[str] = []

            def start(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
                started.append(coroutine.__qualname__)
                return asyncio.Task(coroutine, loop=loop, **options)

            asyncio.get_running_loop().set_task_factory(start)
            w.api.on("POST", GROUPS, _created)

            w.queue("events", Plan([[RecordEvent(EVENT)], [RecordEvent(EVENT)], [RecordEvent(EVENT)]]))
            await until(lambda: w.controller.finished == ["events"])
            assert len(w.recorded) == 3
            assert "WriteWorkers._work" not in started

            w.queue("q", Plan().then(*(Create(POD_GROUP, group(f"g{i}")) for i in range(50))))
            await until(lambda: w.controller.finished == ["events", "q"])
            assert len(w.api.calls) == 50
            assert [name for name in started if "WriteWorkers" in name or "ReconcileLoop" in name] == [
                "WriteWorkers._work"
            ] * 3

    virtual_time.run(scenario())


def test_a_write_that_comes_as_the_last_worker_ends_is_carried_out() -> None:
    async def scenario() -> None:
        workers = WriteWorkers(1)
        done: list[str] = []

        async def first() -> None:
            done.append("first")
            asyncio.get_running_loop().call_soon(workers.submit, "ns", second, WriteKind.OTHER)

        async def second() -> None:
            done.append("second")

        workers.submit("ns", first, WriteKind.OTHER)
        await until(lambda: done == ["first", "second"])
        await workers.close()

    virtual_time.run(scenario())


def test_a_namespace_with_many_writes_delays_the_write_of_another_by_one() -> None:
    async def scenario() -> None:
        workers = WriteWorkers(1)
        done: list[str] = []

        def write(name: str) -> Callable[[], Awaitable[None]]:
            async def work() -> None:
                done.append(name)

            return work

        for i in range(100):
            workers.submit("busy", write(f"b{i}"), WriteKind.NEW_POD)
        workers.submit("idle", write("x"), WriteKind.NEW_POD)
        await until(lambda: len(done) == 101)
        assert done[:3] == ["b0", "x", "b1"]
        await workers.close()

    virtual_time.run(scenario())


def test_a_deferrable_write_waits_for_urgent_ones_in_flight() -> None:
    async def scenario() -> None:
        workers = WriteWorkers(8)
        done: list[str] = []

        def write(name: str, seconds: float) -> Callable[[], Awaitable[None]]:
            async def work() -> None:
                done.append(name)
                await asyncio.sleep(seconds)

            return work

        workers.submit("ns", write("pod", HOLD / 3), WriteKind.NEW_POD)
        workers.submit("ns", write("group", HOLD / 2), WriteKind.OTHER)
        for i in range(2):
            workers.submit("ns", write(f"status-{i}", 0.01), WriteKind.DEFERRABLE)
        await asyncio.sleep(0.45 * HOLD)
        assert done == ["pod", "group"]
        await asyncio.sleep(0.35 * HOLD)
        assert done == ["pod", "group", "status-0", "status-1"]

        workers.submit("ns", write("long", 10 * HOLD), WriteKind.OTHER)
        workers.submit("ns", write("late", 0.01), WriteKind.DEFERRABLE)
        await asyncio.sleep(0.9 * HOLD)
        assert done[4:] == ["long"]
        await asyncio.sleep(0.2 * HOLD)
        assert done[4:] == ["long", "late"]
        await workers.close()

    virtual_time.run(scenario())


def test_a_write_that_raises_ends_no_worker() -> None:
    async def scenario() -> None:
        workers = WriteWorkers(1)
        done = asyncio.Event()

        async def raises() -> None:
            raise ValueError("odd")

        async def follows() -> None:
            done.set()

        workers.submit("ns", raises, WriteKind.OTHER)
        workers.submit("ns", follows, WriteKind.OTHER)
        await done.wait()
        await workers.close()

    virtual_time.run(asyncio.wait_for(scenario(), 30))


def test_an_urgent_write_follows_a_deferrable_one_of_the_object_that_is_running() -> None:
    async def scenario() -> None:
        async with world(writes=1) as w:
            free = asyncio.Event()
            order: list[str] = []

            async def held(call: Call, request: web.Request) -> Answer:
                order.append(call.body["status"]["state"])
                if len(order) == 1:
                    await free.wait()
                return {"metadata": {"name": "q", "resourceVersion": "9"}}

            w.api.on("PATCH", f"{QUEUES}/q/status", held)

            def patch(state: str, deferrable: bool) -> Patch:
                return Patch(QUEUE, "", "q", {"status": {"state": state}}, subresource="status", deferrable=deferrable)

            w.queue("a", Plan().then(patch("running", True)))
            await until(lambda: order)
            w.queue("b", Plan().then(patch("replaced", True)))
            await until(lambda: "b" in w.controller.finished)
            w.queue("c", Plan().then(patch("urgent", False)))
            await asyncio.sleep(1)
            assert order == ["running"]
            w.queue("d", Plan().then(patch("last", True)))
            free.set()
            await until(lambda: "c" in w.controller.finished and len(order) == 3)
            assert order == ["running", "urgent", "last"]

    virtual_time.run(scenario())


def test_a_stage_after_a_failure_is_left_out_and_the_object_comes_back() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.api.on("POST", GROUPS, _answering(403, "Forbidden", "exceeded quota"))
            plan = Plan().then(Create(POD_GROUP, group("g"))).then(Delete(POD_GROUP, "ns", "old"))

            w.queue("q", plan, Plan())
            await until(lambda: w.controller.finished)

            assert w.controller.failures == [("q", "exceeded quota")]
            assert w.api.to("DELETE", ".*") == []
            assert w.controller.reconciled == ["q", "q"]

    virtual_time.run(scenario())


def test_a_controller_that_raises_stops_no_other() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.queue("bad", ValueError("odd"), ValueError("odd"))
            w.queue("good", Plan())

            await until(lambda: "good" in w.controller.finished)
            await until(lambda: w.controller.reconciled.count("bad") >= 2)

            assert w.metrics.plan_errors.labels("controller")._value.get() >= 2

    virtual_time.run(scenario())


def test_writes_in_flight_are_bounded() -> None:
    async def scenario() -> None:
        async with world(writes=3) as w:
            now = most = 0

            async def slowly(call: Call, request: web.Request) -> Answer:
                nonlocal now, most
                now += 1
                most = max(most, now)
                await asyncio.sleep(0.01)
                now -= 1
                return group(call.body["metadata"]["name"])

            w.api.on("POST", GROUPS, slowly)
            w.queue("q", Plan().then(*(Create(POD_GROUP, group(f"g{i}")) for i in range(20))))
            await until(lambda: w.controller.finished)

            assert most == 3
            assert len(w.api.calls) == 20

    virtual_time.run(scenario())


def test_new_pods_go_before_the_other_writes_except_every_eighth() -> None:
    async def scenario() -> None:
        async with world(writes=1) as w:
            w.api.on("POST", GROUPS, _created)
            w.api.on("POST", PODS, _created)
            pods = (Create(POD, {"metadata": {"name": f"p{i}", "namespace": "ns"}}) for i in range(21))
            w.queue("others", Plan().then(*(Create(POD_GROUP, group(f"g{i}")) for i in range(6))))
            w.queue("pods", Plan().then(*pods))
            await until(lambda: {"others", "pods"} <= set(w.controller.finished))

            order = "".join("p" if call.path == PODS else "g" for call in w.api.calls)
            first_pod = order.index("p")
            assert first_pod <= 2
            assert re.match("p{1,7}gp{7}gp{5}", order[first_pod:])
            assert [call.body["metadata"]["name"] for call in w.api.to("POST", PODS)] == [f"p{i}" for i in range(21)]

    virtual_time.run(scenario())


def test_what_only_informs_waits_for_what_is_urgent() -> None:
    async def scenario() -> None:
        async with world(writes=1) as w:
            w.api.answer("POST", GROUPS, group("g"), status=201)
            w.api.answer("PATCH", f"{QUEUES}/q/status", {"metadata": {"name": "q", "resourceVersion": "9"}})
            informs = Patch(QUEUE, "", "q", {"status": {}}, subresource="status", deferrable=True)
            w.queue("busy", Plan().then(Create(POD_GROUP, group("g0"))))
            w.queue("first", Plan().then(informs))
            w.queue("second", Plan().then(*(Create(POD_GROUP, group(f"g{i}")) for i in range(1, 6))))
            await until(lambda: {"busy", "first", "second"} <= set(w.controller.finished) and len(w.api.calls) == 7)

            assert [call.method for call in w.api.calls] == ["POST"] * 6 + ["PATCH"]

    virtual_time.run(scenario())


def test_what_only_informs_and_is_refused_is_not_written_again_and_again() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.api.on("PATCH", f"{QUEUES}/q/status", _answering(422, "Invalid"))
            informs = Patch(QUEUE, "", "q", {"status": {}}, subresource="status", deferrable=True)
            w.queue("q", *(Plan().then(informs) for _ in range(10)))
            await until(lambda: w.controller.failures)
            w.queue("other")
            await until(lambda: "other" in w.controller.finished)

            assert len(w.api.calls) == 1

    virtual_time.run(scenario())


def test_a_backlog_of_what_only_informs_does_not_hold_up_the_end() -> None:
    async def scenario() -> None:
        async with world(writes=1) as w:

            async def never(call: Call, request: web.Request) -> Answer:
                await asyncio.sleep(60)
                return {}

            w.api.on("PATCH", f"{QUEUES}/.*", never)
            for name in ("a", "b", "c"):
                w.queue(
                    name, Plan().then(Patch(QUEUE, "", name, {"status": {}}, subresource="status", deferrable=True))
                )
            await until(lambda: len(w.controller.finished) == 3)
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

        assert not [task for task in left if "WriteWorkers" in repr(task)]

    virtual_time.run(asyncio.wait_for(scenario(), 30))  # an answer never comes within 60 s


def test_a_standby_reconciles_nothing_and_a_new_leader_everything() -> None:
    async def scenario() -> None:
        async with world(leading=False) as w:
            w.queue("q")
            await asyncio.sleep(0.05)
            assert w.controller.reconciled == []

            w.receiver.lead()
            await until(lambda: w.controller.reconciled == ["q"])

    virtual_time.run(scenario())


def test_a_cancellation_that_coincides_with_a_change_ends_the_loop() -> None:
    async def scenario() -> None:
        async with world() as w:
            reconciling = asyncio.create_task(w.loop.run())
            await asyncio.sleep(0.05)

            w.receiver.changed.set()
            reconciling.cancel()
            await asyncio.wait((reconciling,), timeout=20)

            assert reconciling.cancelled()

    virtual_time.run(scenario())


def test_a_status_that_is_refused_is_tried_again() -> None:
    async def scenario() -> None:
        async with world() as w:
            answers = [(403, "Forbidden"), (403, "Forbidden")]

            async def refuse_twice(call: Call, request: web.Request) -> Answer:
                return refusal(*answers.pop()) if answers else {"metadata": {"name": "q"}}

            w.api.on("PATCH", f"{QUEUES}/.*", refuse_twice)
            plan = Plan().then(Patch(QUEUE, "", "q", {"status": {"running": 1}}, subresource="status"))
            w.queue("q", plan, plan, plan)
            await until(lambda: w.controller.finished)

            assert len(w.api.to("PATCH", f"{QUEUES}/.*")) == 3
            assert len(w.controller.failures) == 2

    virtual_time.run(scenario())


def test_nothing_is_written_once_the_lease_is_lost() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.fence.close()
            w.queue("q", Plan().then(Create(POD_GROUP, group("g"))))
            await until(lambda: w.controller.failures)

            assert w.api.calls == []

    virtual_time.run(scenario())


async def _created(call: Call, request: web.Request) -> Answer:
    return group(call.body["metadata"]["name"])


def _answering(status: int, reason: str, message: str = "no") -> Any:
    async def handler(call: Call, request: web.Request) -> Answer:
        return refusal(status, reason, message)

    return handler


# --- what must not stop the others ------------------------------------------------------------------------------------
def test_an_object_that_failed_is_reconciled_again_soon_although_the_clock_is_set_back_by_an_hour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, back = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() - back[0])

    async def scenario() -> None:
        async with world() as w:
            w.queue("q", RuntimeError("failed"), Plan())
            await until(lambda: w.controller.reconciled == ["q"])
            back[0] = 3600.0
            await until(lambda: w.controller.reconciled == ["q", "q"])

    virtual_time.run(scenario())


def test_a_write_whose_answer_a_controller_cannot_process_is_reported_as_failed_and_retried() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.api.answer("POST", GROUPS, group("g"), status=201)

            def fail(kind: Kind, obj: KubeObject) -> None:
                raise ZeroDivisionError("no total")

            w.receiver.written, written = fail, w.receiver.written  # type: ignore[method-assign]
            w.controller.plans["q"] = [Plan([[Create(POD_GROUP, group("g"))]])]
            written(QUEUE, Queue(metadata=ObjectMeta(name="q", resource_version="1")))

            await until(lambda: len(w.controller.reconciled) == 2)

            assert w.controller.failures == [("q", "ZeroDivisionError: no total")]
            assert w.controller.finished == ["q"]

    virtual_time.run(scenario())


def test_an_answer_that_is_no_json_fails_the_write_and_not_the_controllers() -> None:
    async def scenario() -> None:
        async with world() as w:

            async def handler(call: Call, request: web.Request) -> Answer:
                return web.Response(text="<html>")

            w.api.on("DELETE", f"{GROUPS}/g", handler)
            w.queue("q", Plan([[Delete(POD_GROUP, "ns", "g", "")]]))

            await until(lambda: len(w.controller.reconciled) == 2)

            assert len(w.controller.failures) == 1

    virtual_time.run(scenario())


def test_a_loop_with_no_end_of_work_is_not_taken_for_stuck() -> None:
    async def scenario() -> None:
        async with world() as w:
            turned = w.progress
            for i in range(1000):
                w.receiver.written(QUEUE, Queue(metadata=ObjectMeta(name=f"q{i}", resource_version="1")))
            await until(lambda: len(w.controller.reconciled) == 1000)
            assert w.progress - turned > 10

    virtual_time.run(scenario())


def test_an_object_that_a_controller_cannot_take_does_not_stop_the_list() -> None:
    async def scenario() -> None:
        async with world() as w:

            def observe(kind: Kind, old: KubeObject | None, new: KubeObject | None, now: float) -> list[Key]:
                if new is not None and new.metadata.name == "poison":
                    raise ZeroDivisionError("no total")
                return []

            w.controller.observe = observe  # type: ignore[method-assign]
            items = [{"metadata": {"name": name, "resourceVersion": "1"}} for name in ("poison", "sound")]
            w.api.answer("GET", QUEUES, {"items": items})
            reported: list[Malformed] = []
            handlers = Handlers(
                [QUEUE],
                w.client,
                cast("Credentials", StaticCredentials(w.api.url)),
                w.receiver,
                lambda problem, _: reported.append(problem),
            )

            await handlers._list(QUEUE)
            await handlers._list(QUEUE)

            assert [(problem.name, problem.field) for problem in reported] == [("poison", "metadata")]
            assert w.store.get(QUEUE, "", "sound") is not None

    virtual_time.run(scenario())


@pytest.mark.slow
def test_kopf_runs_under_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 65532")

    async def scenario() -> None:
        async with world() as w:
            credentials = cast("Credentials", StaticCredentials(w.api.url))
            handlers = Handlers([QUEUE], w.client, credentials, w.receiver, lambda *_: None)
            stop = threading.Event()
            asyncio.get_running_loop().call_later(1.0, stop.set)

            await asyncio.to_thread(handlers._run_kopf, asyncio.get_running_loop(), stop)

    monkeypatch.setattr("getpass.getuser", nameless)
    with capture_logs() as logs:
        asyncio.run(scenario())
    assert logs == []
