"""vGPUs in ``status.allocated`` of queues, counted as in Volcano."""

from scheduler.api.names import VGPU_CORES, VGPU_IDS, VGPU_MEMORY, VGPU_NUMBER
from tests.builders import Raw, World, configuration, queue
from tests.unit.plugins.deviceshare.devices import VGPU, config_map, jobs, limited, slice_of, vgpu_node, vgpu_pods


def allocated(world: World, name: str = "default") -> dict[str, str]:
    """The vGPU resources of a queue's status."""
    found: Raw = world.get("Queue", name)["status"]["allocated"]
    return {key.partition("/")[2]: amount for key, amount in found.items() if "vgpu" in key}


def test_the_queue_status_sums_memory_and_cores_over_the_gpus_of_a_pod() -> None:
    world = World(vgpu_node("n", 4), jobs(*vgpu_pods(2, 3, 2000, 10))).run(VGPU)
    assert allocated(world) == {"vgpu-number": "6", "vgpu-memory": "12k", "vgpu-cores": "60"}
    assert allocated(world.run(VGPU, 2)) == {"vgpu-number": "6", "vgpu-memory": "12k", "vgpu-cores": "60"}


def test_whole_gpus_count_with_their_memory() -> None:
    world = World(vgpu_node("n"), jobs(*vgpu_pods(1, 2))).run(VGPU)
    assert allocated(world) == {"vgpu-number": "2", "vgpu-memory": "20k"}


def test_memory_requested_without_a_number_of_gpus_counts_once() -> None:
    world = World(vgpu_node("n"), jobs(limited("p", {VGPU_MEMORY: 3000, VGPU_CORES: 5}))).run(VGPU)
    assert allocated(world) == {"vgpu-memory": "3k", "vgpu-cores": "5"}


def test_running_pods_count_by_their_annotation_in_their_queue_and_its_ancestors() -> None:
    held = limited("old", slice_of(2, 800, 4), on="n", annotations={VGPU_IDS: "n-0,NVIDIA,700,3:n-1,NVIDIA,800,4:"})
    world = World(
        vgpu_node("n"), queue("top", parent="root"), queue("leaf", parent="top"), jobs(held, queue="leaf")
    ).run(VGPU)
    for name in ("leaf", "top", "root"):
        assert allocated(world, name) == {"vgpu-number": "2", "vgpu-memory": "1500", "vgpu-cores": "7"}
    assert allocated(world) == {}


def test_a_pod_whose_gpus_are_unknown_counts_with_its_request() -> None:
    held = limited("old", slice_of(2, 100, 1), on="n")
    gone = limited("other", slice_of(1, 10, 1), on="n", annotations={VGPU_IDS: "elsewhere,NVIDIA,700,3:"})
    world = World(vgpu_node("n"), jobs(held, gone)).run(VGPU)
    assert allocated(world) == {"vgpu-number": "3", "vgpu-memory": "110", "vgpu-cores": "2"}


def test_a_terminating_pod_does_not_count_in_the_queue_status() -> None:
    held = limited("old", slice_of(2, 100, 1), on="n", deleting=True, annotations={VGPU_IDS: "n-0,NVIDIA,700,3:"})
    assert allocated(World(vgpu_node("n"), jobs(held)).run(VGPU)) == {}


def test_without_the_plugin_a_pod_counts_with_its_request() -> None:
    held = limited("old", slice_of(2, 100, 1), on="n", annotations={VGPU_IDS: "n-0,NVIDIA,700,3:n-1,NVIDIA,800,4:"})
    world = World(vgpu_node("n"), jobs(held)).run(configuration(["gang"]))
    assert allocated(world) == {"vgpu-number": "2", "vgpu-memory": "100", "vgpu-cores": "1"}


def test_the_names_of_resources_come_from_the_config_map() -> None:
    text = "nvidia: {resourceCountName: example.com/vgpu, resourceMemoryName: example.com/vgpu-mem}"
    config = config_map("volcano-vgpu-device-config", {"device-config.yaml": text})
    requesting = limited("p", {"example.com/vgpu": 2, "example.com/vgpu-mem": 500})
    raw = vgpu_node("n")
    raw["status"]["allocatable"] |= {"example.com/vgpu": "20", "example.com/vgpu-mem": "20000"}
    world = World(raw, config, jobs(requesting)).run(VGPU)
    assert allocated(world) == {"vgpu": "2", "vgpu-mem": "1k"}
    assert VGPU_NUMBER not in world.get("Queue", "default")["status"]["allocated"]
