"""Pods that share chips, from the session that binds them to the next ones."""

from random import Random

import pytest
from msgspec.structs import replace

from scheduler.api.names import ASCEND_910, ASCEND_910_CONFIGURATION, ASCEND_REAL, DISTRIBUTED_JOB, SOFT_SHARE
from scheduler.plugins.ascend.shares import Quota, share_of
from tests.builders import World, group, manifests
from tests.unit.plugins.ascend.chips import CONFIGURATION, device_info, job, names, npu_node, npu_pod
from tests.unit.plugins.ascend.chips import refusal_of as refused
from tests.unit.plugins.ascend.sharing.shares import (
    POLICY,
    SHARED,
    chips,
    quota,
    shared_node,
    sharer,
    sharing,
    whole_node,
)


def test_a_pod_gets_a_share_and_its_quota_with_the_binding() -> None:
    world = World(*shared_node("n"), sharing("j", 20, 4096)).run(CONFIGURATION)
    (bind,) = world.decisions.binds
    assert bind.annotations[ASCEND_910] == "Ascend910-0"
    assert {key: bind.annotations[key] for key in SOFT_SHARE} == quota(20, 4096)
    assert bind.annotations[DISTRIBUTED_JOB] == "false"
    assert not {ASCEND_REAL, ASCEND_910_CONFIGURATION} & bind.annotations.keys()


def test_pods_of_one_session_share_a_chip_as_long_as_it_has_room() -> None:
    world = World(*shared_node("n"), sharing("j", 40, number=4)).run(CONFIGURATION)
    assert sorted(chip or "" for _, chip in chips(world).values()) == ["Ascend910-0"] * 2 + ["Ascend910-1"] * 2


def test_a_later_session_knows_the_shares_of_the_earlier_ones() -> None:
    world = World(*shared_node("n"), sharing("j", 40)).run(CONFIGURATION)
    for name, cores, chip in (("k", 70, 1), ("l", 60, 0), ("m", 30, 1)):
        world.cluster.load(manifests(sharing(name, cores)))
        assert chips(world.run(CONFIGURATION)) == {f"{name}-0": ("n", f"Ascend910-{chip}")}


def test_another_policy_gets_another_chip() -> None:
    world = World(*shared_node("n"), sharer("x", "n", 0, 10), sharing("j", 20, policy="elastic")).run(CONFIGURATION)
    assert chips(world) == {"j-0": ("n", "Ascend910-1")}


def test_the_node_whose_chip_becomes_fullest_comes_first() -> None:
    world = World(
        *shared_node("a"),
        *shared_node("b"),
        *shared_node("c"),
        sharer("x", "b", 1, 30),
        sharer("y", "c", 0, 60),
        sharing("j", 20),
    ).run(CONFIGURATION)
    assert chips(world) == {"j-0": ("c", "Ascend910-0")}


def test_whole_chips_are_not_shared_and_shared_chips_are_not_assigned_whole() -> None:
    node = npu_node("n", 8, labels=SHARED)
    lists = device_info("n", [2, 3])
    whole = npu_pod("w", 1, on="n", annotations={ASCEND_910: "Ascend910-1"}, scheduler="other")
    world = World(node, lists, whole, sharer("x", "n", 0, 1), job("j", 2), sharing("k", 1)).run(CONFIGURATION)
    found = chips(world)
    assert found["k-0"] == ("n", "Ascend910-0")
    assert found["j-0"] == ("n", "Ascend910-2,Ascend910-3")


def test_chips_are_assigned_whole_on_a_node_that_reports_each_of_them_many_times() -> None:
    world = World(*shared_node("n", 8), sharer("x", "n", 5, 50), job("j", 4)).run(CONFIGURATION)
    assert chips(world) == {"j-0": ("n", names([0, 1, 2, 3]))}


@pytest.mark.parametrize(
    ("labels", "copied"), [(quota(20), True), (quota("abc"), True), ({SOFT_SHARE[0]: "20"}, False)]
)
def test_quotas_without_the_policy_are_copied(labels: dict[str, str], copied: bool) -> None:
    world = World(*whole_node("n"), group("j"), npu_pod("j-0", 8, "j", labels=labels)).run(CONFIGURATION)
    (bind,) = world.decisions.binds
    assert bind.annotations[ASCEND_910] == names(range(8))
    found = {key: value for key, value in bind.annotations.items() if key in SOFT_SHARE}
    assert found == (labels if copied else {})
    assert (ASCEND_REAL in bind.annotations) == (not copied)


def test_a_pod_with_a_quota_and_several_chips_keeps_all_of_them() -> None:
    whole = npu_pod("j-0", 2, "j", labels=quota(20))
    world = World(*shared_node("n", 4), group("j"), whole).run(CONFIGURATION)
    assert chips(world) == {"j-0": ("n", names([0, 1]))}
    world.cluster.load(manifests(sharing("k", 20)))
    assert chips(world.run(CONFIGURATION)) == {"k-0": ("n", names([2]))}
    found = npu_pod("x", 2, on="m", annotations={ASCEND_910: names([0, 1]), **quota(20)}, scheduler="other")
    assert chips(World(*shared_node("m", 4), found, job("l", 1)).run(CONFIGURATION)) == {"l-0": ("m", names([2]))}


