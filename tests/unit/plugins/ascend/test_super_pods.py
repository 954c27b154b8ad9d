"""Jobs in super pods: the choice of nodes for the whole job, and the node and annotations of a Pod by its rank."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.api.names import (
    ACCELERATOR_TYPE,
    ASCEND_910,
    HCCL_RANK_INDEX,
    NPU,
    SCHEDULE_POLICY,
    SP_BLOCK,
    SUPER_POD_RANK,
)
from scheduler.plugins.ascend.super_pods import BlockRequest, choose_blocks
from tests.builders import Raw, World, configuration, group, node, pod
from tests.unit.plugins.ascend.chips import device_info, refusal_of

CONFIGURATION = configuration(["priority", "gang"], ["ascend", "predicates", "binpack"])
SELECTOR = {ACCELERATOR_TYPE: "module-a3-16-super-pod"}


# --- the choice of blocks ---
def chosen(sizes: dict[int, int], blocks: int, *, size: int = 2, reserve: int = 2, soft: bool = False) -> list[Any]:
    """The super pod of each block, with the number of its nodes."""
    free = {each: [each * 100 + i for i in range(number)] for each, number in sizes.items()}
    return [(block[0] // 100, len(block)) for block in choose_blocks(free, BlockRequest(blocks, size, reserve, soft))]


@pytest.mark.parametrize(
    ("sizes", "blocks"),
    [
        ({0: 2}, [0]),
        ({0: 4, 1: 5, 2: 6}, [0, 1]),
        ({1: 5, 2: 6}, [2, 2]),
        ({1: 5, 2: 8}, [1, 2]),
        ({0: 3, 1: 5, 2: 8}, [1, 2]),
        ({0: 3, 1: 5}, [1, 0]),
        ({0: 5, 1: 5}, [0, 1]),
        ({0: 1, 1: 1}, []),
    ],
)
def test_two_blocks_of_two_nodes(sizes: dict[int, int], blocks: list[int]) -> None:
    assert chosen(sizes, 2) == [(each, 2) for each in blocks]


def test_one_node_comes_from_the_super_pod_with_more_left() -> None:
    assert chosen({0: 1, 1: 3}, 1, size=1, reserve=4) == [(1, 1)]


def test_the_reserve_is_shared_out_among_super_pods() -> None:
    assert chosen({1: 2, 2: 2}, 2, size=1) == [(1, 1), (2, 1)]


def test_a_soft_job_splits_blocks_that_fit_into_no_super_pod() -> None:
    assert chosen({0: 1, 1: 1, 2: 2}, 2, soft=True) == [(2, 2), (0, 1), (1, 1)]
    assert chosen({0: 1, 1: 1, 2: 2}, 2) == [(2, 2)]


@given(
    sizes=st.dictionaries(st.integers(0, 6), st.integers(0, 12), max_size=5),
    blocks=st.integers(1, 5),
    size=st.integers(1, 4),
    reserve=st.integers(0, 4),
    soft=st.booleans(),
)
def test_blocks_fit_whenever_they_can(sizes: dict[int, int], blocks: int, size: int, reserve: int, soft: bool) -> None:
    free = {each: [each * 100 + i for i in range(number)] for each, number in sizes.items()}
    found = choose_blocks(free, BlockRequest(blocks, size, reserve, soft))
    nodes = [row for block in found for row in block]
    assert len(nodes) == len(set(nodes))
    assert all(len({row // 100 for row in block}) == 1 for block in found)
    room = sum(number // size for number in sizes.values())
    whole = [block for block in found if len(block) == size]
    if soft:
        assert len(nodes) == min(blocks * size, sum(sizes.values()))
    else:
        assert len(whole) == len(found) == min(blocks, room)


# --- sessions ---
def server(super_pod: int, number: int, chips: int = 16) -> Raw:
    made = node(f"sp{super_pod}-n{number}", f"640c+999Gi+{ASCEND_910}={chips}", labels=SELECTOR)
    made["metadata"]["annotations"] = {"superPodID": str(super_pod)}
    return made


def cluster(*sizes: int) -> list[Raw]:
    return [server(super_pod, number) for super_pod, size in enumerate(sizes) for number in range(size)]


def job(
    pods: int, block: str | int | None, chips: int = 16, labels: dict[str, str] | None = None, name: str = "j"
) -> list[Raw]:
    annotations = {} if block is None else {SP_BLOCK: str(block)}
    whole = group(name, minimum=pods, annotations=annotations)
    whole["metadata"]["labels"] = labels or {}
    request = f"1c+1Gi+{ASCEND_910}={chips}"
    return [whole, *(pod(f"{name}-{i}", request, name, selector=SELECTOR) for i in range(pods))]


def bound(world: World) -> dict[str, tuple[str, str | None, str | None]]:
    """Maps each Pod to the super pod of its node, super-pod-id and super-pod-rank."""
    return {
        bind.task.name: (
            bind.node.partition("-")[0],
            bind.annotations.get("super-pod-id"),
            bind.annotations.get("super-pod-rank"),
        )
        for bind in world.decisions.binds
    }


def test_the_pods_of_a_block_share_a_super_pod_by_rank() -> None:
    world = World(cluster(4, 5, 6), job(4, 32)).run(CONFIGURATION)
    assert bound(world) == {
        "j-0": ("sp0", "0", "0"),
        "j-1": ("sp0", "0", "0"),
        "j-2": ("sp1", "1", "1"),
        "j-3": ("sp1", "1", "1"),
    }


def test_the_rank_of_a_pod_decides_about_its_block_not_the_order_of_the_pods() -> None:
    whole, *pods = job(4, 32)
    for each, rank in zip(pods, ("3", "1", "0", "2"), strict=True):
        each["metadata"]["annotations"][HCCL_RANK_INDEX] = rank
    found = bound(World(cluster(4, 5, 6), whole, *pods).run(CONFIGURATION))
    assert {name: place[0] for name, place in found.items()} == {"j-2": "sp0", "j-1": "sp0", "j-3": "sp1", "j-0": "sp1"}


def test_without_an_annotation_the_whole_job_is_one_block() -> None:
    found = bound(World(cluster(3, 5), job(4, None)).run(CONFIGURATION))
    assert {place[0] for place in found.values()} == {"sp1"}


def test_a_job_that_fits_into_no_super_pods_says_why() -> None:
    world = World(cluster(3, 1), job(4, 32)).run(CONFIGURATION)
    assert world.bound == {}
    assert "the job needs 2 blocks of 2 nodes in one super pod each, there is room for 1" in world.message_of("j-0")
    (update,) = world.decisions.pod_groups
    assert [c.reason for c in update.conditions] == ["BatchOrderFailed"]


def test_a_soft_job_is_placed_all_the_same() -> None:
    world = World(cluster(3, 1), job(4, 32, labels={"super-pod-affinity": "soft"})).run(CONFIGURATION)
    assert len(world.bound) == 4


def test_a_replacement_goes_to_the_super_pod_of_its_block() -> None:
    whole, *pods = job(4, 32)
    for i, each in enumerate(pods[:3]):
        each["metadata"]["annotations"][HCCL_RANK_INDEX] = str(i)
        each["spec"]["nodeName"] = f"sp{i // 2}-n{i}"
        each["status"] = {"phase": "Running"}
    world = World(cluster(4, 4, 9), whole, *pods).run(CONFIGURATION)
    assert bound(world) == {"j-3": ("sp1", "1", "1")}
    full = World(cluster(4), server(1, 2), cluster(0, 0, 9), whole, *pods).run(CONFIGURATION)
    assert full.bound == {}
    assert "super pod 1, which has the other Pods of the block of Pod default/j-3, is full" in full.message_of("j-3")


def test_a_pod_on_a_node_that_is_gone_does_not_bind_its_block_to_a_super_pod() -> None:
    whole, *pods = job(2, 32)
    pods[0]["metadata"]["annotations"][HCCL_RANK_INDEX] = "0"
    pods[0]["spec"]["nodeName"] = "gone"
    pods[0]["status"] = {"phase": "Running"}
    assert bound(World(cluster(0, 3), whole, *pods).run(CONFIGURATION)) == {"j-1": ("sp1", "1", "0")}


def test_a_node_in_no_super_pod_is_not_used() -> None:
    world = World(server(-2, 0), job(1, 16)).run(CONFIGURATION)
    assert "node(s) were in no super pod" in world.message_of("j-0")


def test_no_pods_are_evicted_for_a_part_of_a_job() -> None:
    low = [group("low", minimum=1), pod("low-0", f"1c+1Gi+{ASCEND_910}=16", "low", on="sp0-n0", priority=1)]
    preempting = configuration(
        ["priority", "gang"], ["ascend", "predicates"], actions="enqueue, allocate, preempt, backfill"
    )
    high = job(2, 32)
    for each in high[1:]:
        each["spec"]["priority"] = 100
    world = World(cluster(1, 1), low, high).run(preempting)
    assert world.decisions.evictions == []


def test_two_jobs_do_not_share_a_node() -> None:
    world = World(cluster(2, 2), job(2, 32), job(2, 32, name="k")).run(CONFIGURATION)
    assert len(set(world.bound.values())) == 4


def test_jobs_that_wait_for_equal_blocks_share_their_refusal() -> None:
    world = World(cluster(3, 3), job(4, 64), job(4, 64, name="k"), job(2, 64, name="l"), job(2, 32, name="m"))
    session = world.session(CONFIGURATION)
    j, k, m = (session.jobs[f"default/{name}"] for name in "jkm")
    cls = next(j.tasks()).cls
    assert session.view(cls, j) is session.view(cls, k)
    assert session.view(cls, j) is not session.view(cls, m)
    full = World(job(2, 32), job(2, 32, name="k"), cluster(1)).session(CONFIGURATION)
    full.nodes.idle[:] = 0
    j, k = (full.jobs[f"default/{name}"] for name in "jk")
    assert full.view(cls, j) is full.view(cls, k)
    world.run(CONFIGURATION)
    assert {bind.task.job for bind in world.decisions.binds} == {"default/m"}
    assert "there is room for 0" in world.message_of("k-0")


def test_the_nodes_that_one_job_got_are_not_planned_for_an_equal_one() -> None:
    world = World(cluster(3, 3), *(job(2, 32, name=name) for name in "jkl")).run(CONFIGURATION)
    assert len(set(world.bound.values())) == len(world.bound) == 4
    assert "there is room for 0" in world.message_of("l-0")


def test_network_faults_count_for_several_blocks_only() -> None:
    nodes = cluster(1, 1)
    faulty = device_info("sp0-n0", list(range(16)), NetworkUnhealthy=[1])
    assert World(nodes, faulty, job(2, 16)).run(CONFIGURATION).bound == {}
    assert len(World(cluster(2), faulty, job(2, 32)).run(CONFIGURATION).bound) == 2


@pytest.mark.parametrize(
    ("pods", "block", "chips", "problem"),
    [
        (3, 32, 16, "the job asks for 48 huawei.com/Ascend910, which is not a multiple of sp-block=32"),
        (1, 16, 4, "one Pod asks for 4 huawei.com/Ascend910, and sp-block=16 is not that number"),
        (2, 24, 16, "sp-block=24 is not a multiple of the 16 chips of a node"),
        (2, 8, 16, "sp-block=8 is less than the 16 chips of a node"),
        (2, 16, 8, "every Pod of several must ask for 16"),
        (2, 16 * 49, 16, "sp-block=784 is more than a super pod of 48 nodes with 16 chips has"),
        (2, "x", 16, "sp-block=x is not a positive number"),
        (2, 0, 16, "sp-block=0 is not a positive number"),
    ],
)
def test_invalid_blocks_are_refused_with_the_numbers(pods: int, block: str | int, chips: int, problem: str) -> None:
    assert problem in refusal_of("j", cluster(1), *job(pods, block, chips))


def test_the_options_are_read_and_those_that_cannot_be_used_are_reported() -> None:
    def problems(**options: str) -> list[str]:
        return World(cluster(1)).session(replace(CONFIGURATION, action_arguments={"init-params": options})).problems

    assert problems(**{"super-pod-size": "10", "reserve-nodes": "3"}) == []
    assert "'0' is not a number of at least 1; using 2" in problems(**{"reserve-nodes": "0"})[0]
    assert "not less than super-pod-size" in problems(**{"super-pod-size": "4", "reserve-nodes": "4"})[0]


# --- A5 ---
def a5_job(number: int, chips: int = 8, block: int = 0) -> list[Raw]:
    annotations = {SCHEDULE_POLICY: "chip8-node8-sp", **({SP_BLOCK: str(block)} if block else {})}
    pods = [pod(f"j-{i}", f"1c+1Gi+{NPU}={chips}", "j", annotations={HCCL_RANK_INDEX: str(i)}) for i in range(number)]
    return [group("j", minimum=number, annotations=annotations), *pods]


def a5_nodes(**super_pods: int) -> list[Raw]:
    """Nodes by name, each in a super pod."""
    nodes = [node(name, f"64c+512Gi+{NPU}=8") for name in super_pods]
    for raw in nodes:
        raw["metadata"]["annotations"] = {"superPodID": str(super_pods[raw["metadata"]["name"]])}
    return nodes


def test_blocks_of_a5_servers_stay_in_one_super_pod() -> None:
    world = World(*a5_nodes(a=0, b=1, c=1), a5_job(2)).run(CONFIGURATION)
    binds = {bind.task.name: (bind.node, bind.annotations[SUPER_POD_RANK]) for bind in world.decisions.binds}
    assert binds == {"j-0": ("b", "0"), "j-1": ("c", "0")}
    world = World(*a5_nodes(a=0, b=1), a5_job(2)).run(CONFIGURATION)
    assert world.bound == {}
    world = World(*a5_nodes(a=0, b=1), a5_job(2, block=4)).run(CONFIGURATION)
    assert {bind.annotations[SUPER_POD_RANK] for bind in world.decisions.binds} == {"0", "1"}


def test_one_pod_of_a5_servers_asks_for_any_number_of_chips() -> None:
    (bind,) = World(*a5_nodes(a=3), a5_job(1, 3)).run(CONFIGURATION).decisions.binds
    assert bind.annotations[NPU] == "npu-0,npu-1,npu-2"
    assert bind.annotations["super-pod-id"] == "3"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (a5_job(1, 4, 8), "sp-block=8 is not that number"),
        (a5_job(2, 8, 12), "not a multiple of the 8 chips"),
        (a5_job(2, 8, 3), "not a multiple of sp-block=3"),
        (a5_job(2, 4), "every Pod of several must ask for 8"),
        (a5_job(49, 8, 8 * 49), "more than a super pod of 48 nodes"),
        ([*a5_job(2), pod("s", "1c+1Gi", "j", role="scheduler")], "each has to ask for 8"),
    ],
)
def test_invalid_jobs_of_a5_servers(asked: list[Raw], words: str) -> None:
    assert words in refusal_of("j", *a5_nodes(a=0), asked)
