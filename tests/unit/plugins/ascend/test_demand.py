"""Valid requests: 1, 2, 4 or 8 chips in one Pod, or Pods of eight; one virtual device per Pod."""

import pytest

from scheduler.api.names import (
    ASCEND_910,
    DISTRIBUTED_JOB,
    HCCL_RANK_INDEX,
    SCHEDULE_POLICY,
    SKIP_ASCEND_PLUGIN,
)
from scheduler.api.reasons import Refusal
from tests.builders import Raw, World, group, pod
from tests.unit.plugins.ascend.chips import CONFIGURATION, chips_of, job, npu_node, npu_pod, plugin_of


def refusal(*objects: Raw | list[Raw]) -> Refusal | None:
    world = World(npu_node("n"), *objects)
    session = world.session(CONFIGURATION)
    return session.job_valid(session.jobs["default/j"])


def message(*objects: Raw | list[Raw]) -> str:
    found = refusal(*objects)
    assert found is not None
    return f"{found.reason}: {found.message}"


@pytest.mark.parametrize(("chips", "number"), [(1, 1), (2, 1), (4, 1), (8, 1), (8, 2), (8, 17)])
def test_requests_that_fit_the_rings_are_accepted(chips: int, number: int) -> None:
    assert refusal(job("j", chips, number)) is None


@pytest.mark.parametrize(
    ("phase", "counts"), [("Pending", True), ("Running", True), ("Unknown", True), ("Succeeded", False)]
)
def test_a_pod_with_chips_makes_a_job_an_npu_job_until_it_ends(phase: str, counts: bool) -> None:
    there, waiting = npu_pod("j-0", 8, "j", on="n", phase=phase), pod("j-1", "1c", "j")
    session = World(npu_node("n"), group("j"), there, waiting).session(CONFIGURATION)
    demand, job_ = plugin_of(session)._demand, session.jobs["default/j"]
    assert demand.is_npu_job(job_) == counts
    assert (demand.use(job_) is not None) == counts


def test_a_job_of_which_every_pod_asks_for_none_is_refused() -> None:
    assert message(job("j", 0, 3)) == "InvalidResourceRequest: Pod default/j-0 asks for 0 huawei.com/Ascend910"
    launcher = pod("j-1", f"1c+1Gi+{ASCEND_910}=0", "j")
    assert refusal(group("j", minimum=2), npu_pod("j-0", 8, "j"), launcher) is None
    assert refusal(group("j"), pod("j-0", "1c+1Gi", "j")) is None


@pytest.mark.parametrize("chips", [3, 5, 6, 7, 9, 16, 2**40, "500m", "1500m"])
def test_other_requests_of_a_pod_are_refused_with_the_number(chips: int | str) -> None:
    assert message(job("j", chips)) == (
        f"InvalidResourceRequest: Pod default/j-0 asks for {chips} huawei.com/Ascend910; "
        "a Pod of Ascend910 module x8 may ask for 1, 2, 4 or 8"
    )


@pytest.mark.parametrize(("chips", "number", "total"), [(1, 2, 2), (2, 2, 4), (4, 2, 8), (1, 8, 8), (1, 3, 3)])
def test_up_to_eight_chips_must_be_requested_by_one_pod(chips: int, number: int, total: int) -> None:
    assert message(job("j", chips, number)) == (
        f"InvalidResourceRequest: {number} Pods ask for {total} huawei.com/Ascend910 together; "
        "up to 8 must be asked for by one Pod"
    )


def test_above_eight_chips_every_pod_must_request_eight() -> None:
    assert message(job("j", 4, 4)) == (
        "InvalidResourceRequest: the job asks for 16 huawei.com/Ascend910 in 4 Pods, of which Pod default/j-0 asks "
        "for 4; above 8 every Pod must ask for 8"
    )
    mixed = [*job("j", 8, 1), npu_pod("odd", 4, "j")]
    assert "asks for 12 huawei.com/Ascend910 in 2 Pods, of which Pod default/odd asks for 4" in message(mixed)


def test_pods_without_chips_are_not_counted() -> None:
    assert refusal(job("j", 4), pod("launcher", "1c+1Gi", "j")) is None


def test_running_pods_count_terminating_and_finished_ones_do_not() -> None:
    assert refusal(job("j", 8), npu_pod("running", 8, "j", on="n")) is None
    assert refusal(job("j", 4), npu_pod("running", 4, "j", on="n")) is not None
    assert refusal(job("j", 4), npu_pod("leaving", 4, "j", on="n", deleting=True)) is None
    assert refusal(job("j", 4), npu_pod("done", 4, "j", on="n", phase="Succeeded")) is None
    assert refusal(job("j", 4), npu_pod("failed", 4, "j", on="n", phase="Failed")) is None


def test_a_job_without_pending_requests_for_chips_is_not_checked() -> None:
    assert refusal(group("j", minimum=1), npu_pod("odd", 3, "j", on="n"), pod("more", "1c+1Gi", "j")) is None


# --- virtual devices ---
@pytest.mark.parametrize("template", ["2c", "16c", "12c.3cpu.32g"])
def test_a_pod_may_request_one_virtual_device(template: str) -> None:
    name = f"{ASCEND_910}-{template}"
    assert refusal(group("j", minimum=2), pod("a", f"{name}=1", "j"), pod("b", f"{name}=1", "j")) is None
    assert message(group("j", minimum=1), pod("a", f"{name}=2", "j")) == (
        f"InvalidResourceRequest: a Pod asks for 2 {name}; it may ask for exactly 1 virtual device"
    )


