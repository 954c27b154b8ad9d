"""NPUs shared through HAMi's device plugin in complete sessions."""

import json

import pytest

from scheduler.api.names import VNPU_MODE
from tests.builders import Raw, World, node
from tests.unit.plugins.deviceshare.devices import (
    ASCEND,
    HAMI,
    HELD_NPUS,
    annotated,
    config_map,
    given,
    jobs,
    limited,
    npu_node,
    npus,
    sharing,
)

SOFT = {VNPU_MODE: "hami-core"}
NODE_SOFT = {"hami-vnpu-core": "true"}
RUNTIME = "huawei.com/Ascend310P"


def asks(number: int = 1, memory: int = 0, cores: int = 0) -> dict[str, int | str]:
    limits: dict[str, int | str] = {ASCEND: number}
    if memory:
        limits[f"{ASCEND}-memory"] = memory
    if cores:
        limits[f"{ASCEND}-core"] = cores
    return limits


def pods(number: int, *asked: int, name: str = "p", **rest: object) -> list[Raw]:
    return [limited(f"{name}-{i}", asks(*asked), **rest) for i in range(number)]  # type: ignore[arg-type]


def holder(held: str, *memory: int, on: str = "n") -> Raw:
    """A running Pod that holds these NPUs; ``memory``: the requests of its containers."""
    return limited("old", *(asks(1, amount) for amount in memory), on=on, annotations={HELD_NPUS: held})


def test_memory_is_rounded_up_to_the_next_template() -> None:
    world = World(npu_node("n", 1), jobs(*pods(4, 1, 4096))).run(HAMI)
    assert npus(world) == dict.fromkeys(("p-0", "p-1", "p-2"), "n-0,Ascend310P,6144,0:;")
    assert given(world, RUNTIME) == dict.fromkeys(("p-0", "p-1", "p-2"), '[{"UUID":"n-0","temp":"vir02"}]')
    assert "1 node(s) had no Ascend310P NPU with 6144 of its memory free" in world.message_of("p-3")


def test_a_bound_pod_has_all_annotations_that_the_device_plugin_reads() -> None:
    world = World(npu_node("n", 1), jobs(*pods(1, 1, 4096)))
    now = str(int(world.cluster.now))
    (bind,) = world.run(HAMI).decisions.binds
    assert bind.annotations == {
        "hami.io/Ascend310P-devices-to-allocate": "n-0,Ascend310P,6144,0:;",
        "hami.io/Ascend310P-devices-allocated": "n-0,Ascend310P,6144,0:;",
        "huawei.com/Ascend310P": '[{"UUID":"n-0","temp":"vir02"}]',
        "predicate-time": now,
        "hami.io/vgpu-node": "n",
        "hami.io/vgpu-time": now,
        "hami.io/bind-phase": "allocating",
        "hami.io/bind-time": now,
    }


def test_several_npus_are_allocated_whole() -> None:
    world = World(npu_node("n", 3), jobs(*pods(1, 2))).run(HAMI)
    assert npus(world) == {"p-0": "n-0,Ascend310P,21527,0:n-1,Ascend310P,21527,0:;"}
    assert given(world, RUNTIME) == {"p-0": '[{"UUID":"n-0"},{"UUID":"n-1"}]'}


def test_parts_of_several_npus_are_refused_with_the_reason() -> None:
    world = World(npu_node("n", 3), jobs(*pods(1, 2, 4096))).run(HAMI)
    assert "2 Ascend310P NPUs with 4096 of memory each: several are had whole only" in world.message_of("p-0")


def test_more_memory_than_a_chip_has_is_refused_with_the_numbers() -> None:
    world = World(npu_node("n"), jobs(*pods(1, 1, 30_000))).run(HAMI)
    assert "Ascend310P with 30000 of memory: a chip has 24576" in world.message_of("p-0")


def test_each_container_gets_separate_npus() -> None:
    world = World(npu_node("n", 3), jobs(limited("p", asks(1, 3000), asks(1, 6000)))).run(HAMI)
    assert npus(world) == {"p": "n-0,Ascend310P,3072,0:;n-1,Ascend310P,6144,0:;"}


def test_all_containers_of_a_pod_on_the_node_count() -> None:
    both = holder("n-0,Ascend310P,21527,0:;n-1,Ascend310P,21527,0:;", 21527, 21527)
    assert npus(World(npu_node("n"), both, jobs(*pods(1, 1, 3000))).run(HAMI)) == {}


