"""Chips of init containers and sidecars. The device plugin serves them only if they request all chips of their node."""

import pytest

from scheduler.api.names import ASCEND_910, HUAWEI_PREFIX, NPU_CORE
from scheduler.plugins.ascend.npu_requests import ChipResource
from scheduler.plugins.ascend.remedies import _without_chip
from scheduler.plugins.ascend.rescheduling.faults import tasks_without_chips
from tests.builders import Raw, World, group
from tests.unit.plugins.ascend.chips import CONFIGURATION, chips_of, names, npu_node, npu_pod, refusal_of
from tests.unit.plugins.ascend.sharing.shares import POLICY, shared_node
from tests.unit.plugins.ascend.sharing.shares import sharing as sharing_job
from tests.unit.plugins.ascend.vnpu.parts import core_info, core_job, core_node, core_pod, cores_of

TWO = f"{HUAWEI_PREFIX}Ascend910-2c"
FIRST, SECOND = "Ascend910-2c-100-0", "Ascend910-2c-101-1"


def with_init(raw: Raw, resource: str, number: int, *, sidecar: bool = False, alone: bool = False) -> Raw:
    """The Pod with an init container ``i0`` that requests ``number`` of a resource; ``alone``: no other container
    does."""
    amounts = {resource: str(number)}
    lasting = {"restartPolicy": "Always"} if sidecar else {}
    raw["spec"]["initContainers"] = [{"name": "i0", **lasting, "resources": {"requests": amounts, "limits": amounts}}]
    for container in raw["spec"]["containers"] if alone else ():
        for amounts in container["resources"].values():
            amounts.pop(resource, None)
    return raw


def whole(chips: int, own: int = 8, **rest: bool) -> list[Raw]:
    """A job of one Pod with an init container that requests ``chips`` chips; its other container requests ``own``."""
    return [group("j"), with_init(npu_pod("j-0", own, "j"), ASCEND_910, chips, **rest)]


# --- whole chips ---
@pytest.mark.parametrize(
    "job",
    [whole(8), whole(8, alone=True), whole(8, sidecar=True, alone=True)],
    ids=["init container and container", "init container alone", "sidecar alone"],
)
def test_containers_that_ask_for_all_chips_of_a_node_get_them_whatever_their_kind(job: list[Raw]) -> None:
    world = World(npu_node("n"), job).run(CONFIGURATION)
    assert chips_of(world) == {"j-0": ("n", [*range(8)])}


def test_chips_of_an_init_container_are_counted_in_the_next_session() -> None:
    world = World(npu_node("n"), whole(8, alone=True)).run(CONFIGURATION)
    assert world.bound == {"j-0": "n"}
    another = World(npu_node("n"), world.get("Pod", "j-0"), group("k"), npu_pod("k-0", 1, "k")).run(CONFIGURATION)
    assert another.bound == {}


def test_an_init_container_that_asks_for_some_chips_of_the_nodes_is_refused_with_the_reason() -> None:
    world = World(npu_node("n"), whole(4, alone=True)).run(CONFIGURATION)
    assert world.bound == {}
    assert (
        "1 node(s) did not have exactly the 4 chips that init container i0 asks for; "
        "the device plugin serves init containers only if they ask for all chips of the node"
    ) in world.message_of("j-0")
    assert chips_of(World(npu_node("n", 4), whole(4, alone=True)).run(CONFIGURATION)) == {"j-0": ("n", [0, 1, 2, 3])}


@pytest.mark.parametrize(
    ("job", "own"),
    [(whole(4), ", 8 in container main"), (whole(4, 4, sidecar=True), ", 4 in container main")],
    ids=["fewer than the container", "a sidecar beside the container"],
)
def test_an_init_container_that_does_not_have_all_chips_of_the_pod_is_refused_with_the_reason(
    job: list[Raw], own: str
) -> None:
    assert refusal_of("j", npu_node("n"), job) == (
        f"Pod default/j-0 asks for huawei.com/Ascend910: 4 in init container i0{own}; the device plugin serves init "
        "containers only if every container that asks for chips asks for all chips of the node"
    )


