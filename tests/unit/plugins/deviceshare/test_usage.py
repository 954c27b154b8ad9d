"""The GPU usage of a session for metrics."""

from prometheus_client import generate_latest

from scheduler.api.names import VGPU_IDS
from scheduler.observability.metrics import Metrics
from scheduler.plugins.deviceshare.ledger import DEVICE_USAGE
from tests.builders import World, configuration
from tests.unit.plugins.deviceshare.devices import VGPU, jobs, limited, slice_of, vgpu_node, vgpu_pods


def test_gpus_and_the_pods_on_them_are_measured_under_volcanos_names() -> None:
    held = limited("old", slice_of(1, 1000, 5), on="n", annotations={VGPU_IDS: "n-1,NVIDIA,1000,5:"})
    world = World(vgpu_node("n"), held, jobs(*vgpu_pods(1, 1, 3000, 20))).run(VGPU)
    assert world.outcome is not None
    metrics = Metrics()
    metrics.devices.update(world.outcome.session.shared[DEVICE_USAGE])

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"volcano_vgpu_device_{name}", {"NodeName": "n", **labels})

    assert value("shared_number", devID="n-1") == 2
    assert value("allocated_memory", devID="n-1") == 4000
    assert value("allocated_cores", devID="n-1") == 25
    assert value("memory_limit", devID="n-0") == 10_000
    assert value("shared_number", devID="n-0") == 0
    assert value("memory_allocation_for_a_certain_pod", devID="n-1", podName="p-0") == 3000
    assert value("core_allocation_for_a_certain_pod", devID="n-1", podName="old") == 5


def test_without_the_plugin_there_are_no_gpu_metrics() -> None:
    world = World(vgpu_node("n")).run(configuration(["gang"]))
    assert world.outcome is not None and DEVICE_USAGE not in world.outcome.session.shared
    metrics = Metrics()
    metrics.devices.update(world.outcome.session.shared.get(DEVICE_USAGE, ()))
    assert "volcano_vgpu_device_memory_limit{" not in generate_latest(metrics.registry).decode()