def test_memory_and_cores_need_not_be_allocatable_and_memory_alone_is_enough() -> None:
    requesting = limited("p", {f"{ASCEND}-memory": 3000})
    assert npus(World(npu_node("n"), node("plain"), jobs(requesting)).run(HAMI)) == {"p": "n-0,Ascend310P,3072,0:;"}


def test_soft_sharing_allocates_the_exact_request_on_nodes_that_support_it() -> None:
    nodes = [npu_node("a"), npu_node("b", annotations=NODE_SOFT)]
    world = World(nodes, jobs(*pods(3, 1, 5000, 60, annotations=SOFT))).run(HAMI)
    assert npus(world) == {"p-0": "b-0,Ascend310P,5000,60:;", "p-1": "b-1,Ascend310P,5000,60:;"}
    assert given(world, RUNTIME)["p-0"] == '[{"UUID":"b-0","memory":5000,"core":60}]'


def test_an_unhealthy_npu_is_not_allocated_and_one_without_health_is() -> None:
    assert npus(World(npu_node("n", 1, broken=[0]), jobs(*pods(1, 1, 3000))).run(HAMI)) == {}
    silent = annotated(
        npu_node("n"), {"hami.io/node-register-Ascend310P": '[{"id": "x", "count": 7, "devmem": 21527, "devcore": 8}]'}
    )
    assert npus(World(silent, jobs(*pods(1, 1, 3000))).run(HAMI)) == {"p-0": "x,Ascend310P,3072,0:;"}


def test_binpack_fills_the_npu_in_use_and_spread_leaves_it() -> None:
    nodes = [npu_node("n", 2), npu_node("v", 2)]
    held = holder("v-1,Ascend310P,6144,0:;", 6144, on="v")
    for policy, npu in (("binpack", "v-1"), ("spread", "n-0")):
        settings = sharing(AscendHAMiVNPUEnable=True, SchedulePolicy=policy, ScheduleWeight=10)
        assert npus(World(nodes, held, jobs(*pods(1, 1, 6144))).run(settings)) == {"p-0": f"{npu},Ascend310P,6144,0:;"}


def test_npus_of_the_network_with_the_most_fitting_npus_are_allocated_together() -> None:
    text = """
vnpus:
- {chipName: 910B3, commonWord: Ascend910B3, resourceName: huawei.com/Ascend910B3,
   resourceMemoryName: huawei.com/Ascend910B3-memory, memoryAllocatable: 65536, memoryCapacity: 65536}
"""
    settings = config_map("volcano-vgpu-device-config", {"device-config.yaml": text})
    raw = npu_node("n", 4, memory=65536, word="Ascend910B3", networks=[0, 1, 1, 0])
    key = "hami.io/Ascend910B3-devices-allocated"
    held = limited("old", {"huawei.com/Ascend910B3": 1}, on="n", annotations={key: "n-0,Ascend910B3,65536,0:;"})
    world = World(settings, raw, held, jobs(limited("p", {"huawei.com/Ascend910B3": 2}))).run(HAMI)
    assert given(world, key) == {"p": "n-1,Ascend910B3,65536,0:n-2,Ascend910B3,65536,0:;"}


@pytest.mark.parametrize(
    "register",
    ["rubbish", "{}", "[]", '[{"id": 1}]', '[{"id": "a", "count": -1}]', '[{"id": "a"}, {"id": "a"}]', "[" * 60_000,
     json.dumps([{"id": str(i)} for i in range(200)]), '[{"id": "a", "devmem": 99999999999}]'],
)  # fmt: skip
def test_a_malformed_register_is_reported_and_ignored(register: str) -> None:
    bad = annotated(npu_node("bad"), {"hami.io/node-register-Ascend310P": register})
    world = World(bad, npu_node("good"), jobs(*pods(1, 1, 3000))).run(HAMI)
    assert world.bound == {"p-0": "good"}
    (problem,) = world.malformed
    assert problem.startswith("Node bad metadata.annotations[hami.io/node-register-Ascend310P]: ")


def test_malformed_device_annotations_are_reported_and_ignored() -> None:
    world = World(npu_node("n", 1), holder("n-0;", 100), jobs(*pods(1, 1, 3000))).run(HAMI)
    assert world.bound == {"p-0": "n"}
    (problem,) = world.malformed
    assert problem.startswith(f"Pod old metadata.annotations[{HELD_NPUS}]: ")
