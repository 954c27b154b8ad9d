"""Bindings with preparations on the cluster in memory."""

from typing import Any, ClassVar

from scheduler.api.decisions import Bind, Decisions
from scheduler.api.kinds import CONFIG_MAP
from scheduler.api.objects import ConfigMap, KubeObject
from scheduler.api.preparation import Fail, Preparation, PreparationPatch, Step, Wait
from tests.builders import Raw, World, group, node, pod


class FillConfigMap(Preparation, frozen=True, kw_only=True):
    """Requests data in a ConfigMap, and waits until another party sets it."""

    def step(self, found: KubeObject | None, now: float) -> Step:
        data = found.data or {} if isinstance(found, ConfigMap) else None
        if data is None:
            return Fail(f"{self} not found")
        if "asked" not in data:
            return PreparationPatch({"data": {"asked": "yes"}})
        return None if "filled" in data else Wait(f"{self} to be filled")

    def undo(self, found: KubeObject, now: float) -> PreparationPatch | None:
        return PreparationPatch({"data": {"asked": None}})


class FillAtBinding(FillConfigMap, frozen=True, kw_only=True):
    at_binding: ClassVar[bool] = True


def config_map(name: str) -> Raw:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {}}


def world_with_config_maps(*names: str) -> World:
    pods = [pod(f"p{i}", "1c", "g") for i in range(2)]
    return World(node("n1"), group("g"), pods, [config_map(name) for name in names])


def bind(world: World, *preparations: tuple[Preparation, ...]) -> None:
    """Binds p0, p1 ... together, each with its preparations."""
    cache = world.cluster.cache
    decisions = Decisions()
    for i, made in enumerate(preparations):
        task = cache.task(f"default/p{i}")
        assert task is not None
        decisions.binds.append(Bind(task, "n1", {}, made, 1))
    cache.assume(decisions)
    world.cluster.carry_out(decisions, [])


def fill(world: World, name: str) -> None:
    """Sets the data of a ConfigMap, and runs the preparations again."""
    world.cluster.server.patch(CONFIG_MAP, "default", name, {"data": {"filled": "yes"}})
    world.cluster.carry_out(Decisions(), [])


def data(world: World, name: str) -> dict[str, Any]:
    return dict(world.get("ConfigMap", name)["data"])


def nodes(world: World) -> list[str | None]:
    return [world.get("Pod", f"p{i}")["spec"].get("nodeName") for i in range(2)]


def fill_preparation(name: str, kind: type[FillConfigMap] = FillConfigMap, timeout: float = 10.0) -> FillConfigMap:
    return kind(kind=CONFIG_MAP, namespace="default", name=name, timeout=timeout)


def test_a_gang_is_bound_when_all_its_preparations_are_complete() -> None:
    world = world_with_config_maps("a", "b")
    bind(world, (fill_preparation("a"),), (fill_preparation("b"),))
    assert data(world, "a") == {"asked": "yes"}
    fill(world, "a")
    assert nodes(world) == [None, None]
    fill(world, "b")
    assert nodes(world) == ["n1", "n1"]


def test_preparations_at_binding_start_when_the_others_are_complete() -> None:
    world = world_with_config_maps("a", "lock")
    bind(world, (fill_preparation("lock", FillAtBinding), fill_preparation("a")), ())
    assert data(world, "lock") == {}
    fill(world, "a")
    assert nodes(world) == [None, "n1"]
    fill(world, "lock")
    assert nodes(world) == ["n1", "n1"]


def test_a_gang_that_times_out_undoes_its_preparations() -> None:
    world = world_with_config_maps("a", "b")
    bind(world, (fill_preparation("a"),), (fill_preparation("b", timeout=2.0),))
    for _ in range(2):
        world.cluster.tick()
    world.cluster.carry_out(Decisions(), [])

    assert nodes(world) == [None, None]
    assert data(world, "a") == data(world, "b") == {}
    (event,) = world.events("FailedScheduling")
    why = "timed out after 2 s waiting for ConfigMap default/b to be filled"
    assert event == f"execute preBind for pod default/p1 failed: {why}, resync the task"
    assert not world.cluster.cache.snapshot(0).preparing


def test_a_deleted_pod_fails_the_preparation_of_its_gang() -> None:
    world = world_with_config_maps("a", "b")
    bind(world, (fill_preparation("a"),), (fill_preparation("b"),))
    world.cluster.server.remove(("/Pod", "default", "p0"))
    fill(world, "b")

    assert world.get("Pod", "p1")["spec"].get("nodeName") is None
    assert "p1" not in {bind.task.name for bind in world.cluster.cache.snapshot(0).preparing}


def test_a_missing_object_fails_the_preparation() -> None:
    world = world_with_config_maps()
    bind(world, (fill_preparation("missing"),), ())

    assert nodes(world) == [None, None]
    assert "ConfigMap default/missing not found" in world.events("FailedScheduling")[0]
