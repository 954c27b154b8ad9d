"""Pods that must not share a GPU: exclusive rules, and spreading gangs."""

import pytest

from scheduler.api.names import VGPU_IDS, VGPU_PODGROUP_POLICY
from tests.builders import Raw, World, feed
from tests.unit.plugins.deviceshare.devices import VGPU, jobs, limited, sharing, slice_of, vgpu_node, vgpu_pods, vgpus

SPREAD = {VGPU_PODGROUP_POLICY: "spread"}
GOLD = {"app": "x", "tier": "gold"}
EXCLUSIVE = sharing(VGPUEnable=True, GPUExclusiveRules=[GOLD, {"batch": "yes"}])


def cards(world: World) -> dict[str, str]:
    return {pod: ids.split(",")[0] for pod, ids in vgpus(world).items()}


def gold(number: int, name: str = "p", **more: str) -> list[Raw]:
    return vgpu_pods(number, 1, 1000, 10, name=name, labels={**GOLD, **more})


def test_pods_of_one_rule_do_not_share_a_gpu_but_others_share_with_them() -> None:
    world = World(vgpu_node("n"), jobs(*gold(3), *vgpu_pods(1, 1, 1000, 10, name="plain"))).run(EXCLUSIVE)
    assert cards(world) == {"p-0": "n-1", "p-1": "n-0", "plain-0": "n-1"}


def test_pods_of_different_rules_share_and_a_pod_of_both_rules_shares_with_neither() -> None:
    batch = vgpu_pods(1, 1, 1000, 10, name="batch", labels={"batch": "yes"})
    both = gold(1, "both", batch="yes")
    world = World(vgpu_node("n", 2), jobs(*gold(1), name="a"), jobs(*batch, name="b"), jobs(*both, name="c"))
    assert cards(world.run(EXCLUSIVE)) == {"p-0": "n-1", "batch-0": "n-1", "both-0": "n-0"}


def test_a_running_pod_excludes_others_of_its_rule() -> None:
    held = limited("old", slice_of(), on="n", labels=GOLD, annotations={VGPU_IDS: "n-1,NVIDIA,100,0:"})
    world = World(vgpu_node("n"), held, jobs(*gold(2))).run(EXCLUSIVE)
    assert cards(world) == {"p-0": "n-0"}
    feed(world.cluster.cache, *jobs(*gold(1, "q"), name="next"))
    assert cards(world.run(EXCLUSIVE)) == {}


def test_a_terminating_pod_excludes_others_of_its_rule_until_it_is_deleted() -> None:
    held = limited("old", slice_of(), on="n", labels=GOLD, annotations={VGPU_IDS: "n-0,NVIDIA,100,0:"}, deleting=True)
    world = World(vgpu_node("n", 1), held, jobs(*gold(2))).run(EXCLUSIVE)
    assert cards(world) == {}
    job = world.outcome.session.jobs["default/job"]  # type: ignore[union-attr]
    assert len(job.placed) == 1, "one of them is pipelined to the card"


def test_containers_of_one_pod_may_share() -> None:
    requesting = limited("p", slice_of(1, 1000, 10), slice_of(1, 1000, 10), labels=GOLD)
    assert vgpus(World(vgpu_node("n", 1), jobs(requesting)).run(EXCLUSIVE)) == {
        "p": "n-0,NVIDIA,1000,10:;n-0,NVIDIA,1000,10:"
    }


@pytest.mark.parametrize("rules", ["x", [1], [{}], [{"app": 1}], {"app": "x"}])
def test_an_invalid_rule_is_reported_and_ignored(rules: object) -> None:
    world = World(vgpu_node("n", 1), jobs(*gold(2))).run(sharing(VGPUEnable=True, GPUExclusiveRules=rules))
    assert len(vgpus(world)) == 2
    assert world.outcome is not None
    assert any("deviceshare.GPUExclusiveRules" in problem for problem in world.outcome.session.problems)


def test_a_rule_added_at_runtime_applies_from_the_next_session() -> None:
    world = World(vgpu_node("n", 1), jobs(*gold(1))).run(VGPU)
    feed(world.cluster.cache, *jobs(*gold(1, "q"), name="next"))
    assert cards(world.run(EXCLUSIVE)) == {}


def test_pods_of_a_spreading_gang_do_not_share_a_gpu() -> None:
    world = World(vgpu_node("n"), jobs(*vgpu_pods(3, 1, 1000, 10, annotations=SPREAD))).run(VGPU)
    assert cards(world) == {"p-0": "n-1", "p-1": "n-0"}


def test_different_spreading_gangs_share_gpus() -> None:
    gangs = [jobs(*vgpu_pods(2, 1, 1000, 10, name=name, annotations=SPREAD), name=name) for name in "ab"]
    assert cards(World(vgpu_node("n"), *gangs).run(VGPU)) == {"a-0": "n-1", "a-1": "n-0", "b-0": "n-1", "b-1": "n-0"}


def test_a_spreading_pod_does_not_share_with_other_pods_of_its_gang() -> None:
    mixed = [*vgpu_pods(1, 1, 1000, 10, name="a"), *vgpu_pods(1, 1, 1000, 10, name="b", annotations=SPREAD)]
    assert cards(World(vgpu_node("n"), jobs(*mixed)).run(VGPU)) == {"a-0": "n-1", "b-0": "n-0"}
