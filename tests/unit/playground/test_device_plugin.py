"""The simulated device plugin: which Pod gets which chips, and which Pods are refused."""

import json

import pytest

from scheduler.api.names import (
    ASCEND_310P,
    ASCEND_910,
    ASCEND_910_CONFIGURATION,
    ASCEND_REAL,
    NPU,
    NPU_CONFIGURATION,
    NPU_CORE,
    PREDICATE_TIME,
)
from scheduler.playground.faults import ChipFault, FaultOf, Faults
from scheduler.playground.objects import CONSUMED, EXIT_CODE, KUBELET_DEVICES, RUNS_FOR
from tests.unit.playground.stage import NOW, Stage


def chosen(chips: str, time: int, resource: str = ASCEND_910) -> dict[str, str]:
    return {resource: chips, PREDICATE_TIME: str(time)}


def test_a_pod_gets_the_chips_of_its_annotation_and_not_those_of_the_kubelet() -> None:
    stage = Stage()
    stage.bind("a", {ASCEND_910: 2}, chosen("Ascend910-5,Ascend910-4", 1))
    stage.settle()
    assert stage.annotation("a", ASCEND_REAL) == "Ascend910-5,Ascend910-4"
    assert stage.annotation("a", KUBELET_DEVICES) == "Ascend910-0,Ascend910-1"
    assert stage.annotation("a", PREDICATE_TIME) == CONSUMED
    assert stage.status("a")["phase"] == "Running"
    assert json.loads(stage.annotation("a", ASCEND_910_CONFIGURATION) or "") == {
        "pod_name": "a",
        "server_id": "uid-a",
        "server_ip": "192.168.0.1",
        "host_ip": "192.168.0.1",
        "super_pod_id": -2,
        "rack_id": 0,
        "devices": [
            {"device_id": "5", "device_ip": "10.0.0.6", "super_device_id": "5"},
            {"device_id": "4", "device_ip": "10.0.0.5", "super_device_id": "4"},
        ],
        "server_index": "",
    }


def mounted(stage: Stage, *pods: tuple[str, str, int]) -> list[str | None]:
    """Binds Pods, given as name, chips of the annotation and time. Returns the chips that each of them gets."""
    for name, chips, time in pods:
        stage.bind(name, {ASCEND_910: len(chips.split(","))}, chosen(chips, time))
    stage.settle()
    return [stage.annotation(name, ASCEND_REAL) for name, _, _ in pods]


def test_chips_go_to_the_pod_that_the_kubelet_starts_first_in_the_order_of_predicate_times() -> None:
    stage = Stage()
    real = mounted(stage, ("started-first", "Ascend910-7", 20), ("started-last", "Ascend910-3", 10))
    assert real == ["Ascend910-3", "Ascend910-7"]
    assert "Ascend910-3 of Pod x/started-last is mounted: its predicate-time is smaller" in stage.warnings[0]


def test_pods_with_other_amounts_do_not_get_each_others_chips() -> None:
    stage = Stage()
    real = mounted(stage, ("two", "Ascend910-6,Ascend910-7", 20), ("one", "Ascend910-3", 10))
    assert real == ["Ascend910-6,Ascend910-7", "Ascend910-3"]
    assert not stage.warnings


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        (chosen("Ascend910-0", 1), "no Pod of the node has 2 of huawei.com/Ascend910"),
        ({ASCEND_910: "Ascend910-0,Ascend910-1"}, "no annotation waits"),
        ({}, "no annotation waits"),
        ({ASCEND_910: "Ascend910-0,Ascend910-1", PREDICATE_TIME: "soon"}, "no Pod of the node has 2"),
        (chosen("Ascend910-0,Ascend910-8", 1), "n has no chip Ascend910-8"),
        (chosen("Ascend310-0,Ascend310-1", 1), "n has no chip Ascend310-0"),
    ],
)
def test_a_pod_whose_annotation_does_not_match_is_rejected(annotations: dict[str, str], problem: str) -> None:
    stage = Stage()
    stage.bind("a", {ASCEND_910: 2}, annotations)
    stage.settle()
    status = stage.status("a")
    assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
    assert problem in status["message"]
    assert problem in stage.warnings[0]


def test_a_pod_that_wants_all_chips_of_the_node_needs_no_annotation() -> None:
    stage = Stage()
    stage.bind("a", {ASCEND_910: 8})
    stage.settle()
    assert stage.annotation("a", ASCEND_REAL) == ",".join(f"Ascend910-{chip}" for chip in range(8))


