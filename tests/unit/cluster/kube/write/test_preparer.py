"""Bindings that wait for other objects: the writes before them, their time, and the gang of a Pod whose preparation
fails."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar, cast

import msgspec
from aiohttp import web

from scheduler.api.decisions import Bind, Decisions, Evict
from scheduler.api.kinds import CLAIM, Kind
from scheduler.api.objects import KubeObject
from scheduler.api.preparation import Fail, Preparation, PreparationPatch, Step, Wait
from scheduler.api.storage import PersistentVolumeClaim
from scheduler.cache import ClusterCache
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.fence import Fence
from scheduler.cluster.kube.write.events import EventRecorder
from scheduler.cluster.kube.write.lanes import Urgency, make_lanes
from scheduler.cluster.kube.write.object_writers import WriteContext
from scheduler.cluster.kube.write.signing_key import SharedKey
from scheduler.cluster.kube.write.writer import Writer
from scheduler.observability.metrics import Metrics
from tests.unit import virtual_time
from tests.unit.cluster.kube.fake_api import PODS, Answer, Call, FakeApi, a_task, refusal, serving, until

CLAIMS = "/api/v1/namespaces/ns/persistentvolumeclaims"
BINDING = f"{PODS}/[^/]+/binding"
EVENTS = "/api/v1/namespaces/[^/]+/events"
MARK = "example.com/wanted"


class Marked(Preparation, frozen=True, kw_only=True):
    """A claim is marked, and bound by somebody in the end."""

    def step(self, found: KubeObject | None, now: float) -> Step:
        if not isinstance(found, PersistentVolumeClaim):
            return Fail(f"claim {self.name} not found")
        if MARK not in (found.metadata.annotations or {}):
            return PreparationPatch({"metadata": {"annotations": {MARK: "yes"}}})
        return None if found.status.phase == "Bound" else Wait(f"claim {self.name} to be bound")

    def follow_up(self, found: KubeObject | None, now: float) -> Step:
        step = self.step(found, now)
        return Fail("the mark is missing") if isinstance(step, PreparationPatch) else step

    def undo(self, found: KubeObject, now: float) -> PreparationPatch | None:
        return (
            PreparationPatch({"metadata": {"annotations": {MARK: None}}})
            if MARK in (found.metadata.annotations or {})
            else None
        )


class Locked(Preparation, frozen=True, kw_only=True):
    """A claim is marked right before the binding; no other program has to answer."""

    at_binding: ClassVar[bool] = True

    def step(self, found: KubeObject | None, now: float) -> Step:
        marked = found is not None and MARK in (found.metadata.annotations or {})
        return None if marked else PreparationPatch({"metadata": {"annotations": {MARK: "yes"}}})

    def undo(self, found: KubeObject, now: float) -> PreparationPatch | None:
        return PreparationPatch({"metadata": {"annotations": {MARK: None}}})


def marked(name: str, timeout: float = 5.0) -> Marked:
    return Marked(kind=CLAIM, namespace="ns", name=name, timeout=timeout)


def locked(name: str) -> Locked:
    return Locked(kind=CLAIM, namespace="ns", name=name, timeout=5.0)


class World:
    """A writer, claims on a server, and the cache's view of them."""

    def __init__(self, api: FakeApi, client: ApiClient) -> None:
        self.api = api
        self.fence = Fence()
        self.fence.open_forever()
        self.lanes = make_lanes(8)
        self.metrics = Metrics()
        self.recorder = EventRecorder(client, self.lanes, self.metrics, self.fence, "volcano-py", interval=0.2)
        self.failed: list[str] = []
        self.gone: set[str] = set()
        self.claims: dict[str, dict[str, Any]] = {}
        self.kept: dict[str, KubeObject] | None = None
        """The content of the cache; None: it does not keep claims."""
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
        api.answer("POST", BINDING, status=201)
        api.answer("PATCH", f"{PODS}/[^/]+/status")
        api.on("GET", f"{CLAIMS}/[^/]+", self._get)
        api.on("PATCH", f"{CLAIMS}/[^/]+", self._patch)

    # --- the server ---
    def claim(self, name: str) -> None:
        self.claims[name] = {
            "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": "1"},
            "status": {"phase": "Pending"},
        }

    def touch(self, name: str, phase: str = "Pending") -> None:
        """Changes a claim as another client."""
        claim = self.claims[name]
        claim["metadata"]["resourceVersion"] = str(int(claim["metadata"]["resourceVersion"]) + 1)
        claim["status"]["phase"] = phase
        if self.kept is not None:
            self.kept[name] = self._decoded(name)

    def marks(self) -> set[str]:
        return {name for name, claim in self.claims.items() if MARK in (claim["metadata"].get("annotations") or {})}

    async def _get(self, call: Call, request: web.Request) -> Answer:
        return self.claims.get(call.path.rpartition("/")[2]) or refusal(404, "NotFound", "not found")

    async def _patch(self, call: Call, request: web.Request) -> Answer:
        name = call.path.rpartition("/")[2]
        meta, wanted = self.claims[name]["metadata"], call.body["metadata"]
        if wanted["resourceVersion"] != meta["resourceVersion"] or wanted["uid"] != meta["uid"]:
            return refusal(409, "Conflict", "the object has been modified")
        meta["annotations"] = {
            key: value
            for key, value in {**(meta.get("annotations") or {}), **wanted["annotations"]}.items()
            if value is not None
        }
        meta["resourceVersion"] = str(int(meta["resourceVersion"]) + 1)
        return self.claims[name]

    def _decoded(self, name: str) -> KubeObject:
        return msgspec.convert(json.loads(json.dumps(self.claims[name])), PersistentVolumeClaim)

    # --- the cache ---
    def keep(self) -> None:
        self.kept = {name: self._decoded(name) for name in self.claims}

    def stores(self, kind: Kind) -> bool:
        return self.kept is not None

    def find(self, kind: Kind, namespace: str, name: str) -> KubeObject | None:
        assert self.kept is not None
        return self.kept.get(name)

    def confirm(self, kind: Kind, obj: KubeObject) -> None:
        """An older version never replaces a newer one."""
        if self.kept is None:
            return
        before, version = self.kept.get(obj.metadata.name), int(obj.metadata.resource_version)
        if before is None or int(before.metadata.resource_version) < version:
            self.kept[obj.metadata.name] = obj

    def is_binding(self, bind: Bind) -> bool:
        return bind.task.name not in self.gone

    def bind_failed(self, bind: Bind) -> None:
        self.failed.append(bind.task.name)

    def evict_failed(self, eviction: Evict) -> None:
        raise AssertionError("nothing is evicted")

    # --- what happens ---
    def submit(self, *binds: tuple[str, tuple[Preparation, ...]]) -> None:
        """Submits bindings that succeed or fail together."""
        self.writer.submit(Decisions(binds=[Bind(a_task(name), "n1", {}, made, 1) for name, made in binds]))

    @property
    def bound(self) -> set[str]:
        return {call.path.split("/")[-2] for call in self.api.to("POST", BINDING)}

    def conditions(self) -> dict[str, tuple[str, str]]:
        """Maps each Pod to the reason and message of its condition."""
        found = {}
        for call in self.api.to("PATCH", f"{PODS}/[^/]+/status"):
            condition = call.body["status"]["conditions"][0]
            found[call.path.split("/")[-2]] = (condition["reason"], condition["message"])
        return found


