"""Devices of init containers and sidecars are chosen, written in the order in which the kubelet allocates them, and
counted with the most that is used at once; or they are refused if the device plugin does not serve init containers."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given as each
from hypothesis import strategies as st

from scheduler.api.names import (
    GPU_INDEX,
    GPU_MEMORY,
    GPU_NUMBER,
    NPU_CORE,
    VGPU_CORES,
    VGPU_IDS,
    VGPU_IDS_TO_ALLOCATE,
    VGPU_MEMORY,
)
from scheduler.framework.configuration import Configuration
from scheduler.plugins.deviceshare.cards import (
    BINPACK,
    SPREAD,
    Card,
    Cards,
    ContainerKind,
    ContainerRequest,
    Grant,
    charge,
    fits,
)
from scheduler.plugins.deviceshare.containers import held_of
from scheduler.plugins.deviceshare.plugin import DeviceShare
from scheduler.plugins.deviceshare.vgpu_placement import place
from tests.builders import Raw, World, queue
from tests.unit.plugins.deviceshare.devices import (
    ASCEND,
    GPU_SHARING,
    GPU_WHOLE,
    HAMI,
    HELD_NPUS,
    MINDCLUSTER,
    VGPU,
    Sidecar,
    annotated,
    chip_list,
    chip_node,
    given,
    gpu_node,
    gpus,
    jobs,
    limited,
    npu_node,
    npus,
    sharing,
    slice_of,
    vgpu_node,
    vgpus,
)

ANY_PLUGIN = sharing(VGPUEnable=True, VGPUInitContainersEnable=True)
NPUS_TO_ALLOCATE = "hami.io/Ascend310P-devices-to-allocate"
LABELS = {"ring-controller.atlas": "ascend-310P"}
INIT, SIDECAR, APP = ContainerKind.INIT, ContainerKind.SIDECAR, ContainerKind.APP


def used(world: World, plan: Configuration = ANY_PLUGIN) -> list[tuple[int, int, int]]:
    """The (containers, memory, cores) in use on each card."""
    (ledger,) = next(p for p in world.session(plan).plugins if isinstance(p, DeviceShare)).ledgers
    return [(card.used, card.used_memory, card.used_cores) for card in ledger.cards(0, later=False)]


def npu(memory: int) -> dict[str, int | str]:
    return {ASCEND: 1, f"{ASCEND}-memory": memory}


# --- vGPUs ---
@pytest.mark.parametrize("asked", [slice_of(1, 8000, 30), Sidecar(slice_of(1, 8000, 30))], ids=["init", "sidecar"])
def test_a_vgpu_of_an_init_container_only_is_chosen_written_and_counted(asked: dict[str, int | str]) -> None:
    world = World(vgpu_node("n", 1), jobs(limited("p", {}, init=[asked])))
    assert given(world.run(VGPU), VGPU_IDS) == {"p": "n-0,NVIDIA,8000,30:"}
    assert given(world, VGPU_IDS_TO_ALLOCATE) == {"p": "n-0,NVIDIA,8000,30:"}
    assert used(world, VGPU) == [(1, 8000, 30)]


def test_vgpus_are_listed_in_the_order_in_which_the_kubelet_allocates_them() -> None:
    init = [slice_of(1, 1000, 1), {}, Sidecar(slice_of(1, 2000, 2))]
    world = World(vgpu_node("n", 1), jobs(limited("p", {}, slice_of(1, 3000, 3), {}, slice_of(1, 4000, 4), init=init)))
    assert vgpus(world.run(VGPU)) == {
        "p": "n-0,NVIDIA,1000,1:;n-0,NVIDIA,2000,2:;n-0,NVIDIA,3000,3:;n-0,NVIDIA,4000,4:"
    }


def test_init_containers_without_vgpus_change_nothing() -> None:
    """The entries are those of Volcano: containers without vGPUs are left out."""
    pod = limited("p", {}, slice_of(1, 8000, 20), {}, slice_of(1, 1000, 10), init=[{}, Sidecar({})])
    assert vgpus(World(vgpu_node("n"), jobs(pod)).run(VGPU)) == {"p": "n-1,NVIDIA,8000,20:;n-1,NVIDIA,1000,10:"}


def test_a_sidecar_counts_beside_the_containers() -> None:
    first = limited("p", slice_of(1, 6000, 30), init=[Sidecar(slice_of(1, 5000, 20))])
    second = limited("q", slice_of(1, 4500, 30), init=[Sidecar(slice_of(1, 4500, 20))])
    world = World(vgpu_node("n"), jobs(first, second)).run(ANY_PLUGIN)
    assert vgpus(world) == {"p": "n-1,NVIDIA,5000,20:;n-0,NVIDIA,6000,30:"}
    assert used(world) == [(1, 6000, 30), (1, 5000, 20)]
    reason = "1 node(s) had no GPU with 4500 of its memory and 20% of the cores free and GPU with 4500 of its memory"
    assert reason in world.message_of("q")


def test_an_init_container_uses_what_the_containers_after_it_use() -> None:
    world = World(vgpu_node("n", 1), jobs(limited("p", slice_of(1, 9000, 90), init=[slice_of(1, 8000, 100)])))
    assert vgpus(world.run(ANY_PLUGIN)) == {"p": "n-0,NVIDIA,8000,100:;n-0,NVIDIA,9000,90:"}
    assert used(world) == [(1, 9000, 100)]


def test_an_init_container_is_placed_on_the_gpu_of_the_pod_that_the_policy_would_not_choose_first() -> None:
    old = limited("old", slice_of(1, 4000, 10), on="n", annotations={VGPU_IDS: "n-1,NVIDIA,4000,10:"})
    world = World(vgpu_node("n"), old, jobs(limited("p", slice_of(1, 8000, 30), init=[slice_of(1, 5000, 20)])))
    assert vgpus(world.run(ANY_PLUGIN)) == {"p": "n-0,NVIDIA,5000,20:;n-0,NVIDIA,8000,30:"}
    assert used(world) == [(1, 8000, 30), (1, 4000, 10)]


def test_a_sidecar_after_an_init_container_does_not_run_beside_it() -> None:
    init = [slice_of(1, 9000, 90), Sidecar(slice_of(1, 5000, 50)), slice_of(1, 5000, 50)]
    world = World(vgpu_node("n", 1), jobs(limited("p", {}, init=init)))
    assert len(vgpus(world.run(ANY_PLUGIN))["p"].split(";")) == 3
    assert used(world) == [(2, 10_000, 100)]
    init = [Sidecar(slice_of(1, 5000, 50)), slice_of(1, 9000, 50)]
    assert vgpus(World(vgpu_node("n", 1), jobs(limited("p", {}, init=init))).run(ANY_PLUGIN)) == {}


def test_the_queue_is_charged_with_the_most_vgpu_memory_and_cores_that_a_pod_uses_at_once() -> None:
    """The init container is on another GPU than the container, which is never used at the same time."""
    old = limited("old", slice_of(1, 9000, 10), on="n", annotations={VGPU_IDS: "n-1,NVIDIA,9000,10:"})
    requesting = limited("p", slice_of(1, 1000, 30), init=[slice_of(2, 1000, 50)])
    session = World(vgpu_node("n"), old, jobs(requesting)).run(ANY_PLUGIN).session(ANY_PLUGIN)
    (plugin,) = (p for p in session.plugins if isinstance(p, DeviceShare))
    held = {task.name: amounts for task, amounts in plugin._held_amounts()}
    assert held["p"] == {VGPU_MEMORY: 2000, VGPU_CORES: 100}


def test_more_containers_with_vgpus_than_the_device_plugin_looks_up_are_refused_with_the_reason() -> None:
    asked = slice_of(1, 1000, 10)
    world = World(vgpu_node("n"), jobs(limited("p", asked, init=[Sidecar(asked)]))).run(VGPU)
    assert world.bound == {}
    assert (
        "the device plugin of vGPUs serves at most as many containers of a Pod as it has besides init containers, here "
        "1; 2 ask for vGPUs: i0 (an init container), c0 (with another device plugin: "
        "deviceshare.VGPUInitContainersEnable: true)"
    ) in world.message_of("p")
    world = World(vgpu_node("n"), jobs(limited("p", asked, {}, init=[Sidecar(asked)]))).run(VGPU)
    assert vgpus(world) == {"p": "n-1,NVIDIA,1000,10:;n-1,NVIDIA,1000,10:"}


def test_a_pod_that_was_annotated_without_its_init_containers_holds_what_is_listed() -> None:
    """The entries are those of Volcano, for the containers that are no init containers."""
    ids = "n-0,NVIDIA,3000,30:;n-1,NVIDIA,4000,40:"
    containers = slice_of(1, 3000, 30), slice_of(1, 4000, 40)
    old = limited("old", *containers, init=[slice_of(1, 1000, 10)], on="n", annotations={VGPU_IDS: ids})
    assert used(World(vgpu_node("n"), old), VGPU) == [(1, 3000, 30), (1, 4000, 40)]


def test_what_was_written_is_read_back_after_a_restart() -> None:
    init = [slice_of(1, 9000, 10), Sidecar(slice_of(2, 1000, 5)), slice_of(1, 100, 90)]
    world = World(vgpu_node("n"), jobs(limited("p", slice_of(1, 2000, 20), {}, slice_of(1, 8000, 1), init=init)))
    world.run(ANY_PLUGIN)
    before = used(world)
    bound = world.get("Pod", "p")
    restarted = World(vgpu_node("n"), annotated(dict(bound), {}))
    assert used(restarted) == before
    assert not restarted.session(ANY_PLUGIN).malformed


CARDS = st.lists(
    st.builds(
        lambda used, memory, cores: Card(6, 100, 100, used, memory * bool(used), cores * bool(used)),
        st.integers(0, 3),
        st.integers(0, 80),
        st.integers(0, 80),
    ),
    min_size=1,
    max_size=3,
)
REQUESTS = st.lists(
    st.builds(
        lambda kind, number, memory, cores: ContainerRequest(number, memory, cores, kind=kind),
        st.sampled_from([INIT, SIDECAR, APP]),
        st.integers(1, 2),
        st.integers(0, 60),
        st.sampled_from([0, 10, 40, 100]),
    ),
    min_size=1,
    max_size=5,
)


@each(CARDS.map(tuple), REQUESTS, st.sampled_from(["", BINPACK, SPREAD]))
def test_at_every_moment_what_runs_fits_and_what_is_held_is_the_most_at_once(
    cards: Cards, requests: list[ContainerRequest], policy: str
) -> None:
    ordered = tuple(sorted(requests, key=lambda request: request.kind is APP))
    placement = place(cards, ordered, -1, policy, 1)
    if placement is None:
        return
    moments: list[Grant] = []
    sidecars: Grant = ()
    for request, uses in zip(ordered, placement.grant, strict=True):
        assert len({use.card for use in uses}) == request.number == len(uses)
        for use in uses:
            assert fits(charge(cards, sidecars)[use.card], use.memory, use.cores) or request.kind is not INIT
        if request.kind is not APP:
            moments.append((*sidecars, uses))
        if request.kind is SIDECAR:
            sidecars = (*sidecars, uses)
    apps = tuple(uses for request, uses in zip(ordered, placement.grant, strict=True) if request.kind is APP)
    moments.append((*sidecars, *apps))
    states = [charge(cards, moment) for moment in moments]
    held = charge(cards, placement.held)
    for i, card in enumerate(held):
        assert card.used == max(state[i].used for state in states) <= card.slots
        assert card.used_memory == max(state[i].used_memory for state in states) <= card.memory
        assert card.used_cores == max(state[i].used_cores for state in states) <= card.cores
    assert charge(held, held_of(ordered, placement.grant), -1) == cards


def test_a_job_that_no_device_plugin_serves_is_not_admitted_and_reserves_nothing() -> None:
    asked = slice_of(1, 6000, 10)
    pods = limited("p", asked, init=[asked]), limited("q", asked)
    first = jobs(*pods, name="first", minimum=2, phase="Pending", asks=f"{VGPU_MEMORY}=12000")
    second = jobs(limited("r", slice_of(1, 9000, 10)), name="second", phase="Pending", asks=f"{VGPU_MEMORY}=9000")
    conf = sharing(VGPUEnable=True, others=["proportion"])
    world = World(vgpu_node("n"), queue("default"), first, second).run(conf)
    assert vgpus(world) == {"r": "n-1,NVIDIA,9000,10:"}
    assert world.phase("first") == "Pending"
    reason = "1 of 2 Pods cannot start, 2 are needed: the device plugin of vGPUs serves at most"
    assert any(reason in event.message for event in world.decisions.events)


def test_a_job_of_which_enough_pods_are_served_is_admitted() -> None:
    asked = slice_of(1, 6000, 10)
    job = jobs(limited("p", asked, init=[asked]), limited("q", asked), name="first", phase="Pending")
    assert vgpus(World(vgpu_node("n"), job).run(VGPU)) == {"q": "n-1,NVIDIA,6000,10:"}


@pytest.mark.parametrize(
    ("node", "asked", "plan", "message"),
    [
        (vgpu_node("n"), slice_of(1, 1, 1), ANY_PLUGIN, "65 containers of the Pod ask for vGPUs; at most 64 may"),
        (npu_node("n", 2), {ASCEND: 1}, HAMI, "Ascend310P for 65 containers of a Pod: at most 64 may ask for some"),
    ],
    ids=["vGPUs", "NPUs of HAMi"],
)
def test_a_pod_with_very_many_containers_with_cards_is_refused(
    node: Raw, asked: dict[str, int | str], plan: Configuration, message: str
) -> None:
    """The cost of placing a Pod has a limit."""
    pod = limited("p", asked, init=[asked] * 64)
    for resources in (c["resources"] for c in pod["spec"]["initContainers"]):
        resources.pop("requests")
    world = World(node, jobs(pod)).run(plan)
    assert world.bound == {}
    assert message in world.message_of("p")


# --- NPUs of HAMi ---
def test_npus_are_listed_for_hamis_device_plugin_by_position_and_for_others_without_gaps() -> None:
    pod = limited("p", {}, npu(3072), {}, npu(6144), init=[{}, Sidecar(npu(12288)), {}])
    world = World(npu_node("n", 3), jobs(pod)).run(HAMI)
    entries = "n-0,Ascend310P,12288,0:", "n-1,Ascend310P,3072,0:", "n-2,Ascend310P,6144,0:"
    assert npus(world) == {"p": "".join(f"{entry};" for entry in entries)}
    side, first, second = entries
    assert given(world, NPUS_TO_ALLOCATE) == {"p": f";{side};;;{first};;{second};"}
    assert [use["UUID"] for use in json.loads(given(world, ASCEND)["p"])] == ["n-0", "n-1", "n-2"]


def test_an_init_container_gets_the_npu_of_a_container_only_if_both_ask_for_the_same() -> None:
    """The device plugin looks up amounts by NPU."""
    world = World(npu_node("n", 2), jobs(limited("p", npu(3072), init=[npu(3072)]))).run(HAMI)
    assert npus(world) == {"p": "n-0,Ascend310P,3072,0:;n-0,Ascend310P,3072,0:;"}
    assert json.loads(given(world, ASCEND)["p"]) == [{"UUID": "n-0", "temp": "vir01"}]
    assert used(world, HAMI) == [(1, 3072, 0), (0, 0, 0)]
    world = World(npu_node("n", 2), jobs(limited("p", npu(3072), init=[npu(6144)]))).run(HAMI)
    assert npus(world) == {"p": "n-1,Ascend310P,6144,0:;n-0,Ascend310P,3072,0:;"}
    assert used(world, HAMI) == [(1, 3072, 0), (1, 6144, 0)]


def test_an_npu_of_a_sidecar_is_not_shared_with_a_later_init_container() -> None:
    world = World(npu_node("n", 2), jobs(limited("p", {}, init=[Sidecar(npu(3072)), npu(3072)]))).run(HAMI)
    assert npus(world) == {"p": "n-0,Ascend310P,3072,0:;n-1,Ascend310P,3072,0:;"}


def test_an_npu_of_an_init_container_only_is_chosen_and_read_back() -> None:
    world = World(npu_node("n", 1), jobs(limited("p", {}, init=[npu(3072)]))).run(HAMI)
    assert given(world, NPUS_TO_ALLOCATE) == {"p": "n-0,Ascend310P,3072,0:;;"}
    assert used(world, HAMI) == [(1, 3072, 0)]


def test_npus_that_were_annotated_without_init_containers_are_those_of_the_containers() -> None:
    old = limited("old", npu(3072), init=[npu(6144)], on="n", annotations={HELD_NPUS: "n-1,Ascend310P,3072,0:;"})
    assert used(World(npu_node("n", 2), old), HAMI) == [(0, 0, 0), (1, 3072, 0)]


def test_npus_that_are_listed_by_position_are_read_too() -> None:
    held = {HELD_NPUS: ";n-0,Ascend310P,6144,0:;;n-1,Ascend310P,3072,0:;"}
    old = limited("old", {}, npu(3072), init=[{}, Sidecar(npu(6144))], on="n", annotations=held)
    assert used(World(npu_node("n", 2), old), HAMI) == [(1, 6144, 0), (1, 3072, 0)]


# --- device plugins that ignore init containers ---
@pytest.mark.parametrize("asked", [{GPU_MEMORY: 3000}, Sidecar({GPU_MEMORY: 3000})], ids=["init", "sidecar"])
@pytest.mark.parametrize("others", [{}, {GPU_MEMORY: 3000}], ids=["alone", "and a container"])
def test_gpu_memory_of_an_init_container_is_refused_with_the_reason(
    asked: dict[str, int | str], others: dict[str, int | str]
) -> None:
    world = World(gpu_node("n", 2, 8000), jobs(limited("p", others, init=[asked]))).run(GPU_SHARING)
    assert gpus(world) == world.bound == {}
    assert (
        "the device plugin of volcano.sh/gpu-memory serves no init containers; "
        "the Pod asks in init container i0 for 3000"
    ) in world.message_of("p")


def test_whole_gpus_of_an_init_container_are_refused_with_the_reason() -> None:
    world = World(gpu_node("n", 2, 8000), jobs(limited("p", {GPU_NUMBER: 1}, init=[{GPU_NUMBER: 2}]))).run(GPU_WHOLE)
    assert world.bound == {}
    assert "the device plugin of volcano.sh/gpu-number serves no init containers" in world.message_of("p")


def test_gpu_memory_of_a_running_pod_counts_with_the_most_at_once() -> None:
    init: list[Mapping[str, int | str]] = [Sidecar({GPU_MEMORY: 2000}), {GPU_MEMORY: 1000}]
    old = limited("old", {GPU_MEMORY: 3000}, init=init, on="n", annotations={GPU_INDEX: "1"})
    assert used(World(gpu_node("n", 2, 8000), old), GPU_SHARING) == [(0, 0, 0), (1, 5000, 0)]


@pytest.mark.parametrize("asked", [{NPU_CORE: 4}, Sidecar({NPU_CORE: 4})], ids=["init", "sidecar"])
@pytest.mark.parametrize("others", [{}, {NPU_CORE: 4}], ids=["alone", "and a container"])
def test_ai_cores_of_an_init_container_are_refused_with_the_reason(
    asked: dict[str, int | str], others: dict[str, int | str]
) -> None:
    world = World(chip_node("n"), chip_list("n", [0, 1]), jobs(limited("p", others, init=[asked], labels=LABELS)))
    assert world.run(MINDCLUSTER).bound == {}
    assert (
        "the device plugin of huawei.com/npu-core serves no init containers; the Pod asks in init container i0 for 4"
    ) in world.message_of("p")


def test_chips_that_an_init_container_has_whole_are_not_divided() -> None:
    whole = {"huawei.com/Ascend310P": "Ascend310P-0"}
    old: Raw = limited("old", {}, init=[{ASCEND: 1}], on="n", annotations=whole)
    world = World(chip_node("n"), chip_list("n", [0, 1]), old, jobs(limited("p", {NPU_CORE: 4}, labels=LABELS)))
    assert given(world.run(MINDCLUSTER), NPU_CORE) == {"p": "1-vir04_3c"}