def test_a_chip_is_never_mounted_twice() -> None:
    stage = Stage()
    stage.bind("a", {ASCEND_910: 1}, chosen("Ascend910-3", 1))
    stage.settle()
    stage.bind("b", {ASCEND_910: 1}, chosen("Ascend910-3", 2))
    stage.settle()
    assert "Ascend910-3 is mounted in Pod x/a already" in stage.status("b")["message"]
    del stage.pods["a"]
    stage.bind("c", {ASCEND_910: 1}, chosen("Ascend910-3", 3))
    stage.settle()
    assert stage.status("c")["phase"] == "Running"


def test_the_kubelet_has_no_more_devices_than_healthy_ones() -> None:
    stage = Stage()
    stage.faults = Faults(chips={chip: ChipFault() for chip in range(3)})
    stage.bind("a", {ASCEND_910: 6}, chosen(",".join(f"Ascend910-{chip}" for chip in range(2, 8)), 1))
    stage.settle()
    assert "Requested: 6, Available: 5" in stage.status("a")["message"]


def test_chips_of_the_npu_resource_have_an_annotation_of_their_own() -> None:
    stage = Stage("npu-8")
    stage.bind("a", {NPU: 2}, chosen("npu-1,npu-2", 1, NPU))
    stage.settle()
    assert json.loads(stage.annotation("a", NPU_CONFIGURATION) or "")["devices"][0]["device_id"] == "1"


def test_a_virtual_npu_is_created_by_the_template_that_the_scheduler_chose() -> None:
    stage = Stage("310p-8", "dynamic")
    stage.bind("a", {NPU_CORE: 2}, chosen("3-vir02_1c", 1, NPU_CORE))
    stage.bind("b", {NPU_CORE: 4}, chosen("3-vir04_3c", 2, NPU_CORE))
    stage.bind("c", {NPU_CORE: 16}, chosen("0,1", 3, NPU_CORE))
    stage.settle()
    assert stage.annotation("a", ASCEND_REAL) == "Ascend310P-2c.1cpu-100-3_0"
    assert stage.annotation("b", ASCEND_REAL) == "Ascend310P-4c.3cpu-101-3_1"
    assert stage.annotation("c", ASCEND_REAL) == "Ascend310P-0,Ascend310P-1"
    free = stage.report().devices[ASCEND_310P].split(",")
    assert free == [f"Ascend310P-{chip}" for chip in (2, 4, 5, 6, 7)]


def test_a_virtual_npu_that_does_not_fit_on_its_chip_is_not_created() -> None:
    stage = Stage("310p-8", "dynamic")
    for number in range(3):
        stage.bind(f"p{number}", {NPU_CORE: 4}, chosen("0-vir04_3c", number + 1, NPU_CORE))
    stage.settle()
    assert "NPUSegmentFailed" in stage.status("p2")["message"]
    assert "0 and 1 left" in stage.status("p2")["message"]


def test_no_virtual_npu_is_created_on_a_chip_that_cannot_be_divided() -> None:
    stage = Stage("310p-8", "dynamic")
    stage.faults = Faults(chips={0: ChipFault(FaultOf.DIVISION)})
    stage.bind("a", {NPU_CORE: 2}, chosen("0-vir02_1c", 1, NPU_CORE))
    stage.bind("b", {NPU_CORE: 2}, chosen("1-vir02_1c", 2, NPU_CORE))
    stage.settle()
    assert stage.status("a")["reason"] == "UnexpectedAdmissionError"
    assert (
        stage.status("a")["message"] == "Pod was rejected: Allocate failed due to NPUSegmentFailed, which is unexpected"
    )
    assert stage.status("b")["phase"] == "Running"
    assert stage.report().devices[f"{ASCEND_310P}-Fault"] == "[]"
    assert stage.report().devices[f"{ASCEND_310P}-Unhealthy"] == ""


def test_of_virtual_npus_that_were_created_beforehand_the_kubelet_chooses() -> None:
    stage = Stage("910-8", "2c")
    resource = f"{ASCEND_910}-2c"
    stage.bind("a", {resource: 1})
    stage.bind("b", {resource: 1})
    stage.bind("two", {resource: 2})
    stage.settle()
    assert stage.annotation("a", ASCEND_REAL) == "Ascend910-2c-100-0"
    assert stage.annotation("b", ASCEND_REAL) == "Ascend910-2c-101-0"
    assert json.loads(stage.annotation("a", ASCEND_910_CONFIGURATION) or "")["devices"][0]["device_ip"] == "127.0.0.1"
    assert "a Pod gets one virtual NPU" in stage.status("two")["message"]
    listed = stage.report().devices
    assert listed[resource].startswith("Ascend910-2c-102-0,")
    assert listed[ASCEND_910] == ""


