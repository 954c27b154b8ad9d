"""vGPUs with HAMi-core in complete sessions."""

import pytest

from scheduler.api.names import (
    GPU_NO_USE_TYPE,
    GPU_USE_TYPE,
    VGPU_IDS,
    VGPU_MEMORY,
    VGPU_MEMORY_PERCENTAGE,
    VGPU_MODE,
    VGPU_NO_USE_UUID,
    VGPU_NUMBER,
    VGPU_REGISTER,
    VGPU_USE_UUID,
)
from tests.builders import Raw, World, feed, node
from tests.unit.plugins.deviceshare.devices import (
    VGPU,
    annotated,
    jobs,
    limited,
    sharing,
    slice_of,
    slices,
    vgpu_node,
    vgpu_pods,
    vgpus,
)


def holder(ids: str, on: str = "n", name: str = "old", **rest: object) -> Raw:
    """A running Pod that requested and holds these slices."""
    return limited(name, *slices(ids), on=on, annotations={VGPU_IDS: ids}, **rest)  # type: ignore[arg-type]


# --- what is given ---
def test_slices_fill_the_last_gpu_first() -> None:
    world = World(vgpu_node("n"), jobs(*vgpu_pods(6, 1, 3000, 20))).run(VGPU)
    assert vgpus(world) == {
        **dict.fromkeys(("p-0", "p-1", "p-2"), "n-1,NVIDIA,3000,20:"),
        **dict.fromkeys(("p-3", "p-4", "p-5"), "n-0,NVIDIA,3000,20:"),
    }


def test_a_bound_pod_has_all_annotations_that_the_device_plugin_reads() -> None:
    world = World(vgpu_node("n"), jobs(*vgpu_pods(1, 1, 3000, 20)))
    now = str(int(world.cluster.now))
    (bind,) = world.run(VGPU).decisions.binds
    assert bind.annotations == {
        "volcano.sh/vgpu-node": "n",
        "volcano.sh/vgpu-time": now,
        "volcano.sh/vgpu-ids-new": "n-1,NVIDIA,3000,20:",
        "volcano.sh/devices-to-allocate": "n-1,NVIDIA,3000,20:",
        "volcano.sh/bind-phase": "allocating",
        "volcano.sh/bind-time": now,
    }


def test_a_request_for_several_gpus_gets_different_gpus() -> None:
    world = World(vgpu_node("n", 4), jobs(*vgpu_pods(1, 3, 2000, 10))).run(VGPU)
    assert vgpus(world) == {"p-0": "n-3,NVIDIA,2000,10:n-2,NVIDIA,2000,10:n-1,NVIDIA,2000,10:"}


def test_containers_are_listed_separately_and_may_share_a_gpu() -> None:
    requesting = limited("p", slice_of(1, 3000, 10), {}, slice_of(2, 2000, 20), init=[{}])
    world = World(vgpu_node("n"), jobs(requesting)).run(VGPU)
    assert vgpus(world) == {"p": "n-1,NVIDIA,3000,10:;n-1,NVIDIA,2000,20:n-0,NVIDIA,2000,20:"}


def test_a_request_without_memory_gets_the_whole_gpu_memory() -> None:
    world = World(vgpu_node("n"), jobs(*vgpu_pods(3, 1))).run(VGPU)
    assert vgpus(world) == {"p-0": "n-1,NVIDIA,10000,0:", "p-1": "n-0,NVIDIA,10000,0:"}
    assert "1 node(s) had no GPU with 100% of its memory and 0% of the cores free" in world.message_of("p-2")


def test_memory_alone_means_one_gpu() -> None:
    assert vgpus(World(vgpu_node("n"), jobs(limited("p", {VGPU_MEMORY: 3000}))).run(VGPU)) == {
        "p": "n-1,NVIDIA,3000,0:"
    }


def test_a_percentage_applies_to_the_memory_of_each_gpu_and_need_not_be_allocatable() -> None:
    requesting = limited("p", {VGPU_NUMBER: 1, VGPU_MEMORY_PERCENTAGE: 30})
    assert vgpus(World(vgpu_node("n"), jobs(requesting)).run(VGPU)) == {"p": "n-1,NVIDIA,3000,0:"}


def test_a_request_for_all_cores_gets_an_unused_gpu() -> None:
    world = World(vgpu_node("n"), holder("n-1,NVIDIA,1000,0:"), jobs(*vgpu_pods(2, 1, 1000, 100))).run(VGPU)
    assert vgpus(world) == {"p-0": "n-0,NVIDIA,1000,100:"}


def test_a_request_without_cores_does_not_fit_a_gpu_without_free_cores() -> None:
    world = World(vgpu_node("n", 1), holder("n-0,NVIDIA,1000,100:"), jobs(*vgpu_pods(1, 1, 1000, 0))).run(VGPU)
    assert vgpus(world) == {}


def test_a_gpu_takes_as_many_containers_as_it_was_split_into() -> None:
    world = World(vgpu_node("n", 1, slots=2), jobs(*vgpu_pods(3, 1, 100, 1))).run(VGPU)
    assert len(vgpus(world)) == 2