def test_a_pod_with_a_quota_and_one_chip_shares_it_from_the_next_session_on() -> None:
    world = World(*shared_node("n"), group("j"), npu_pod("j-0", 1, "j", labels=quota(20))).run(CONFIGURATION)
    assert chips(world) == {"j-0": ("n", names([0]))}
    world.cluster.load(manifests(sharing("k", 80)))
    assert chips(world.run(CONFIGURATION)) == {"k-0": ("n", names([0]))}


def test_a_node_that_lists_more_chips_than_are_idle_is_closed() -> None:
    """The refusal applies from the next session on: the device plugin of this node reports each chip once."""
    node, lists = npu_node("n", 2, labels=SHARED), device_info("n", [0, 1])
    assert chips(World(node, lists, sharing("j", 1)).run(CONFIGURATION)) == {"j-0": ("n", "Ascend910-0")}
    assert chips(World(node, lists, sharer("x", "n", 0, 1), sharing("j", 1)).run(CONFIGURATION)) == {}
    both = {"j-0": ("n", "Ascend910-0"), "j-1": ("n", "Ascend910-0")}
    assert chips(World(node, lists, sharing("j", 1, number=2)).run(CONFIGURATION)) == both


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ({"huawei.com/scheduler.chip1softsharedev.enable": "false"}, "enable=true"),
        ({"mind-cluster/npu-chip-memory": "much"}, "the memory of a chip"),
        ({"mind-cluster/npu-chip-memory": "0G"}, "the memory of a chip"),
    ],
)
def test_nodes_need_both_labels(labels: dict[str, str], reason: str) -> None:
    full = sharer("x", "m", 0, 99)
    world = World(*shared_node("n", labels=SHARED | labels), *shared_node("m", 1), full, sharing("j", 20))
    assert reason in world.run(CONFIGURATION).message_of("j-0")


def test_a_job_waits_for_a_node_with_room_for_all_of_its_pods() -> None:
    world = World(*shared_node("a", 1), *shared_node("b", 1), sharing("j", 60, number=2)).run(CONFIGURATION)
    assert chips(world) == {}
    assert "no room for 2 Pods with 60 % of the AI cores and 1024 MiB" in world.message_of("j-0")


@pytest.mark.parametrize("labels", [{}, quota(0), quota(20, policy="x")])
def test_a_malformed_quota_is_refused(labels: dict[str, str]) -> None:
    pod = npu_pod("j-0", 1, "j", labels=labels)
    assert refused("j", *shared_node("n"), group("j", annotations=POLICY), pod)


def test_different_quotas_in_one_job_are_refused() -> None:
    pods = [npu_pod(f"j-{i}", 20, "j", labels=quota(20 + i)) for i in range(2)]
    assert "20|21" in refused("j", *shared_node("n"), group("j", annotations=POLICY), pods)


def test_a_hundred_per_chip_count_at_the_gate() -> None:
    world = World(*shared_node("n", 2), sharing("j", 100, number=2)).run(CONFIGURATION)
    assert len(chips(world)) == 2
    world = World(*shared_node("n", 2), sharing("j", 100, number=3)).run(CONFIGURATION)
    assert chips(world) == {}


def test_a_changed_quota_of_a_bound_pod_does_not_make_room() -> None:
    world = World(*shared_node("n", 1), sharing("j", 80)).run(CONFIGURATION)
    (task,) = world.session(CONFIGURATION).jobs["default/j"].tasks()
    assert task.record is not None
    changed = replace(task, annotations={**task.annotations, **quota(1)})
    assert share_of(task) == share_of(changed) == Quota(80, 1024, "fixed-share")


@pytest.mark.parametrize("seed", range(40))
def test_no_chip_is_overcommitted_over_sessions(seed: int) -> None:
    random = Random(seed)
    world = World(*[doc for name in "ab" for doc in shared_node(name, 2)])
    for number in range(8):
        more = sharing(
            f"j{number}",
            random.choice([10, 30, 50, 100]),
            random.choice([1024, 20_000, 60_000]),
            random.choice(["fixed-share", "elastic"]),
            random.randint(1, 3),
        )
        world = World(
            [o for o in world.cluster.objects() if o["kind"] in ("Node", "ConfigMap", "PodGroup", "Pod")], more
        )
        world.run(CONFIGURATION, kubelet=random.random() < 0.5)
        used: dict[tuple[str, str], list[tuple[int, int, str]]] = {}
        for pod in (o for o in world.cluster.objects() if o["kind"] == "Pod" and o["spec"].get("nodeName")):
            annotations = pod["metadata"]["annotations"]
            cores, memory, policy = (annotations[key] for key in SOFT_SHARE)
            place = pod["spec"]["nodeName"], annotations[ASCEND_910]
            used.setdefault(place, []).append((int(cores), int(memory), policy))
        for shares in used.values():
            assert sum(cores for cores, _, _ in shares) <= 100
            assert sum(memory for _, memory, _ in shares) <= 64 * 1024
            assert len({policy for _, _, policy in shares}) == 1