@asynccontextmanager
async def preparing() -> AsyncIterator[World]:
    async with serving() as (api, client):
        world = World(api, client)
        try:
            yield world
        finally:
            await world.writer.close()
            await world.lanes.close()


def run(scenario: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        async with preparing() as world:
            await scenario(world)

    virtual_time.run(main())


def test_a_pod_is_bound_only_when_what_it_waits_for_has_come_about() -> None:
    async def scenario(world: World) -> None:
        world.claim("c")
        world.submit(("p", (marked("c"),)))
        await until(lambda: world.marks() == {"c"})
        await asyncio.sleep(0.2)
        assert not world.bound
        world.touch("c", "Bound")
        await until(lambda: world.bound == {"p"})
        assert not world.failed

    run(scenario)


def test_preparations_and_bindings_are_measured_as_stages() -> None:
    async def scenario(world: World) -> None:
        world.claim("c")
        world.claim("d")
        world.submit(("p", (marked("c"),)), ("q", (locked("d"),)))
        world.writer.submit(Decisions(binds=[Bind(a_task("plain"), "n1", {})]))
        world.touch("c", "Bound")
        await until(lambda: world.bound == {"p", "q", "plain"})
        await world.lanes.drain((Urgency.BINDING,), 5.0)
        value = world.metrics.registry.get_sample_value
        name = "volcano_scheduling_stage_duration_milliseconds_count"
        assert value(name, {"stage": "PreBind"}) == 2
        assert value(name, {"stage": "Bind"}) == 3

    run(scenario)


def test_no_pod_of_a_gang_is_bound_while_one_still_waits() -> None:
    async def scenario(world: World) -> None:
        for name in ("c1", "c2"):
            world.claim(name)
        world.submit(("p1", (marked("c1"),)), ("p2", (marked("c2"),)), ("p3", ()))
        await until(lambda: world.marks() == {"c1", "c2"})
        world.touch("c1", "Bound")
        await asyncio.sleep(0.3)
        assert not world.bound
        world.touch("c2", "Bound")
        await until(lambda: world.bound == {"p1", "p2", "p3"})

    run(scenario)


def test_a_gang_of_which_one_waits_too_long_is_given_up_and_its_writes_are_undone() -> None:
    async def scenario(world: World) -> None:
        for name in ("c1", "c2"):
            world.claim(name)
        world.submit(("p1", (marked("c1"),)), ("p2", (marked("c2", timeout=0.2),)))
        await until(lambda: world.marks() == {"c1", "c2"})
        world.touch("c1", "Bound")
        await until(lambda: sorted(world.failed) == ["p1", "p2"])
        assert not world.bound
        assert not world.marks()
        await until(lambda: len(world.conditions()) == 2)
        why = "timed out after 0.2 s waiting for claim c2 to be bound"
        assert world.conditions() == {
            "p1": (
                "SchedulerError",
                f"execute preBind for pod ns/p1 failed: pod ns/p2 of its gang: {why}, resync the task",
            ),
            "p2": ("SchedulerError", f"execute preBind for pod ns/p2 failed: {why}, resync the task"),
        }
        await until(lambda: world.api.to("POST", EVENTS))
        (event,) = (call.body for call in world.api.to("POST", EVENTS))
        assert (event["reason"], event["involvedObject"]["name"]) == ("FailedScheduling", "p2")

    run(scenario)


def test_a_write_taken_back_by_others_ends_the_waiting_at_once() -> None:
    async def scenario(world: World) -> None:
        world.claim("c")
        world.submit(("p", (marked("c", timeout=600),)))
        await until(lambda: world.marks() == {"c"})
        world.claims["c"]["metadata"]["annotations"] = {}
        world.touch("c")
        await until(lambda: world.failed == ["p"])
        assert not world.bound

    run(scenario)


def test_an_object_that_changed_meanwhile_is_read_again() -> None:
    async def scenario(world: World) -> None:
        world.claim("c")
        world.keep()
        world.claims["c"]["metadata"]["resourceVersion"] = "7"  # the cache has not heard of it
        world.submit(("p", (marked("c"),)))
        await until(lambda: world.marks() == {"c"})
        first, second = world.api.to("PATCH", f"{CLAIMS}/c")
        assert [call.body["metadata"]["resourceVersion"] for call in (first, second)] == ["1", "7"]
        world.touch("c", "Bound")
        await until(lambda: world.bound == {"p"})

    run(scenario)


def test_waiting_for_an_object_that_the_cache_keeps_asks_the_server_nothing() -> None:
    async def scenario(world: World) -> None:
        world.claim("c")
        world.keep()
        world.submit(("p", (marked("c"),)))
        await until(lambda: world.marks() == {"c"})
        await asyncio.sleep(0.3)
        world.touch("c", "Bound")
        await until(lambda: world.bound == {"p"})
        assert [call.method for call in world.api.calls if call.path.startswith(CLAIMS)] == ["PATCH"]

    run(scenario)


def test_a_lost_answer_is_resolved_by_reading_the_object() -> None:
    async def scenario(world: World) -> None:
        world.claim("c")

        async def patch(call: Call, request: web.Request) -> Answer:
            answer = await world._patch(call, request)
            assert request.transport is not None
            request.transport.close()
            return answer

        world.api.on("PATCH", f"{CLAIMS}/c", patch)
        world.submit(("p", (marked("c"),)))
        await until(lambda: len(world.api.to("GET", f"{CLAIMS}/c")) >= 2)
        assert len(world.api.to("PATCH", f"{CLAIMS}/c")) == 1
        world.touch("c", "Bound")
        await until(lambda: world.bound == {"p"})

    run(scenario)


def test_a_write_that_is_refused_for_good_ends_the_waiting() -> None:
    async def scenario(world: World) -> None:
        world.claim("c")
        world.api.answer("PATCH", f"{CLAIMS}/c", {"reason": "Forbidden", "message": "a policy says no"}, 403)
        world.submit(("p", (marked("c"),)))
        await until(lambda: "p" in world.conditions())
        assert "a policy says no" in world.conditions()["p"][1]
        assert world.failed == ["p"]

    run(scenario)


def test_what_several_pods_share_is_written_once() -> None:
    async def scenario(world: World) -> None:
        world.claim("c")
        shared = (marked("c"),)
        world.submit(*((f"p{i}", shared) for i in range(10)))
        await until(lambda: world.marks() == {"c"})
        world.touch("c", "Bound")
        await until(lambda: len(world.bound) == 10)
        assert len(world.api.to("PATCH", f"{CLAIMS}/c")) == 1

    run(scenario)


def test_a_deleted_pod_is_no_longer_waited_for_and_not_reported() -> None:
    async def scenario(world: World) -> None:
        world.claim("c")
        world.submit(("p", (marked("c", timeout=600),)))
        await until(lambda: world.marks() == {"c"})
        world.gone.add("p")
        await until(lambda: world.failed == ["p"])
        assert not world.marks()
        assert not world.conditions()

    run(scenario)


def test_a_lock_is_taken_when_the_rest_of_the_gang_was_waited_for() -> None:
    async def scenario(world: World) -> None:
        for name in ("c", "lock"):
            world.claim(name)
        world.submit(("p", (locked("lock"), marked("c"))))
        await until(lambda: world.marks() == {"c"})
        world.touch("c", "Bound")
        await until(lambda: world.bound == {"p"})
        assert world.marks() == {"c", "lock"}

    run(scenario)


def test_a_binding_that_fails_gives_its_lock_back_before_its_place() -> None:
    async def scenario(world: World) -> None:
        world.claim("lock")
        world.api.answer("POST", BINDING, {"reason": "Conflict", "message": "already assigned"}, 409)
        world.submit(("p", (locked("lock"),)))
        await until(lambda: world.failed == ["p"])
        assert len(world.api.to("PATCH", f"{CLAIMS}/lock")) == 2
        assert not world.marks()

    run(scenario)


def test_a_lock_that_cannot_be_had_costs_that_pod_alone_its_place() -> None:
    async def scenario(world: World) -> None:
        world.claim("lock")
        world.submit(("p1", (locked("missing"),)), ("p2", (locked("lock"),)))
        await until(lambda: world.bound == {"p2"} and world.failed == ["p1"])

    run(scenario)


def test_a_preparation_that_raises_is_reported_and_blocks_nothing() -> None:
    class Broken(Preparation, frozen=True, kw_only=True):
        def step(self, found: KubeObject | None, now: float) -> Step:
            raise ZeroDivisionError("by a plugin")

    async def scenario(world: World) -> None:
        world.claim("c")
        world.submit(("p", (Broken(kind=CLAIM, namespace="ns", name="c", timeout=5.0),)))
        await until(lambda: "p" in world.conditions())
        assert "ZeroDivisionError: by a plugin" in world.conditions()["p"][1]
        assert world.failed == ["p"]

    run(scenario)


def test_after_the_lease_nothing_is_written_and_nothing_bound() -> None:
    async def scenario(world: World) -> None:
        world.claim("c")
        world.fence.close()
        world.submit(("p", (marked("c"),)))
        await until(lambda: world.failed == ["p"])
        assert not world.api.calls

    run(scenario)


def test_one_preparation_may_lead_to_the_next() -> None:
    class Leading(Marked, frozen=True, kw_only=True):
        def step(self, found: KubeObject | None, now: float) -> Step:
            return super().step(found, now) or marked("second")

    async def scenario(world: World) -> None:
        for name in ("first", "second"):
            world.claim(name)
        world.submit(("p", (Leading(kind=CLAIM, namespace="ns", name="first", timeout=5.0),)))
        await until(lambda: world.marks() == {"first"})
        world.touch("first", "Bound")
        await until(lambda: world.marks() == {"first", "second"})
        assert not world.bound
        world.touch("second", "Bound")
        await until(lambda: world.bound == {"p"})

    run(scenario)


def test_waiting_for_hours_does_not_stop_the_scheduler_from_deciding() -> None:
    async def scenario(world: World) -> None:
        world.claim("c")
        world.keep()
        for number in range(40):
            world.submit((f"p{number}", (marked("c", timeout=600),)))
        await until(lambda: world.marks() == {"c"})
        await asyncio.sleep(0.1)
        assert await world.writer.flush(30)
        assert not world.writer.overloaded

    run(scenario)