def test_an_unhealthy_gpu_is_not_allocated() -> None:
    world = World(vgpu_node("n", 2, broken=[1]), jobs(*vgpu_pods(1, 1, 3000, 10))).run(VGPU)
    assert vgpus(world) == {"p-0": "n-0,NVIDIA,3000,10:"}


def test_a_number_of_zero_requests_nothing() -> None:
    world = World(vgpu_node("n"), jobs(*vgpu_pods(1, 0))).run(VGPU)
    assert world.bound == {"p-0": "n"} and vgpus(world) == {}


@pytest.mark.parametrize(
    ("annotations", "gpu"),
    [
        ({GPU_USE_TYPE: "a100"}, "n-1"),
        ({GPU_USE_TYPE: "H100,A100"}, "n-1"),
        ({GPU_NO_USE_TYPE: "A100,H100"}, "v-1"),
        ({GPU_USE_TYPE: "V100", GPU_NO_USE_TYPE: "V100"}, "v-1"),
        ({VGPU_USE_UUID: "n-0 , v-0"}, "n-0"),
        ({VGPU_NO_USE_UUID: "n-0,n-1,v-1"}, "v-0"),
        ({VGPU_USE_UUID: "v-0,v-1", VGPU_NO_USE_UUID: "v-1"}, "v-0"),
        ({VGPU_MODE: "hami-core"}, "n-1"),
        ({VGPU_USE_UUID: "x"}, None),
        ({VGPU_MODE: "mig"}, None),
    ],
)
def test_a_pod_chooses_by_type_uuid_and_mode(annotations: dict[str, str], gpu: str | None) -> None:
    nodes = [vgpu_node("n", model="NVIDIA-A100"), vgpu_node("v")]
    world = World(nodes, jobs(*vgpu_pods(1, 1, 100, 1, annotations=annotations))).run(VGPU)
    assert vgpus(world) == ({} if gpu is None else {"p-0": f"{gpu},NVIDIA,100,1:"})
    if gpu is None:
        assert "2 node(s) had no vGPUs of the kind that the Pod asks for" in world.message_of("p-0")


# --- policies ---
def test_binpack_fills_the_gpu_and_the_node_in_use() -> None:
    nodes = [vgpu_node("n"), vgpu_node("v")]
    settings = sharing(VGPUEnable=True, SchedulePolicy="binpack", ScheduleWeight=10)
    world = World(nodes, holder("v-0,NVIDIA,3000,10:", "v"), jobs(*vgpu_pods(2, 1, 3000, 10))).run(settings)
    assert vgpus(world) == dict.fromkeys(("p-0", "p-1"), "v-0,NVIDIA,3000,10:")


def test_spread_takes_the_gpu_with_fewest_pods() -> None:
    settings = sharing(VGPUEnable=True, SchedulePolicy="spread", ScheduleWeight=10)
    world = World(vgpu_node("n", 3), jobs(*vgpu_pods(4, 1, 1000, 10))).run(settings)
    assert [ids.split(",")[0] for ids in vgpus(world).values()] == ["n-0", "n-1", "n-2", "n-0"]


def test_spread_prefers_a_node_with_an_idle_gpu_though_others_pack() -> None:
    settings = sharing(VGPUEnable=True, SchedulePolicy="spread", ScheduleWeight=10, others=["binpack"])
    world = World(vgpu_node("n", 1), vgpu_node("v", 1), holder("n-0,NVIDIA,3000,10:"), jobs(*vgpu_pods(1, 1, 3000, 10)))
    assert world.run(settings).bound == {"p-0": "v"}


def test_a_gang_is_placed_over_two_nodes_or_not_at_all() -> None:
    nodes = [vgpu_node("n", 1), vgpu_node("v", 1)]
    assert len(vgpus(World(nodes, jobs(*vgpu_pods(4, 1, 5000, 50), minimum=4)).run(VGPU))) == 4
    assert vgpus(World(nodes, jobs(*vgpu_pods(5, 1, 4000, 50), minimum=5)).run(VGPU)) == {}


# --- from session to session ---
def test_the_next_session_counts_allocated_slices() -> None:
    world = World(vgpu_node("n", 1), jobs(*vgpu_pods(1, 1, 6000, 10))).run(VGPU)
    feed(world.cluster.cache, *jobs(*vgpu_pods(1, 1, 5000, 10, name="q"), name="next"))
    assert vgpus(world.run(VGPU)) == {}


def test_two_containers_of_one_pod_on_a_gpu_both_count() -> None:
    world = World(vgpu_node("n", 1), holder("n-0,NVIDIA,4000,10:;n-0,NVIDIA,4000,10:"), jobs(*vgpu_pods(1, 1, 3000, 1)))
    assert vgpus(world.run(VGPU)) == {}


def test_the_slices_of_a_terminating_pod_are_pipelined_not_allocated() -> None:
    leaving = holder("n-0,NVIDIA,9000,90:", deleting=True)
    world = World(vgpu_node("n", 1), leaving, jobs(*vgpu_pods(1, 1, 5000, 50))).run(VGPU)
    assert world.bound == {} and "can possibly be assigned to n, once resource is released" in world.message_of("p-0")