def test_virtual_devices_of_two_kinds_are_refused() -> None:
    both = f"{ASCEND_910}-2c=1+{ASCEND_910}-4c=1"
    assert "may ask for exactly 1 virtual device" in message(group("j", minimum=1), pod("a", both, "j"))


def test_the_scheduler_assigns_no_chips_to_a_virtual_device() -> None:
    node = npu_node("n")
    node["status"]["allocatable"][f"{ASCEND_910}-2c"] = "4"
    world = World(node, group("j", minimum=1), pod("a", f"1c+1Gi+{ASCEND_910}-2c=1", "j")).run(CONFIGURATION)
    assert world.bound == {"a": "n"}
    assert world.decisions.binds[0].annotations == {DISTRIBUTED_JOB: "false", HCCL_RANK_INDEX: "0"}


# --- other families ---
@pytest.mark.parametrize("kind", ["", "nonsense", "850-Atlas-8p-9"])
def test_a_job_for_an_unknown_accelerator_type_is_refused(kind: str) -> None:
    found = message(job("j", 4, selector={"accelerator-type": kind}))
    assert found.startswith("NotSupportPolicy: no family of huawei.com/Ascend910 is chosen by accelerator-type=")
    assert "module-910b-16" in found


def test_a_job_that_selects_the_module_is_accepted() -> None:
    assert refusal(job("j", 4, selector={"accelerator-type": "module"})) is None


def test_pods_that_select_different_types_are_refused() -> None:
    one, two = job("j", 8, 2, selector={"accelerator-type": "module"})[1:]
    two["spec"]["nodeSelector"] = {"accelerator-type": "half"}
    assert "accelerator-type=module|half" in message(group("j", minimum=2), one, two)


@pytest.mark.parametrize("value", ["chip8-node8-ra64-sp", "multilevel"])
def test_a_policy_that_is_not_supported_is_refused(value: str) -> None:
    expected = f"NotSupportPolicy: {SCHEDULE_POLICY}={value} is not supported"
    assert message(job("j", 8, annotations={SCHEDULE_POLICY: value})) == expected
    whole, *pods = job("j", 8)
    whole["metadata"]["annotations"] = {SCHEDULE_POLICY: value}
    assert message(whole, pods) == expected


def test_a_policy_that_is_not_known_does_not_count() -> None:
    assert refusal(job("j", 8, annotations={SCHEDULE_POLICY: "whatever"})) is None
    assert "Ascend910 module x8 may ask for" in message(job("j", 3, annotations={SCHEDULE_POLICY: "whatever"}))


def test_a_policy_takes_precedence_over_the_accelerator_type() -> None:
    found = message(job("j", 3, selector={"accelerator-type": "module"}, annotations={SCHEDULE_POLICY: "chip4-node4"}))
    assert "Ascend910 half x4 may ask for 1, 2 or 4" in found


@pytest.mark.parametrize("resource", ["huawei.com/Ascend999", "huawei.com/npu", "huawei.com/npu-core"])
def test_a_job_of_an_unknown_npu_resource_is_refused_with_its_name(resource: str) -> None:
    node = npu_node("n")
    node["status"]["allocatable"][resource] = "8"
    world = World(node, group("j", minimum=1), pod("j-0", f"1c+1Gi+{resource}=1", "j")).run(CONFIGURATION)
    assert world.bound == {}
    assert resource in world.message_of("j-0")


def test_other_resources_of_the_vendor_are_ignored() -> None:
    node = npu_node("n")
    node["status"]["allocatable"]["huawei.com/roce"] = "8"
    world = World(node, group("j", minimum=1), pod("j-0", "1c+1Gi+huawei.com/roce=1", "j")).run(CONFIGURATION)
    assert world.bound == {"j-0": "n"}


def test_a_pod_that_requests_two_kinds_of_chips_is_refused() -> None:
    both = pod("j-0", f"1c+1Gi+{ASCEND_910}=1+huawei.com/Ascend310=1", "j")
    assert message(group("j", minimum=1), both) == (
        "InvalidResourceRequest: a Pod of the job asks for huawei.com/Ascend310 and huawei.com/Ascend910; "
        "it may ask for one of them only"
    )


def test_of_two_kinds_of_chips_a_job_gets_one() -> None:
    inference = npu_node("m")
    inference["status"] = {"allocatable": inference["status"]["allocatable"] | {"huawei.com/Ascend310": "4"}}
    del inference["status"]["allocatable"][ASCEND_910]
    pods = [npu_pod("j-0", 1, "j"), pod("j-1", "1c+1Gi+huawei.com/Ascend310=1", "j")]
    world = World(npu_node("n"), inference, group("j", minimum=1), pods).run(CONFIGURATION)
    assert dict(world.bound) == {"j-1": "m"}
    assert world.decisions.binds[0].annotations[DISTRIBUTED_JOB] == "true"
    assert "the family of the job has huawei.com/Ascend310 only" in world.message_of("j-0")
    assert not World(npu_node("n"), inference, group("j", minimum=2), pods).run(CONFIGURATION).bound


def test_a_pod_that_asks_to_skip_the_plugin_gets_chips() -> None:
    world = World(npu_node("n"), job("j", 2, annotations={SKIP_ASCEND_PLUGIN: "enabled"})).run(CONFIGURATION)
    assert chips_of(world) == {"j-0": ("n", [0, 1])}
