"""GPUs with MIG instances by the geometries in the device plugin's ConfigMap."""

import pytest

from scheduler.api.names import VGPU_IDS, VGPU_MODE
from scheduler.plugins.deviceshare.cards import Instances, Layouts, MigLayout
from scheduler.plugins.deviceshare.plugin import DeviceShare
from tests.builders import Raw, World, feed
from tests.unit.plugins.deviceshare.devices import (
    VGPU,
    Sidecar,
    config_map,
    jobs,
    limited,
    slice_of,
    vgpu_node,
    vgpu_pods,
    vgpus,
)

GEOMETRIES = """
nvidia:
  resourceCountName: volcano.sh/vgpu-number
  knownMigGeometries:
  - models: ["A30"]
    allowedGeometries:
    - group: group1
      geometries:
      - {name: 1g.6gb, memory: 6144, count: 4}
    - group: group2
      geometries:
      - {name: 2g.12gb, memory: 12288, count: 1}
      - {name: 1g.6gb, memory: 6144, count: 2}
"""
A30 = Layouts(
    (
        MigLayout("group1", (Instances("1g", 6, 4),)),
        MigLayout("group2", (Instances("2g", 12, 1), Instances("1g", 6, 2))),
    )
)


def geometries(text: str = GEOMETRIES) -> Raw:
    return config_map("volcano-vgpu-device-config", {"device-config.yaml": text})


def mig_node(name: str = "n", number: int = 1) -> Raw:
    return vgpu_node(name, number, 24576, slots=7, model="NVIDIA-NVIDIA A30", mode="mig")


# --- instances ---
@pytest.mark.parametrize(
    ("memory", "taken", "found"),
    [
        (5, [], ("group1", 0, 6)),
        (7, [], ("group2", 0, 12)),
        (5, [("group1", 0), ("group1", 2)], ("group1", 1, 6)),
        (5, [("group2", 0)], ("group2", 1, 6)),
        (7, [("group2", 1)], ("group2", 0, 12)),
        (5, [("group2", 1), ("group2", 2)], ("group2", 0, 12)),
        (7, [("group1", 0)], None),
        (7, [("group2", 0)], None),
        (13, [], None),
        (5, [("group1", i) for i in range(4)], None),
        (5, [("gone", 0)], None),
    ],
)
def test_the_smallest_free_instance_of_the_group_in_use_or_of_the_first_fitting_group_is_chosen(
    memory: int, taken: list[tuple[str, int]], found: tuple[str, int, int] | None
) -> None:
    assert A30.instance(memory, taken) == found


@pytest.mark.parametrize(("position", "memory"), [(0, 12), (1, 6), (2, 6), (3, None), (-1, None)])
def test_instances_are_numbered_in_the_listed_order(position: int, memory: int | None) -> None:
    assert A30.groups[1].memory_at(position) == memory


# --- whole cycles ---
def test_pods_of_one_session_get_different_instances() -> None:
    world = World(geometries(), mig_node(), jobs(*vgpu_pods(5, 1, 5000, 0))).run(VGPU)
    assert list(vgpus(world).values()) == [f"n-0[group1-{i}],NVIDIA,5000,0:" for i in range(4)]


def test_the_next_session_counts_allocated_instances() -> None:
    world = World(geometries(), mig_node(), jobs(*vgpu_pods(1, 1, 8000, 0))).run(VGPU)
    assert vgpus(world) == {"p-0": "n-0[group2-0],NVIDIA,8000,0:"}
    feed(world.cluster.cache, *jobs(*vgpu_pods(3, 1, 5000, 0, name="q"), name="next"))
    assert vgpus(world.run(VGPU)) == {
        "q-0": "n-0[group2-1],NVIDIA,5000,0:",
        "q-1": "n-0[group2-2],NVIDIA,5000,0:",
    }


def test_an_unused_card_may_be_partitioned_again() -> None:
    leaving = limited("old", slice_of(), on="n", annotations={VGPU_IDS: "n-0[group1-0],NVIDIA,5000,0:"}, deleting=True)
    world = World(geometries(), mig_node(), leaving, jobs(*vgpu_pods(1, 1, 8000, 0))).run(VGPU)
    assert vgpus(world) == {} and "once resource is released" in world.message_of("p-0")


