"""Objects of plugins: written onto the version that was read, retried, and given up on a conflict."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import structlog
from aiohttp import web

from scheduler.api.decisions import Decisions, Evict, ObjectRef, ObjectWrite
from scheduler.api.kinds import CONFIG_MAP, POD
from scheduler.api.objects import KubeObject
from scheduler.cluster.kube.write import object_writers
from tests.unit.cluster.kube.fake_api import PODS, Answer, Call, a_task, refusal, until
from tests.unit.cluster.kube.write.test_writer import World, writing

MAPS = "/api/v1/namespaces/ns/configmaps"
DATA = {"data": {"k": "v"}}


def run(scenario: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        async with writing() as world:
            await scenario(world)

    asyncio.run(main())


def write(**fields: object) -> Decisions:
    return Decisions(writes=[ObjectWrite(CONFIG_MAP, "ns", "state", DATA, **fields)])  # type: ignore[arg-type]


def test_a_write_names_the_version_that_it_was_decided_from() -> None:
    async def scenario(world: World) -> None:
        world.api.answer("PATCH", f"{MAPS}/state", {"metadata": {"name": "state"}})
        world.writer.submit(write(resource_version="7"))
        assert await world.writer.flush(5)
        (call,) = world.api.to("PATCH", f"{MAPS}/state")
        assert call.body == {**DATA, "metadata": {"name": "state", "namespace": "ns", "resourceVersion": "7"}}

    run(scenario)


def test_a_new_object_is_created() -> None:
    async def scenario(world: World) -> None:
        world.api.answer("POST", MAPS, {"metadata": {"name": "state"}}, 201)
        world.writer.submit(write(new=True))
        assert await world.writer.flush(5)
        (call,) = world.api.to("POST", MAPS)
        metadata = {"name": "state", "namespace": "ns"}
        assert call.body == {"apiVersion": "v1", "kind": "ConfigMap", **DATA, "metadata": metadata}

    run(scenario)


def test_an_annotation_is_written_onto_that_very_pod() -> None:
    async def scenario(world: World) -> None:
        world.api.answer("PATCH", f"{PODS}/p")
        body = {"metadata": {"annotations": {"a": "b"}}}
        world.writer.submit(Decisions(writes=[ObjectWrite(POD, "ns", "p", body, uid="u")]))
        assert await world.writer.flush(5)
        (call,) = world.api.to("PATCH", f"{PODS}/p")
        assert call.body["metadata"] == {"annotations": {"a": "b"}, "name": "p", "namespace": "ns", "uid": "u"}

    run(scenario)


def test_the_cache_has_the_answer_before_the_watch() -> None:
    async def scenario(world: World) -> None:
        confirmed: list[KubeObject] = []
        world.stores = lambda kind: True  # type: ignore[method-assign]
        world.confirm = lambda kind, obj: confirmed.append(obj)  # type: ignore[method-assign]
        world.api.answer("PATCH", f"{MAPS}/state", {"metadata": {"name": "state", "resourceVersion": "8"}, **DATA})
        world.writer.submit(write(resource_version="7"))
        assert await world.writer.flush(5)
        assert [obj.metadata.resource_version for obj in confirmed] == ["8"]

    run(scenario)


@pytest.mark.parametrize("status, new", [(409, False), (404, False), (409, True)])
def test_a_write_onto_another_version_is_dropped_and_the_next_one_is_sent(status: int, new: bool) -> None:
    async def scenario(world: World) -> None:
        method, path = ("POST", MAPS) if new else ("PATCH", f"{MAPS}/state")
        world.api.answer(method, path, {"reason": "Conflict", "message": "changed"}, status)
        for _ in range(2):
            world.writer.submit(write(new=new, resource_version="" if new else "7"))
            assert await world.writer.flush(5)
        assert len(world.api.to(method, path)) == 2

    run(scenario)


@pytest.mark.parametrize(
    ("status", "message"), [(403, "configmaps is forbidden"), (404, 'namespaces "volcano-system" not found')]
)
def test_the_owners_of_the_jobs_concerned_are_warned_of_a_refused_write(status: int, message: str) -> None:
    """As without ``scheduler.rescheduling`` of the chart, or without the namespace of the state."""

    async def scenario(world: World) -> None:
        async def refused(call: Call, request: web.Request) -> Answer:
            return web.json_response({"reason": "Forbidden", "message": message, "code": status}, status=status)

        world.api.on("POST", MAPS, refused)
        about = ObjectRef("scheduling.volcano.sh/v1beta1", "PodGroup", "ns", "train", "uid-train")
        world.writer.submit(write(new=True, about=(about,), consequence="the job does not restart after faults"))
        events = "/api/v1/namespaces/ns/events"
        await until(lambda: world.api.to("POST", events))
        (event,) = world.api.to("POST", events)
        assert event.body["involvedObject"]["name"] == "train" and event.body["type"] == "Warning"
        assert event.body["reason"] == "RefusedWrite"
        assert event.body["message"] == (
            f"the job does not restart after faults: ConfigMap ns/state could not be written: {message}"
        )

    run(scenario)


def test_a_refused_write_is_not_sent_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_writers, "OBJECT_REFUSED_FIRST", 0.4)

    async def scenario(world: World) -> None:
        world.api.answer("PATCH", f"{MAPS}/state", {"reason": "Forbidden", "message": "no right"}, 403)
        for _ in range(3):
            world.writer.submit(write(resource_version="7"))
            assert await world.writer.flush(5)
        assert len(world.api.to("PATCH", f"{MAPS}/state")) == 1
        await asyncio.sleep(0.5)
        world.writer.submit(write(resource_version="7"))
        assert await world.writer.flush(5)
        assert len(world.api.to("PATCH", f"{MAPS}/state")) == 2

    run(scenario)


@pytest.mark.parametrize("optional", [False, True])
def test_the_refusal_of_a_write_that_needs_no_right_is_no_error(optional: bool) -> None:
    async def scenario(world: World) -> None:
        world.api.answer("PATCH", f"{MAPS}/state", {"reason": "Forbidden", "message": "no right"}, 403)
        with structlog.testing.capture_logs() as logs:
            world.writer.submit(write(optional=optional))
            assert await world.writer.flush(5)
        assert [entry["log_level"] for entry in logs] == ["info" if optional else "error"]

    run(scenario)


def test_a_temporary_failure_is_tried_again() -> None:
    async def scenario(world: World) -> None:
        async def failing_once(call: Call, request: web.Request) -> Answer:
            if len(world.api.to("PATCH", f"{MAPS}/state")) == 1:
                return refusal(503, "ServiceUnavailable", "later")
            return {"metadata": {"name": "state"}}

        world.api.on("PATCH", f"{MAPS}/state", failing_once)
        world.writer.submit(write(resource_version="7"))
        await until(lambda: len(world.api.to("PATCH", f"{MAPS}/state")) == 2)

    run(scenario)


def test_a_pod_without_grace_period_is_deleted_in_one_request() -> None:
    async def scenario(world: World) -> None:
        world.api.answer("DELETE", f"{PODS}/p")
        world.writer.submit(Decisions(evictions=[Evict(a_task("p"), "fault", 0)]))
        assert await world.writer.flush(5)
        (call,) = world.api.to("DELETE", f"{PODS}/p")
        assert call.body["gracePeriodSeconds"] == 0
        assert call.body["preconditions"] == {"uid": "uid-p"}
        assert not world.api.to("PATCH", f"{PODS}/p/status")

    run(scenario)