def test_a_pod_that_asks_for_0_chips_in_an_init_container_only_is_refused() -> None:
    assert refusal_of("j", npu_node("n"), whole(0, alone=True)) == "Pod default/j-0 asks for 0 huawei.com/Ascend910"


# --- parts and shares of chips ---
@pytest.mark.parametrize("sidecar", [False, True])
@pytest.mark.parametrize("alone", [False, True])
def test_ai_cores_of_an_init_container_are_refused_with_the_reason(sidecar: bool, alone: bool) -> None:
    pod = with_init(core_pod("j-0", 4 if not sidecar or alone else 2, "j"), NPU_CORE, 4, sidecar=sidecar, alone=alone)
    assert refusal_of("j", core_node("n"), core_info("n", [0, 1]), group("j"), pod) == (
        "Pod default/j-0 asks for huawei.com/npu-core: 4 in init container i0; "
        "the device plugin serves no init containers"
    )


def test_ai_cores_of_a_pod_with_another_init_container_are_assigned() -> None:
    job = core_job("j", 4)
    job[1]["spec"]["initContainers"] = [{"name": "i0"}]
    assert cores_of(World(core_node("n"), core_info("n", [0, 1]), job).run(CONFIGURATION)) == {"j-0": "n:0-vir04_3c"}


def test_a_share_of_a_chip_for_an_init_container_is_refused_with_the_reason() -> None:
    job = sharing_job("j", 20)
    with_init(job[1], ASCEND_910, 20)
    assert job[0]["metadata"]["annotations"] == POLICY
    assert refusal_of("j", *shared_node("n"), job) == (
        "Pod default/j-0 asks for huawei.com/Ascend910: 20 in init container i0; "
        "the device plugin serves no init containers"
    )


# --- virtual NPUs that were created beforehand ---
@pytest.mark.parametrize("alone", [False, True])
def test_an_init_container_gets_a_virtual_npu_that_the_container_after_it_uses_too(alone: bool) -> None:
    """The kubelet chooses the device, and gives it to the next container again."""
    node = npu_node("n", annotations={TWO: f"{FIRST},{SECOND}"})
    node["status"]["allocatable"][TWO] = "2"
    pod = npu_pod("j-0", 0, "j")
    pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1", TWO: "1"}
    world = World(node, group("j"), with_init(pod, TWO, 1, alone=alone)).run(CONFIGURATION)
    assert [bind.annotations.get(TWO) for bind in world.decisions.binds] == [FIRST]


# --- what reads the requests of Pods ---
def test_a_pod_with_chips_in_an_init_container_only_is_no_launcher() -> None:
    session = World(npu_node("n"), whole(8, alone=True)).run(CONFIGURATION).session(CONFIGURATION)
    assert tasks_without_chips(session.jobs["default/j"]) == ()


@pytest.mark.parametrize(("alone", "sidecar"), [(False, False), (True, False), (True, True)])
def test_a_pod_with_one_chip_less_requests_one_less_at_once(alone: bool, sidecar: bool) -> None:
    """The change is made as by ``explain``."""
    pod = with_init(npu_pod("p", 8), ASCEND_910, 8, alone=alone, sidecar=sidecar)
    pod["metadata"]["annotations"] = {ASCEND_910: names(range(8))}
    less = _without_chip(ChipResource(ASCEND_910), 3, pod)
    assert less["metadata"]["annotations"][ASCEND_910] == names([0, 1, 2, 4, 5, 6, 7])
    less["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "j"
    session = World(npu_node("n"), group("j"), less).session(CONFIGURATION)
    (task,) = session.jobs["default/j"].tasks()
    assert task.cls.request[session.dimensions.index(ASCEND_910)] == 7000