def test_two_containers_of_a_pod_get_two_instances() -> None:
    requesting = limited("p", slice_of(1, 5000, 0), slice_of(1, 5000, 0))
    world = World(geometries(), mig_node(), jobs(requesting)).run(VGPU)
    assert vgpus(world) == {"p": "n-0[group1-0],NVIDIA,5000,0:;n-0[group1-1],NVIDIA,5000,0:"}


def test_without_known_geometries_gpus_are_shared_under_hami_core() -> None:
    world = World(mig_node(), jobs(*vgpu_pods(1, 1, 5000, 0, annotations={VGPU_MODE: "hami-core"}))).run(VGPU)
    assert vgpus(world) == {"p-0": "n-0,NVIDIA,5000,0:"}


def test_the_mode_of_a_node_with_geometries_is_mig() -> None:
    asked = {mode: vgpu_pods(1, 1, 5000, 0, name=mode, annotations={VGPU_MODE: mode}) for mode in ("mig", "hami-core")}
    world = World(geometries(), mig_node(), jobs(*(p for pods in asked.values() for p in pods))).run(VGPU)
    assert list(vgpus(world)) == ["mig-0"]


def test_memory_is_multiplied_by_the_memory_factor() -> None:
    text = GEOMETRIES.replace("nvidia:\n", "nvidia:\n  gpuMemoryFactor: 10\n")
    node = vgpu_node("n", 1, 2457, slots=7, model="NVIDIA-A30", mode="mig")
    world = World(geometries(text), node, jobs(*vgpu_pods(2, 1, 700, 0))).run(VGPU)
    assert vgpus(world) == {"p-0": "n-0[group2-0],NVIDIA,700,0:"}


def test_a_config_map_that_changes_takes_effect_with_the_next_session() -> None:
    world = World(mig_node(), jobs(*vgpu_pods(1, 1, 5000, 0, annotations={VGPU_MODE: "mig"}))).run(VGPU)
    assert vgpus(world) == {}
    feed(world.cluster.cache, geometries())
    assert vgpus(world.run(VGPU)) == {"p-0": "n-0[group1-0],NVIDIA,5000,0:"}


@pytest.mark.parametrize(
    "ids", ["n-0[group1-9],NVIDIA,5000,0:", "n-0[x],NVIDIA,5000,0:", "n-0[group9-0],NVIDIA,5000,0:"]
)
def test_unknown_instances_count_with_the_memory_in_the_annotation(ids: str) -> None:
    held = limited("old", slice_of(), on="n", annotations={VGPU_IDS: ids})
    world = World(geometries(), mig_node(), held, jobs(*vgpu_pods(1, 1, 20_000, 0))).run(VGPU)
    assert vgpus(world) == {} and world.malformed == []


# --- init containers ---
@pytest.mark.parametrize(
    ("memory", "first"),
    [(6000, "n-0[group2-1],NVIDIA,6000,0:"), (12000, "n-0[group2-0],NVIDIA,12000,0:")],
    ids=["the instance of the container", "another instance"],
)
def test_an_init_container_uses_an_instance_of_the_pod_if_one_is_large_enough(memory: int, first: str) -> None:
    """Instances exist whether they are in use or not, so that different ones count together."""
    old = limited("old", slice_of(1, 6000, 0), on="n", annotations={VGPU_IDS: "n-0[group2-2],NVIDIA,6000,0:"})
    pod = limited("p", slice_of(1, 5000, 0), {}, init=[slice_of(1, memory, 0)])
    world = World(geometries(), mig_node(), old, jobs(pod)).run(VGPU)
    assert vgpus(world) == {"p": f"{first};n-0[group2-1],NVIDIA,5000,0:"}
    (ledger,) = next(p for p in world.session(VGPU).plugins if isinstance(p, DeviceShare)).ledgers
    (card,) = ledger.cards(0, later=False)
    assert (card.used, card.used_memory) == (2, 6144 + 6144 + (0 if memory == 6000 else 12288))


def test_an_instance_of_a_sidecar_is_not_used_by_a_later_init_container() -> None:
    pod = limited("p", {}, {}, init=[Sidecar(slice_of(1, 5000, 0)), slice_of(1, 5000, 0)])
    world = World(geometries(), mig_node(), jobs(pod)).run(VGPU)
    assert vgpus(world) == {"p": "n-0[group1-0],NVIDIA,5000,0:;n-0[group1-1],NVIDIA,5000,0:"}