def test_devices_in_two_containers_are_refused() -> None:
    stage = Stage()
    stage.bind("a", {ASCEND_910: 2}, chosen("Ascend910-0,Ascend910-1", 1))
    stage.pods["a"]["spec"]["containers"] *= 2
    stage.settle()
    assert "only one container of a Pod can have devices" in stage.status("a")["message"]


def with_init_container(stage: Stage, number: int, *, alone: bool = False, sidecar: bool = False) -> Stage:
    """Pod a with an init container that requests chips; ``alone``: no other container does."""
    spec = stage.pods["a"]["spec"]
    amounts = {ASCEND_910: str(number)}
    lasting = {"restartPolicy": "Always"} if sidecar else {}
    spec["initContainers"] = [{"name": "i", **lasting, "resources": {"requests": amounts, "limits": amounts}}]
    if alone:
        spec["containers"] = [{"name": "c"}]
    stage.settle()
    return stage


ALL = ",".join(f"Ascend910-{i}" for i in range(8))


@pytest.mark.parametrize("alone", [False, True])
def test_all_chips_of_a_node_are_mounted_in_an_init_container_and_in_the_container_after_it(alone: bool) -> None:
    stage = Stage()
    stage.bind("a", {ASCEND_910: 8}, chosen(ALL, 1))
    with_init_container(stage, 8, alone=alone)
    assert stage.status("a")["phase"] == "Running"
    assert stage.annotation("a", ASCEND_REAL) == ALL


@pytest.mark.parametrize(
    ("number", "alone", "sidecar", "message"),
    [
        (2, True, False, "no Pod of the node has 2 of huawei.com/Ascend910 in its annotation"),
        (2, False, False, "only one container of a Pod can have devices"),
        (2, False, True, "only one container of a Pod can have devices"),
    ],
)
def test_some_chips_in_an_init_container_are_refused(number: int, alone: bool, sidecar: bool, message: str) -> None:
    stage = Stage()
    stage.bind("a", {ASCEND_910: 2}, chosen("Ascend910-0,Ascend910-1", 1))
    with_init_container(stage, number, alone=alone, sidecar=sidecar)
    assert message in stage.status("a")["message"]


def test_all_chips_in_a_sidecar_are_not_mounted_in_a_container_too() -> None:
    stage = Stage()
    stage.bind("a", {ASCEND_910: 8}, chosen(ALL, 1))
    with_init_container(stage, 8, sidecar=True)
    assert "only one container of a Pod can have devices" in stage.status("a")["message"]


def test_a_kubelet_that_was_killed_after_mounting_only_reports_that_the_pod_runs() -> None:
    stage = Stage()
    stage.bind(
        "a", {ASCEND_910: 1}, {**chosen("Ascend910-3", 1), KUBELET_DEVICES: "Ascend910-0", ASCEND_REAL: "Ascend910-3"}
    )
    stage.settle()
    assert stage.status("a")["phase"] == "Running"
    assert stage.annotation("a", KUBELET_DEVICES) == "Ascend910-0"


LONG = "9" * 5000


@pytest.mark.parametrize(
    "annotations",
    [
        {KUBELET_DEVICES: "x", ASCEND_REAL: f"Ascend910-{LONG}"},
        {KUBELET_DEVICES: "x", ASCEND_REAL: f"Ascend910-2c-{LONG}-{LONG}_{LONG}"},
        {KUBELET_DEVICES: "x", ASCEND_REAL: "Ascend910-\u0663,,\x00"},
        chosen(f"Ascend910-{LONG}", 9),
        {ASCEND_910: "Ascend910-1", PREDICATE_TIME: LONG},
        {ASCEND_910: "Ascend910-1", PREDICATE_TIME: "\u0663"},
        {RUNS_FOR: LONG, EXIT_CODE: LONG},
        chosen(f"{LONG}-vir05_1c_16g", 1, NPU_CORE),
        chosen(LONG, 1, NPU_CORE),
    ],
)
def test_a_pod_with_hostile_annotations_harms_no_other(annotations: dict[str, str]) -> None:
    stage = Stage("910b-8", "dynamic")
    stage.bind("before", {ASCEND_910: 1}, chosen("Ascend910-3", 7))
    for resource, amount in ((ASCEND_910, 1), (NPU_CORE, 5), ("cpu", 1)):
        stage.bind(f"hostile-{resource[-3:]}", {resource: amount}, annotations)
    stage.settle()
    stage.bind("after", {ASCEND_910: 2}, chosen("Ascend910-4,Ascend910-5", 8))
    stage.settle(NOW + 10)
    assert stage.annotation("before", ASCEND_REAL) == "Ascend910-3"
    assert stage.annotation("after", ASCEND_REAL) == "Ascend910-4,Ascend910-5"
    assert "Ascend910-6" in stage.report().devices[ASCEND_910]
