"""Shared GPUs and NPUs that fail under running Pods: a condition of the job, and Events on Pod, PodGroup and Node."""

import pytest

from scheduler.api.names import CONDITION_DEVICE_UNHEALTHY, EVENT_DEVICE_UNHEALTHY, GPU_UNHEALTHY_IDS, VGPU_IDS
from scheduler.explain.overview import overview
from scheduler.framework.configuration import Configuration
from scheduler.observability.cluster_figures import CardDevices
from tests.builders import Raw, World, feed
from tests.unit.plugins.deviceshare.devices import (
    GPU_SHARING,
    GPU_WHOLE,
    HAMI,
    HELD_NPUS,
    MINDCLUSTER,
    VGPU,
    chip_list,
    chip_node,
    gpu_node,
    jobs,
    limited,
    npu_node,
    sharing,
    slice_of,
    vgpu_node,
)

HELD_VGPUS = "n-0,NVIDIA,700,3:n-1,NVIDIA,700,3:"


def vgpu_holder(name: str = "p", ids: str = HELD_VGPUS, **rest: object) -> Raw:
    return limited(name, slice_of(2, 700, 3), on="n", annotations={VGPU_IDS: ids}, **rest)  # type: ignore[arg-type]


def condition(world: World) -> str:
    """The message about faults in the PodGroup's status, or ""."""
    conditions = world.get("PodGroup", "job")["status"].get("conditions") or ()
    found = [each for each in conditions if each["type"] == CONDITION_DEVICE_UNHEALTHY and each["status"] == "True"]
    return found[0]["message"] if found else ""


def events(world: World) -> dict[str, str]:
    """Maps a kind to the message of the Events about devices of the last session."""
    return {
        event.about.kind: event.message for event in world.decisions.events if event.reason == EVENT_DEVICE_UNHEALTHY
    }


@pytest.mark.parametrize(
    ("plan", "cluster", "limits", "annotations", "device"),
    [
        (VGPU, [vgpu_node("n", broken=[1])], slice_of(2, 700, 3), {VGPU_IDS: HELD_VGPUS}, "GPU n-1"),
        (
            HAMI,
            [npu_node("n", broken=[1])],
            {"huawei.com/Ascend310P": 1, "huawei.com/Ascend310P-memory": 3072},
            {HELD_NPUS: "n-1,Ascend310P,3072,1:;"},
            "Ascend310P n-1",
        ),
        (
            GPU_SHARING,
            [gpu_node("n", 2, 100, **{GPU_UNHEALTHY_IDS: "1"})],
            {"volcano.sh/gpu-memory": 10},
            {"volcano.sh/gpu-index": "1"},
            "GPU 1",
        ),
        (
            GPU_WHOLE,
            [gpu_node("n", 2, 100, **{GPU_UNHEALTHY_IDS: "1,7"})],
            {"volcano.sh/gpu-number": 2},
            {"volcano.sh/gpu-index": "0,1"},
            "GPU 1",
        ),
        (
            MINDCLUSTER,
            [chip_node("n"), chip_list("n", [0], unhealthy=[1])],
            {"huawei.com/npu-core": 1},
            {"huawei.com/npu-core": "1-vir01", "huawei.com/AscendReal": "Ascend310P-1c-100-1_0"},
            "Ascend310P-1",
        ),
    ],
    ids=["vGPU", "HAMi", "GPU memory", "whole GPUs", "AI cores"],
)
def test_a_card_that_fails_under_a_running_pod_is_a_condition_of_its_job_and_an_event_on_each_object(
    plan: Configuration, cluster: list[Raw], limits: dict[str, int | str], annotations: dict[str, str], device: str
) -> None:
    labels = {"ring-controller.atlas": "ascend-310P"} if plan is MINDCLUSTER else {}
    world = World(cluster, jobs(limited("p", limits, on="n", annotations=annotations, labels=labels))).run(plan)

    assert condition(world) == f"{device} of node n is unhealthy (Pod p)"
    assert events(world) == {
        "Pod": f"{device} of node n is unhealthy; the Pod uses it",
        "PodGroup": f"{device} of node n is unhealthy, used by Pod default/p",
        "Node": f"{device} is unhealthy, used by Pod default/p",
    }

    assert events(world.run(plan)) == {}, "each fault has its Events once"


def test_a_card_of_another_vendor_a_healthy_one_and_one_that_no_pod_uses_are_no_fault() -> None:
    foreign = World(vgpu_node("n", model="MLU370"), jobs(vgpu_holder())).run(VGPU)
    unused = World(vgpu_node("n", 3, broken=[2]), jobs(vgpu_holder())).run(VGPU)
    leaving = World(vgpu_node("n", broken=[1]), jobs(vgpu_holder(deleting=True))).run(VGPU)

    assert [condition(world) for world in (foreign, unused, leaving)] == ["", "", ""]


def test_the_condition_goes_when_the_card_works_again_and_a_fault_of_a_later_session_is_reported() -> None:
    world = World(vgpu_node("n"), jobs(vgpu_holder())).run(VGPU)
    assert (condition(world), events(world)) == ("", {})

    feed(world.cluster.cache, vgpu_node("n", broken=[0, 1]))
    world.run(VGPU)
    assert condition(world) == "GPU n-0 of node n is unhealthy (Pod p); GPU n-1 of node n is unhealthy (Pod p)"
    assert events(world)["Pod"] == "GPU n-0, GPU n-1 of node n are unhealthy; the Pod uses them"

    feed(world.cluster.cache, vgpu_node("n"))
    world.run(VGPU)
    assert (condition(world), events(world)) == ("", {})


def test_a_chip_that_two_plugins_report_is_named_once() -> None:
    both = sharing(AscendMindClusterVNPUEnable=True, others=["ascend"])
    labels = {"ring-controller.atlas": "ascend-310P"}
    annotations = {"huawei.com/npu-core": "1-vir01", "huawei.com/AscendReal": "Ascend310P-1c-100-1_0"}
    pod = limited("p", {"huawei.com/npu-core": 1}, on="n", annotations=annotations, labels=labels)
    world = World([chip_node("n"), chip_list("n", [0], unhealthy=[1])], jobs(pod)).run(both)

    assert condition(world) == "Ascend310P-1 of node n is unhealthy (Pod p)"
    assert events(world)["Pod"] == "Ascend310P-1 of node n is unhealthy; the Pod uses it"


def test_the_page_shows_the_fault_in_the_row_of_a_gang_that_waits() -> None:
    asks_too_much = limited("q", slice_of(1, 1_000_000))
    world = World(vgpu_node("n", broken=[1]), jobs(vgpu_holder(), asks_too_much, minimum=2)).run(VGPU)
    assert world.outcome is not None

    (row,) = overview(world.outcome.session, CardDevices()).waiting
    assert (row.group, row.alert) == ("job", "GPU n-1 of node n is unhealthy (Pod p)")