def test_preemption_evicts_only_as_many_pods_as_free_a_gpu() -> None:
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": n}, "value": v}
        for n, v in (("high", 100), ("low", 1))
    ]
    low = [
        limited(f"low-{i}", slice_of(1, 5000, 40), on="n", annotations={VGPU_IDS: "n-0,NVIDIA,5000,40:"}, priority=1)
        for i in range(2)
    ]
    high = vgpu_pods(1, 1, 4000, 40, name="high", priority=100)
    world = World(
        classes,
        vgpu_node("n", 1),
        jobs(*low, name="low", priority_class="low"),
        jobs(*high, name="high", priority_class="high"),
    )
    settings = sharing(VGPUEnable=True, actions="enqueue, allocate, preempt", others=["conformance"])
    assert len(world.run(settings).evicted) == 1


def test_preemption_for_a_card_evicts_one_pod_and_waits_until_it_is_deleted() -> None:
    low = [holder(f"n-{i},NVIDIA,5000,40:", name=f"low-{i}", priority=1) for i in range(2)]
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": n}, "value": v}
        for n, v in (("high", 100), ("low", 1))
    ]
    world = World(
        classes,
        vgpu_node("n"),
        jobs(*low, name="low", priority_class="low"),
        jobs(*vgpu_pods(1, 1, 8000, 40, name="high", priority=100), name="high", priority_class="high"),
    )
    settings = sharing(VGPUEnable=True, actions="enqueue, allocate, preempt", others=["conformance"])
    assert len(world.run(settings).evicted) == 1
    assert world.run(settings).bound == {} and world.evicted == set()
    world.cluster.run_kubelet()
    world.cluster.run_kubelet()
    assert list(world.run(settings).bound) == ["high-0"]


# --- hostile input ---
@pytest.mark.parametrize(
    "register",
    ["rubbish", "", ":", "u,1,2,NVIDIA:", "u,x,100,NVIDIA,true,hami-core:", "u,1,-5,NVIDIA,true,hami-core:",
     "u,1,1,NVIDIA,true,hami-core:u,1,1,NVIDIA,true,hami-core:", "x" * 70_000,
     "".join(f"u{i},1,1,NVIDIA,true,m:" for i in range(200))],
)  # fmt: skip
def test_a_malformed_register_is_reported_and_the_node_takes_no_vgpu_pod(register: str) -> None:
    bad = annotated(vgpu_node("bad"), {VGPU_REGISTER: register})
    world = World(bad, vgpu_node("good"), jobs(*vgpu_pods(1, 1, 100, 1), limited("plain", {"cpu": 1}))).run(VGPU)
    assert world.bound["p-0"] == "good" and "plain" in world.bound
    (problem,) = world.malformed
    assert problem.startswith(f"Node bad metadata.annotations[{VGPU_REGISTER}]: ")


@pytest.mark.parametrize(
    "ids", ["n-0", "n-0,NVIDIA,x,1:", "n-0,NVIDIA,-1,1:", "n-0,NVIDIA,99999999999,0:", "," * 70_000]
)
def test_malformed_slices_of_a_pod_are_reported_and_ignored(ids: str) -> None:
    old = limited("old", slice_of(1, 1, 0), on="n", annotations={VGPU_IDS: ids})
    world = World(vgpu_node("n", 1), old, jobs(*vgpu_pods(1, 1, 100, 1))).run(VGPU)
    assert vgpus(world) == {"p-0": "n-0,NVIDIA,100,1:"}
    (problem,) = world.malformed
    assert problem.startswith(f"Pod old metadata.annotations[{VGPU_IDS}]: ")


def test_a_problem_is_reported_once_while_nothing_changes() -> None:
    world = World(annotated(vgpu_node("n"), {VGPU_REGISTER: "rubbish"})).run(VGPU, 3)
    assert len(world.events("Malformed")) == 1


def test_a_problem_reported_in_one_cluster_is_reported_in_another() -> None:
    for _ in range(2):
        assert len(World(annotated(vgpu_node("n"), {VGPU_REGISTER: "rubbish"})).run(VGPU).malformed) == 1


def test_slices_of_missing_gpus_are_ignored() -> None:
    world = World(vgpu_node("n", 1), holder("gone,NVIDIA,1,0:"), jobs(*vgpu_pods(1, 1, 9999, 100))).run(VGPU)
    assert len(vgpus(world)) == 1


def test_a_node_without_registered_gpus_takes_no_vgpu_pod_despite_its_allocatable_amounts() -> None:
    raw = vgpu_node("n")
    del raw["metadata"]["annotations"][VGPU_REGISTER]
    world = World(raw, node("plain"), jobs(*vgpu_pods(1, 1, 100, 1))).run(VGPU)
    assert world.bound == {} and "node(s) had no vGPUs" in world.message_of("p-0")


def test_amounts_that_no_gpu_has_are_refused_with_numbers() -> None:
    world = World(vgpu_node("n"), jobs(*vgpu_pods(1, 1, 15_000, 10))).run(VGPU)
    assert "1 node(s) had no GPU with 15000 of its memory and 10% of the cores free" in world.message_of("p-0")
