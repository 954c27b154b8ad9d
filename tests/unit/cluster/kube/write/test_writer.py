"""Decisions carried out: the requests, their number and order, and the behaviour when an answer is lost or
malformed."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from aiohttp import web
from msgspec import structs
from msgspec.structs import replace

from scheduler.api.decisions import (
    Bind,
    Decisions,
    EventRecord,
    Evict,
    ObjectRef,
    PodGroupStatusUpdate,
    PodsUnschedulable,
    QueueAllocated,
    Ungate,
)
from scheduler.api.kinds import Kind
from scheduler.api.names import ADMISSION_RECORD, BINDING_RECORD, GROUP_NAME, PREDICATE_TIME
from scheduler.api.objects import KubeObject
from scheduler.api.signed_records import (
    AdmissionRecord,
    BindingRecord,
    SigningKey,
    read_admission_record,
    read_binding_record,
)
from scheduler.cache import ClusterCache
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.fence import Fence, clock
from scheduler.cluster.kube.write import object_writers
from scheduler.cluster.kube.write.events import EventRecorder
from scheduler.cluster.kube.write.lanes import HOLD, make_lanes
from scheduler.cluster.kube.write.object_writers import WriteContext
from scheduler.cluster.kube.write.signing_key import SharedKey
from scheduler.cluster.kube.write.writer import Writer
from scheduler.observability.metrics import Metrics
from tests.unit import virtual_time
from tests.unit.cluster.kube.fake_api import PODS, Answer, Call, FakeApi, Handler, a_task, refusal, serving, until

EVENTS = "/api/v1/namespaces/[^/]+/events"
BINDING = f"{PODS}/[^/]+/binding"
GROUP = "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups/[^/]+"
QUEUE_STATUS = "/apis/scheduling.volcano.sh/v1beta1/queues/[^/]+/status"


class World:
    def __init__(self, api: FakeApi, client: ApiClient, workers: int) -> None:
        self.api = api
        self.fence = Fence()
        self.fence.open_forever()
        self.lanes = make_lanes(workers)
        self.metrics = Metrics()
        self.recorder = EventRecorder(client, self.lanes, self.metrics, self.fence, "volcano-py", interval=0.2)
        self.failed: list[Bind] = []
        self.not_evicted: list[Evict] = []
        self.signing = SharedKey(client, "ns", "")
        self.writer = Writer(
            WriteContext(
                client=client,
                fence=self.fence,
                lanes=self.lanes,
                cache=cast(ClusterCache, self),
                recorder=self.recorder,
                metrics=self.metrics,
                signing=self.signing,
                scheduler_name="volcano-py",
            )
        )
        api.answer("POST", EVENTS, status=201)
        api.answer("PATCH", f"{EVENTS}/.*")

    def bind_failed(self, bind: Bind) -> None:
        self.failed.append(bind)

    def evict_failed(self, eviction: Evict) -> None:
        self.not_evicted.append(eviction)

    def stores(self, kind: Kind) -> bool:
        return False

    def find(self, kind: Kind, namespace: str, name: str) -> KubeObject | None:
        raise AssertionError("nothing is kept")

    def confirm(self, kind: Kind, obj: KubeObject) -> None:
        pass

    def is_binding(self, bind: Bind) -> bool:
        return True

    def bind(self, name: str = "p", node: str = "n1", **annotations: str) -> Bind:
        return Bind(a_task(name), node, annotations)

    def reasons(self) -> list[str]:
        return [call.body["reason"] for call in self.api.to("POST", EVENTS)]


@asynccontextmanager
async def writing(workers: int = 64, timeout: float = 30.0) -> AsyncIterator[World]:
    async with serving(timeout=timeout) as (api, client):
        world = World(api, client, workers)
        try:
            yield world
        finally:
            await world.lanes.close()


def run(scenario: Callable[[World], Awaitable[None]], workers: int = 64, timeout: float = 30.0) -> None:
    """``timeout``: the seconds that the client waits for an answer."""

    async def main() -> None:
        async with writing(workers, timeout) as world:
            await scenario(world)

    virtual_time.run(main())


# --- bindings ---
def test_pods_of_a_node_with_predicate_times_are_bound_in_this_order() -> None:
    async def scenario(world: World) -> None:
        bound: list[str] = []

        async def answer(call: Call, request: web.Request) -> Answer:
            name = call.path.split("/")[-2]
            await asyncio.sleep(3 - int(name[1:]))  # later ones would finish first
            bound.append(name)
            return None

        world.api.on("POST", BINDING, answer)
        binds = [world.bind(f"p{i}", **{PREDICATE_TIME: str(100 + i)}) for i in range(3)]
        world.writer.submit(Decisions(binds=[binds[0], binds[2], binds[1]]))
        assert await world.writer.flush(60)
        assert bound == ["p0", "p1", "p2"]

    run(scenario)


def test_one_request_binds_and_annotates_and_then_an_event_reports_it() -> None:
    async def scenario(world: World) -> None:
        world.api.answer("POST", BINDING, status=201)
        world.writer.submit(Decisions(binds=[world.bind(chips="0,1")]))
        assert await world.writer.flush(30)
        (call,) = world.api.to("POST", BINDING)
        assert call.body["metadata"] == {
            "name": "p",
            "namespace": "ns",
            "uid": "uid-p",
            "annotations": {"chips": "0,1"},
        }
        assert call.body["target"]["name"] == "n1"
        await until(lambda: world.api.to("POST", EVENTS))
        event = world.api.to("POST", EVENTS)[0].body
        assert event["message"] == "Successfully assigned ns/p to n1"
        assert (event["reason"], event["type"], event["reportingComponent"]) == ("Scheduled", "Normal", "volcano-py")
        assert not world.failed

    run(scenario)


def test_a_binding_with_a_record_carries_it_signed() -> None:
    async def scenario(world: World) -> None:
        world.api.answer("POST", BINDING, status=201)
        record = BindingRecord("n1", "q", {"chips": "0,1"})
        world.writer.submit(Decisions(binds=[structs.replace(world.bind(chips="0,1"), record=record)]))
        assert await world.writer.flush(2)
        (call,) = world.api.to("POST", BINDING)
        annotations = call.body["metadata"]["annotations"]
        assert annotations.keys() == {"chips", BINDING_RECORD}
        assert read_binding_record(annotations[BINDING_RECORD], "uid-p", world.signing.key) == record

    run(scenario)


def test_the_binding_of_a_plain_pod_carries_the_name_of_its_pod_group() -> None:
    async def scenario(world: World) -> None:
        world.api.answer("POST", BINDING, status=201)
        bind = world.bind(chips="0,1")
        plain = structs.replace(bind.task, job="ns/podgroup-uid-p")
        world.writer.submit(Decisions(binds=[structs.replace(bind, task=plain)]))
        assert await world.writer.flush(2)
        (call,) = world.api.to("POST", BINDING)
        assert call.body["metadata"]["annotations"] == {GROUP_NAME: "podgroup-uid-p", "chips": "0,1"}

    run(scenario)


def test_a_lost_answer_followed_by_already_assigned_is_a_success_if_the_pod_is_as_decided() -> None:
    async def scenario(world: World) -> None:
        async def binding(call: Call, request: web.Request) -> Answer:
            if len(world.api.to("POST", BINDING)) == 1:
                assert request.transport is not None
                request.transport.close()  # bound, but the answer is lost
            return refusal(409, "Conflict", 'pod p is already assigned to node "n1"')

        world.api.on("POST", BINDING, binding)
        metadata = {"name": "p", "namespace": "ns", "uid": "uid-p", "annotations": {"chips": "0,1"}}
        world.api.answer("GET", f"{PODS}/p", {"metadata": metadata, "spec": {"nodeName": "n1"}})
        world.writer.submit(Decisions(binds=[world.bind(chips="0,1")]))
        assert await world.writer.flush(30)
        assert len(world.api.to("POST", BINDING)) == 2
        assert not world.failed
        await until(lambda: world.reasons() == ["Scheduled"])

    run(scenario)


def test_a_lost_answer_with_the_pod_on_another_node_gives_the_place_back() -> None:
    async def scenario(world: World) -> None:
        async def binding(call: Call, request: web.Request) -> Answer:
            if len(world.api.to("POST", BINDING)) == 1:
                await asyncio.sleep(1)  # longer than the client waits
            return refusal(409, "Conflict", 'pod p is already assigned to node "n2"')

        world.api.on("POST", BINDING, binding)
        world.api.answer("GET", f"{PODS}/p", {"metadata": {"uid": "uid-p"}, "spec": {"nodeName": "n2"}})
        world.writer.submit(Decisions(binds=[world.bind()]))
        assert await world.writer.flush(30)
        assert [bind.node for bind in world.failed] == ["n1"]

    run(scenario, timeout=0.5)


def test_a_conflict_without_a_lost_answer_is_not_tried_again() -> None:
    async def scenario(world: World) -> None:
        world.api.answer("POST", BINDING, {"reason": "Conflict", "message": "already assigned"}, 409)
        world.writer.submit(Decisions(binds=[world.bind()]))
        assert await world.writer.flush(30)
        assert len(world.api.to("POST", BINDING)) == 1
        assert len(world.failed) == 1

    run(scenario)


def test_too_many_requests_is_tried_again_no_sooner_than_the_server_asks() -> None:
    async def scenario(world: World) -> None:
        async def binding(call: Call, request: web.Request) -> Answer:
            if len(world.api.to("POST", BINDING)) == 1:
                return refusal(429, "TooManyRequests", "slow down", Retry_After="1")
            return web.json_response({}, status=201)

        world.api.on("POST", BINDING, binding)
        world.writer.submit(Decisions(binds=[world.bind()]))
        assert await world.writer.flush(30)
        first, second = world.api.to("POST", BINDING)
        assert second.at - first.at >= 1.0
        assert not world.failed

    run(scenario)


def test_a_binding_refused_for_good_is_explained_on_the_pod() -> None:
    async def scenario(world: World) -> None:
        world.api.answer("POST", BINDING, {"reason": "Forbidden", "message": "a policy says no"}, 403)
        world.api.answer("PATCH", f"{PODS}/p/status")
        world.writer.submit(Decisions(binds=[world.bind()]))
        assert await world.writer.flush(30)
        assert len(world.failed) == 1
        condition = world.api.to("PATCH", f"{PODS}/p/status")[0].body["status"]["conditions"][0]
        assert condition["reason"] == "SchedulerError"
        assert "failed to bind to node n1" in condition["message"]
        await until(lambda: world.reasons() == ["FailedScheduling"])

    run(scenario)


def test_a_retry_in_waiting_holds_up_no_other_binding() -> None:
    async def scenario(world: World) -> None:
        async def binding(call: Call, request: web.Request) -> Answer:
            if "/stuck/" in call.path:
                return refusal(429, "TooManyRequests", "later", Retry_After="30")
            return web.json_response({}, status=201)

        world.api.on("POST", BINDING, binding)
        world.writer.submit(Decisions(binds=[world.bind("stuck"), *(world.bind(f"p{i}") for i in range(20))]))
        await until(lambda: len(world.api.to("POST", BINDING)) == 21, timeout=20)

    run(scenario, workers=1)


def test_after_the_lease_no_binding_leaves() -> None:
    async def scenario(world: World) -> None:
        async def binding(call: Call, request: web.Request) -> Answer:
            if len(world.api.to("POST", BINDING)) == 3:
                world.fence.extend(clock(), clock() + 60)
            return web.json_response({}, status=201)

        world.api.on("POST", BINDING, binding)
        world.fence.extend(clock() + 60, clock() + 60)
        world.writer.submit(Decisions(binds=[world.bind(f"p{i}") for i in range(30)]))
        assert await world.writer.flush(30)
        assert len(world.api.to("POST", BINDING)) == 3
        assert len(world.failed) == 27

    run(scenario, workers=1)


def test_a_flood_of_events_does_not_delay_a_binding() -> None:
    async def scenario(world: World) -> None:
        async def slow(call: Call, request: web.Request) -> Answer:
            await asyncio.sleep(0.05)
            return web.json_response({}, status=201)

        world.api.on("POST", EVENTS, slow)
        world.api.answer("POST", BINDING, status=201)
        about = ObjectRef("v1", "Pod", "ns", "x")
        events = [EventRecord(about, "Warning", "Noise", f"message m{i}") for i in range(3000)]
        world.writer.submit(Decisions(events=events))
        await until(lambda: len(world.api.to("POST", EVENTS)) >= 8)
        world.writer.submit(Decisions(binds=[world.bind(f"p{i}") for i in range(50)]))
        await until(lambda: len(world.api.to("POST", BINDING)) == 50)
        assert len(world.api.to("POST", EVENTS)) < 1500

    run(scenario)


def test_while_a_binding_is_in_flight_fewer_events_are() -> None:
    async def scenario(world: World) -> None:
        bound, posted = asyncio.Event(), asyncio.Event()

        async def binding(call: Call, request: web.Request) -> Answer:
            await bound.wait()
            return {}

        async def event(call: Call, request: web.Request) -> Answer:
            await posted.wait()
            return {}

        world.api.on("POST", BINDING, binding)
        world.api.on("POST", EVENTS, event)
        about = ObjectRef("v1", "Pod", "ns", "x")
        events = [EventRecord(about, "Warning", "Noise", f"message m{i}") for i in range(100)]
        world.writer.submit(Decisions(binds=[world.bind()]))
        await until(lambda: world.api.to("POST", BINDING))
        world.writer.submit(Decisions(events=events))
        await asyncio.sleep(1)
        assert len(world.api.to("POST", EVENTS)) == 4
        bound.set()
        await asyncio.sleep(1)
        assert len(world.api.to("POST", EVENTS)) == 8
        posted.set()
        await until(lambda: len(world.api.to("POST", EVENTS)) == 101)

    run(scenario)


def test_a_full_queue_of_events_drops_and_counts_instead_of_growing() -> None:
    async def scenario(world: World) -> None:
        about = ObjectRef("v1", "Pod", "ns", "x")
        for i in range(20_100):
            world.recorder.record(EventRecord(about, "Warning", "Noise", f"message m{i}"))
        assert world.metrics.registry.get_sample_value("volcano_py_dropped_events_total") == 100

    run(scenario)


# --- evictions ---
def test_an_eviction_explains_itself_then_deletes_that_very_pod() -> None:
    async def scenario(world: World) -> None:
        world.api.answer("PATCH", f"{PODS}/p/status")
        world.api.answer("DELETE", f"{PODS}/p")
        world.writer.submit(Decisions(evictions=[Evict(a_task(), "preempt")]))
        assert await world.writer.flush(30)
        patch, delete = world.api.calls[:2]
        assert (patch.method, delete.method) == ("PATCH", "DELETE")
        conditions = {c["type"]: c for c in patch.body["status"]["conditions"]}
        assert conditions["Ready"]["message"] == "Pod is evicted, because of preempt"
        assert conditions["DisruptionTarget"]["reason"] == "PreemptionByScheduler"
        assert patch.headers["Content-Type"] == "application/strategic-merge-patch+json"
        assert delete.body["preconditions"] == {"uid": "uid-p"}
        await until(lambda: len(world.reasons()) == 2)
        about = [call.body["involvedObject"]["kind"] for call in world.api.to("POST", EVENTS)]
        assert about == ["Pod", "PodGroup"]

    run(scenario)


def test_a_pod_that_leaves_at_once_is_deleted_without_conditions() -> None:
    async def scenario(world: World) -> None:
        world.api.answer("DELETE", f"{PODS}/p")
        task = a_task()
        task.leaves_at_once = True
        world.writer.submit(Decisions(evictions=[Evict(task, "preempt")]))
        assert await world.writer.flush(30)
        await until(lambda: world.reasons() == ["Evict", "Evict"])
        assert [call.method for call in world.api.calls] == ["DELETE", "POST", "POST"]

    run(scenario)


def test_a_gate_is_taken_off_that_very_pod_and_others_are_left() -> None:
    async def scenario(world: World) -> None:
        world.api.answer("PATCH", f"{PODS}/p")
        world.writer.submit(Decisions(ungates=[Ungate(a_task("p"))]))
        assert await world.writer.flush(30)
        (call,) = world.api.to("PATCH", f"{PODS}/p")
        gone = {"$patch": "delete", "name": "scheduling.volcano.sh/queue-allocation-gate"}
        assert call.body == {"metadata": {"uid": "uid-p"}, "spec": {"schedulingGates": [gone]}}

    run(scenario)


def test_an_eviction_refused_is_reported_to_the_cache() -> None:
    async def scenario(world: World) -> None:
        world.api.answer("DELETE", f"{PODS}/p", {"message": "no"}, 403)
        world.writer.submit(Decisions(evictions=[Evict(a_task(), "preempt")]))
        assert await world.writer.flush(30)
        assert len(world.not_evicted) == 1

    run(scenario)


@pytest.mark.parametrize(
    "message, reported",
    [("the object has been modified", 1), ("Precondition failed: UID in precondition: u, UID in object meta: v", 0)],
)
def test_an_eviction_that_meets_a_conflict_is_decided_again_unless_a_namesake_has_come(
    message: str, reported: int
) -> None:
    async def scenario(world: World) -> None:
        world.api.answer("DELETE", f"{PODS}/p", {"reason": "Conflict", "message": message}, 409)
        world.writer.submit(Decisions(evictions=[Evict(a_task(), "preempt")]))
        assert await world.writer.flush(30)
        assert len(world.not_evicted) == reported

    run(scenario)


# --- status ---
@pytest.mark.parametrize(
    "message, attempts",
    [("the object has been modified", 2), ("Precondition failed: UID in precondition: u, UID in object meta: v", 1)],
)
def test_an_admission_that_meets_a_conflict_is_written_again_unless_a_namesake_has_come(
    message: str, attempts: int
) -> None:
    async def scenario(world: World) -> None:
        left = [message]

        async def answer(call: Call, request: web.Request) -> Answer:
            return refusal(409, "Conflict", left.pop()) if left else {}

        world.api.on("PATCH", GROUP, answer)
        world.writer.submit(Decisions(pod_groups=[group_status("Inqueue")]))
        assert await world.writer.flush(30)
        assert len(world.api.to("PATCH", GROUP)) == attempts

    run(scenario)


def group_status(phase: str, running: int = 0) -> PodGroupStatusUpdate:
    return PodGroupStatusUpdate("ns", "g", "uid-g", phase, (), running, 0, 0)


def test_of_several_statuses_of_one_object_only_the_newest_is_sent_after_the_one_in_flight() -> None:
    async def scenario(world: World) -> None:
        async def slow(call: Call, request: web.Request) -> Answer:
            await asyncio.sleep(0.1)
            return {}

        world.api.on("PATCH", GROUP, slow)
        world.writer.submit(Decisions(pod_groups=[group_status("Pending")]))
        await until(lambda: world.api.to("PATCH", GROUP))
        for running in range(1, 6):
            world.writer.submit(Decisions(pod_groups=[group_status("Running", running)]))
        assert await world.writer.flush(30)
        assert [c.body["status"]["running"] for c in world.api.to("PATCH", GROUP)] == [None, 5]
        assert world.api.to("PATCH", GROUP)[0].body["metadata"] == {"uid": "uid-g"}

    run(scenario)


def test_an_admission_carries_its_record_where_the_key_is_shared_and_the_record_goes_with_it() -> None:
    async def scenario(world: World) -> None:
        world.api.answer("PATCH", GROUP)
        record = AdmissionRecord("default", 2, {"cpu": "4"})
        admits = replace(group_status("Inqueue"), admits=True, admission=record)
        for update, created in (
            (admits, math.inf),
            (admits, 1000.0),
            (replace(group_status("Running", 1), removes_record=True), 1000.0),
        ):
            world.signing.key = SigningKey(b"k" * 32, created)
            world.writer.submit(Decisions(pod_groups=[update]))
            assert await world.writer.flush(2)
        alone, shared, gone = (call.body["metadata"] for call in world.api.to("PATCH", GROUP))
        assert "annotations" not in alone
        assert read_admission_record(shared["annotations"][ADMISSION_RECORD], "uid-g", world.signing.key) == record
        assert gone["annotations"] == {ADMISSION_RECORD: None}

    run(scenario)


def test_a_status_is_tried_again_until_the_server_is_back() -> None:
    async def scenario(world: World) -> None:
        async def handler(call: Call, request: web.Request) -> Answer:
            return refusal(503, "ServiceUnavailable") if len(world.api.to("PATCH", GROUP)) < 3 else {}

        world.api.on("PATCH", GROUP, handler)
        world.writer.submit(Decisions(pod_groups=[group_status("Inqueue")]))
        assert await world.writer.flush(30)
        assert len(world.api.to("PATCH", GROUP)) == 3

    run(scenario)


def test_what_a_queue_no_longer_holds_does_not_remain_in_its_status() -> None:
    async def scenario(world: World) -> None:
        world.api.answer("PATCH", QUEUE_STATUS)
        world.writer.submit(Decisions(queues=[QueueAllocated("q", {"cpu": "1"})]))
        assert await world.writer.flush(30)
        (call,) = world.api.to("PATCH", QUEUE_STATUS)
        assert call.headers["Content-Type"] == "application/json-patch+json"
        assert call.body == [
            {"op": "add", "path": "/status/allocated", "value": {"cpu": "1"}},
            {"op": "add", "path": "/status/reservation", "value": {}},
        ]

    run(scenario)


def test_the_cards_of_a_queue_are_written_also_as_a_text_for_kubectl() -> None:
    async def scenario(world: World) -> None:
        world.api.answer("PATCH", QUEUE_STATUS)
        cards = {"NVIDIA-H200": {"quota": "3", "used": "3", "inqueue": "0", "requested": "5"}}
        world.writer.submit(Decisions(queues=[QueueAllocated("q", {}, cards)]))
        assert await world.writer.flush(30)
        written = {each["path"]: each["value"] for each in world.api.to("PATCH", QUEUE_STATUS)[0].body}
        assert written["/status/cards"] == cards
        assert written["/status/cardSummary"] == "NVIDIA-H200=3/3 (5 requested)"

    run(scenario)


@pytest.mark.parametrize("held, expected", [({"cards": {}}, [{"cards": {}}]), ({}, [None]), (None, [])])
def test_what_counts_in_no_queue_is_written_where_there_is_or_was_any(
    held: dict[str, Any] | None, expected: list[Any]
) -> None:
    async def scenario(world: World) -> None:
        world.api.answer("PATCH", QUEUE_STATUS)
        world.writer.submit(Decisions(queues=[QueueAllocated("q", {}, without_queue=held)]))
        assert await world.writer.flush(30)
        (call,) = world.api.to("PATCH", QUEUE_STATUS)
        assert [each["value"] for each in call.body if each["path"] == "/status/withoutQueue"] == expected

    run(scenario)


@pytest.mark.parametrize("deserved, expected", [({"cpu": "4"}, [{"cpu": "4"}]), ({}, [{}]), (None, [])])
def test_what_a_queue_deserves_is_written_when_it_changes(deserved: dict[str, str] | None, expected: list[Any]) -> None:
    async def scenario(world: World) -> None:
        world.api.answer("PATCH", QUEUE_STATUS)
        world.writer.submit(Decisions(queues=[QueueAllocated("q", {}, deserved=deserved)]))
        assert await world.writer.flush(30)
        (call,) = world.api.to("PATCH", QUEUE_STATUS)
        assert [each["value"] for each in call.body if each["path"] == "/status/deserved"] == expected

    run(scenario)


def test_a_queue_without_any_status_gets_one() -> None:
    async def scenario(world: World) -> None:
        async def handler(call: Call, request: web.Request) -> Answer:
            return refusal(422, "Invalid") if isinstance(call.body, list) else {}

        world.api.on("PATCH", QUEUE_STATUS, handler)
        world.writer.submit(Decisions(queues=[QueueAllocated("q", {"cpu": "1"})]))
        assert await world.writer.flush(30)
        assert world.api.to("PATCH", QUEUE_STATUS)[1].body == {"status": {"allocated": {"cpu": "1"}, "reservation": {}}}

    run(scenario)


def test_a_condition_keeps_its_transition_time_when_only_its_message_changes() -> None:
    async def scenario(world: World) -> None:
        world.api.answer("PATCH", f"{PODS}/[^/]+/status")
        new, old = a_task("new"), a_task("old", message="waited before")
        world.writer.submit(Decisions(pods=[PodsUnschedulable((new, old), "Unschedulable", "no room", "n9", False)]))
        assert await world.writer.flush(30)
        bodies = {c.path.split("/")[-2]: c.body["status"] for c in world.api.to("PATCH", f"{PODS}/[^/]+/status")}
        assert "lastTransitionTime" in bodies["new"]["conditions"][0]
        assert "lastTransitionTime" not in bodies["old"]["conditions"][0]
        assert bodies["old"]["nominatedNodeName"] == "n9"

    run(scenario)


def test_the_admission_of_a_job_does_not_wait_behind_bindings() -> None:
    async def scenario(world: World) -> None:
        open_ = asyncio.Event()

        async def held(call: Call, request: web.Request) -> Answer:
            await open_.wait()
            return {}

        world.api.on("POST", BINDING, held)
        world.api.answer("PATCH", GROUP)
        admitted = replace(group_status("Inqueue"), admits=True)
        world.writer.submit(Decisions(binds=[world.bind("p")], pod_groups=[admitted]))
        await until(lambda: world.api.to("PATCH", GROUP))
        open_.set()

    run(scenario)


def test_the_admission_of_a_pod_group_waits_for_the_binding_of_its_pod_in_the_same_session() -> None:
    async def scenario(world: World) -> None:
        admitted_before: list[int] = []

        async def slow(call: Call, request: web.Request) -> Answer:
            await asyncio.sleep(HOLD / 2)
            admitted_before.append(len(world.api.to("PATCH", GROUP)))
            return {}

        world.api.on("POST", BINDING, slow)
        world.api.answer("PATCH", GROUP)
        task = a_task()
        task.job = "ns/g"
        admitted = replace(group_status("Running", 1), admits=True)
        world.writer.submit(Decisions(binds=[Bind(task, "n1", {})], pod_groups=[admitted]))
        await until(lambda: world.api.to("PATCH", GROUP))
        assert admitted_before == [0]

    run(scenario)


def test_an_older_status_of_another_class_is_not_written_after_the_newer() -> None:
    async def scenario(world: World) -> None:
        async def slow(call: Call, request: web.Request) -> Answer:
            await asyncio.sleep(0.05)
            return {}

        world.api.on("PATCH", GROUP, slow)
        world.writer.submit(Decisions(pod_groups=[group_status("Pending")]))
        world.writer.submit(Decisions(pod_groups=[replace(group_status("Inqueue"), admits=True)]))
        await until(lambda: world.api.to("PATCH", GROUP))
        world.writer.submit(Decisions(pod_groups=[group_status("Running", 1)]))
        world.writer.submit(Decisions(pod_groups=[group_status("Running", 2)]))
        assert await world.writer.flush(30)
        statuses = [call.body["status"] for call in world.api.to("PATCH", GROUP)]
        assert [(s["phase"], s["running"]) for s in statuses] == [("Inqueue", None), ("Running", 2)]

    run(scenario)


def test_why_a_pod_waits_is_not_written_any_more_once_its_binding_is_decided() -> None:
    async def scenario(world: World) -> None:
        free = asyncio.Event()

        async def held(call: Call, request: web.Request) -> Answer:
            await free.wait()
            return {}

        world.api.on("POST", BINDING, held)
        world.api.answer("PATCH", f"{PODS}/[^/]+/status")
        world.writer.submit(Decisions(binds=[world.bind("first")]))
        await until(lambda: world.api.to("POST", BINDING))
        waits = [PodsUnschedulable([a_task("p"), a_task("q")], "Unschedulable", "waits", "n1", False)]
        world.writer.submit(Decisions(binds=[world.bind("second")], pods=waits))
        world.writer.submit(Decisions(binds=[world.bind("p")]))
        free.set()
        assert await world.writer.flush(30)
        assert [c.path.split("/")[-2] for c in world.api.to("PATCH", f"{PODS}/[^/]+/status")] == ["q"]
        assert len(world.api.to("POST", BINDING)) == 3

    run(scenario, workers=1)


def test_a_status_in_flight_is_followed_by_no_newer_one_once_the_binding_is_decided() -> None:
    async def scenario(world: World) -> None:
        free = asyncio.Event()

        async def held(call: Call, request: web.Request) -> Answer:
            await free.wait()
            return {}

        world.api.answer("POST", BINDING, status=201)
        world.api.on("PATCH", f"{PODS}/[^/]+/status", held)
        for message in ("waits", "waits for another reason"):
            world.writer.submit(Decisions(pods=[PodsUnschedulable([a_task("p")], "Unschedulable", message)]))
            await until(lambda: world.api.to("PATCH", f"{PODS}/[^/]+/status"))
        world.writer.submit(Decisions(binds=[world.bind("p")]))
        free.set()
        assert await world.writer.flush(30)
        assert len(world.api.to("PATCH", f"{PODS}/[^/]+/status")) == len(world.api.to("POST", BINDING)) == 1

    run(scenario)


def test_a_status_that_is_refused_is_counted_by_kind() -> None:
    async def scenario(world: World) -> None:
        async def refuse(call: Call, request: web.Request) -> Answer:
            return refusal(403, "Forbidden")

        for path in (f"{PODS}/[^/]+/status", QUEUE_STATUS, GROUP):
            world.api.on("PATCH", path, refuse)
        world.writer.submit(
            Decisions(
                pods=[PodsUnschedulable([a_task()], "Unschedulable", "no room")],
                queues=[QueueAllocated("q", {})],
                pod_groups=[PodGroupStatusUpdate("ns", "g", "uid-g", "Pending", (), 0, 0, 0)],
            )
        )
        assert not await world.writer.flush(2), "they will be tried again"
        value = world.metrics.registry.get_sample_value
        for kind in ("Pod", "PodGroup", "Queue"):
            assert value("volcano_py_status_write_failures_total", {"kind": kind}) == 1

    run(scenario)


def test_a_status_that_is_refused_is_tried_again_until_the_refusal_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_writers, "REFUSED_FIRST", 0.05)

    async def scenario(world: World) -> None:
        refusals = {"Pod": 403, "Queue": 403, "PodGroup": 400}  # of the authorizer, and of a webhook

        def refused_twice(status: int) -> Handler:
            left = [status, status]

            async def answer(call: Call, request: web.Request) -> Answer:
                return refusal(left.pop(), "Forbidden", "admission webhook denied the request") if left else {}

            return answer

        paths = {"Pod": f"{PODS}/[^/]+/status", "Queue": QUEUE_STATUS, "PodGroup": GROUP}
        for kind, path in paths.items():
            world.api.on("PATCH", path, refused_twice(refusals[kind]))
        world.writer.submit(
            Decisions(
                pods=[PodsUnschedulable([a_task()], "Unschedulable", "no room")],
                queues=[QueueAllocated("q", {})],
                pod_groups=[PodGroupStatusUpdate("ns", "g", "uid-g", "Pending", (), 0, 0, 0)],
            )
        )
        assert await world.writer.flush(30)
        for path in paths.values():
            assert len(world.api.to("PATCH", path)) == 3

    run(scenario)


def test_a_stop_does_not_wait_for_a_status_that_is_refused() -> None:
    async def scenario(world: World) -> None:
        world.api.answer("PATCH", QUEUE_STATUS, status=403)
        world.writer.submit(Decisions(queues=[QueueAllocated("q", {})]))
        async with asyncio.timeout(8):
            assert not await world.writer.flush(10)

    run(scenario)


# --- who goes first ---
def test_a_binding_goes_before_evictions_that_wait_and_these_before_the_admission_of_jobs() -> None:
    async def scenario(world: World) -> None:
        free = asyncio.Event()

        async def held(call: Call, request: web.Request) -> Answer:
            await free.wait()
            return {}

        for method, path in (("PATCH", f"{PODS}/[^/]+/status"), ("DELETE", f"{PODS}/[^/]+"), ("POST", BINDING)):
            world.api.on(method, path, held)
        world.api.on("PATCH", GROUP, held)
        busy = [Evict(a_task(name), "preempt") for name in ("v1", "v2", "v3")]
        admitted = replace(group_status("Inqueue"), admits=True)
        world.writer.submit(Decisions(evictions=busy, pod_groups=[admitted]))
        await until(lambda: world.api.calls)
        world.writer.submit(Decisions(binds=[world.bind("p")]))
        await until(lambda: len(world.api.calls) == 2)
        free.set()
        assert await world.writer.flush(30)
        called = [call.path.split("/")[-1] for call in world.api.calls if "/events" not in call.path]
        assert called.index("binding") < called.index("v1") < called.index("v2") < called.index("g")

    run(scenario, workers=1)
