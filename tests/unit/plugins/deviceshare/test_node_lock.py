"""The node lock: acquired before a binding, waited for, replaced after expiry, and released if the binding fails."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduler.api.names import GPU_MEMORY, HAMI_NODE_LOCK, VGPU_NODE_LOCK
from scheduler.api.objects import Node, ObjectMeta
from scheduler.api.preparation import Fail, PreparationPatch, Wait
from scheduler.framework.cycle import run_cycle
from scheduler.plugins.deviceshare.node_lock import NodeLock, lock_for, locked
from tests.builders import World, feed
from tests.unit.plugins.deviceshare.devices import (
    annotated,
    gpu_node,
    jobs,
    limited,
    npu_node,
    sharing,
    vgpu_node,
    vgpu_pods,
    vgpus,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LOCKED = sharing(VGPUEnable=True, NodeLockEnable=True)


def node(value: str | None) -> Node:
    return Node(metadata=ObjectMeta(name="n", annotations={} if value is None else {VGPU_NODE_LOCK: value}))


def at(seconds: float) -> str:
    return (NOW + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def written(step: Any) -> str | None:
    assert isinstance(step, PreparationPatch)
    value: str | None = step.body["metadata"]["annotations"][VGPU_NODE_LOCK]
    return value


@pytest.fixture
def lock() -> NodeLock:
    return lock_for("n", VGPU_NODE_LOCK, "uid-1")


@pytest.mark.parametrize("held", [None, at(-301), "rubbish"])
def test_a_free_lock_is_acquired_with_the_time(lock: NodeLock, held: str | None) -> None:
    value = written(lock.step(node(held), NOW.timestamp()))
    assert value is not None and value.startswith("2026-01-01T00:00:00.") and value.endswith("Z")
    assert datetime.fromisoformat(value) - NOW < timedelta(seconds=1)


def test_an_own_lock_is_not_written_again(lock: NodeLock) -> None:
    value = written(lock.step(node(None), NOW.timestamp()))
    assert lock.step(node(value), NOW.timestamp() + 1) is None
    assert lock.follow_up(node(value), NOW.timestamp() + 1) is None


@pytest.mark.parametrize("held", [at(-1), at(-299), at(3600), f"{at(-1)},default,pod"])
def test_a_lock_of_another_owner_is_waited_for(lock: NodeLock, held: str) -> None:
    step = lock.step(node(held), NOW.timestamp())
    assert isinstance(step, Wait) and "lock hamivgpu of node n" in step.what


def test_the_lock_of_another_pod_is_not_an_own_lock(lock: NodeLock) -> None:
    value = written(lock_for("n", VGPU_NODE_LOCK, "uid-2").step(node(None), NOW.timestamp()))
    assert isinstance(lock.step(node(value), NOW.timestamp()), Wait)
    assert lock.undo(node(value), NOW.timestamp()) is None


def test_undo_removes_the_own_lock_and_no_other(lock: NodeLock) -> None:
    value = written(lock.step(node(None), NOW.timestamp()))
    assert written(lock.undo(node(value), NOW.timestamp())) is None
    assert lock.undo(node(None), NOW.timestamp()) is None


def test_locking_a_deleted_node_fails(lock: NodeLock) -> None:
    assert isinstance(lock.step(None, NOW.timestamp()), Fail)


def test_a_lock_holds_for_five_minutes() -> None:
    assert locked(at(-300), NOW.timestamp()) and not locked(at(-301), NOW.timestamp())


# --- whole cycles ---
def test_pods_that_get_devices_lock_their_node_and_others_do_not() -> None:
    world = World(vgpu_node("n"), jobs(*vgpu_pods(1, 1, 100, 1), limited("plain", {"cpu": 1}))).run(LOCKED)
    (lock,) = [p for bind in world.decisions.binds for p in bind.preparations]
    assert isinstance(lock, NodeLock)
    assert (lock.name, lock.annotation) == ("n", "hamivgpu")
    assert "hamivgpu" in world.get("Node", "n")["metadata"]["annotations"]


def test_two_pods_of_a_gang_on_one_node_are_bound_one_after_the_other() -> None:
    world = World(vgpu_node("n"), jobs(*vgpu_pods(2, 1, 100, 1), minimum=2)).run(LOCKED)
    assert len(vgpus(world)) == 2
    on = [bool(world.get("Pod", f"p-{i}")["spec"].get("nodeName")) for i in range(2)]
    assert on == [True, False]
    world.run(LOCKED, 2, kubelet=True)
    assert all(world.get("Pod", f"p-{i}")["spec"].get("nodeName") == "n" for i in range(2))


def test_an_unlocked_node_is_chosen_over_a_locked_one() -> None:
    world = World(vgpu_node("a"), vgpu_node("b"), jobs(*vgpu_pods(1, 1, 100, 1)))
    stamp = datetime.fromtimestamp(world.cluster.now - 10, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    feed(world.cluster.cache, annotated(vgpu_node("a"), {VGPU_NODE_LOCK: stamp}))
    assert world.run(LOCKED).bound == {"p-0": "b"}


def test_if_all_nodes_are_locked_the_fit_error_names_the_lock() -> None:
    world = World(jobs(*vgpu_pods(1, 1, 100, 1)))
    stamp = datetime.fromtimestamp(world.cluster.now - 10, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    feed(world.cluster.cache, annotated(vgpu_node("n", 1), {VGPU_NODE_LOCK: stamp}))
    world.run(LOCKED)
    assert world.bound == {}
    assert "can possibly be assigned to n, once resource is released" in world.message_of("p-0")
    view = world.outcome.session.view(  # type: ignore[union-attr]
        world.decisions.pods[0].tasks[0].cls,
        world.outcome.session.jobs["default/job"],  # type: ignore[union-attr]
    )
    errors = view.fit_errors(world.outcome.session.dimensions.names)  # type: ignore[union-attr]
    assert "node(s) were locked by hamivgpu while a Pod is given its devices" in errors.reasons


def test_the_next_session_skips_a_node_whose_lock_is_not_written_yet() -> None:
    world = World(vgpu_node("a"), vgpu_node("b"), jobs(*vgpu_pods(1, 1, 100, 1)))
    outcome = run_cycle(world.session(LOCKED).snapshot, LOCKED)
    world.cluster.cache.assume(outcome.decisions)
    feed(world.cluster.cache, *jobs(*vgpu_pods(1, 1, 100, 1, name="q"), name="next"))
    assert world.run(LOCKED).bound == {"q-0": "b"}


@pytest.mark.parametrize(
    ("raw", "asked", "settings", "annotation"),
    [
        (gpu_node("n", 1, 8000), {GPU_MEMORY: 1000}, {"GPUSharingEnable": True}, "gpu"),
        (npu_node("n"), {"huawei.com/Ascend310P": 1}, {"AscendHAMiVNPUEnable": True}, HAMI_NODE_LOCK),
    ],
)
def test_each_device_plugin_has_a_lock_of_its_own(
    raw: dict[str, Any], asked: dict[str, int | str], settings: dict[str, Any], annotation: str
) -> None:
    world = World(raw, jobs(limited("p", asked))).run(sharing(NodeLockEnable=True, **settings))
    assert annotation in world.get("Node", "n")["metadata"]["annotations"]


def test_without_the_argument_nothing_is_locked() -> None:
    world = World(vgpu_node("n"), jobs(*vgpu_pods(1, 1, 100, 1))).run(sharing(VGPUEnable=True))
    assert all(not bind.preparations for bind in world.decisions.binds)
