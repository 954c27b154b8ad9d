"""Simulated nodes: the objects that are created, and the actions of the kubelet."""

import json

import msgspec
import pytest

from scheduler.api.names import ASCEND_910, NPU_CORE
from scheduler.playground.families import DYNAMIC, FAMILIES, division_problem
from scheduler.playground.faults import ChipFault, Faults, Kubelet, read_faults, write_faults
from scheduler.playground.node import faults_of, machine_of, new_machines
from scheduler.playground.objects import EXIT_CODE, FAULTS, INDEX, RUNS_FOR, SimulatedNode
from tests.unit.playground.stage import NOW, Stage, reread


@pytest.mark.parametrize("family", FAMILIES)
def test_a_node_says_what_it_is(family: str) -> None:
    stage = Stage(family, index=7)
    assert reread(stage) == stage.machine
    base = json.loads(stage.node["metadata"]["annotations"]["baseDeviceInfos"])
    assert list(base) == FAMILIES[family].chip_names
    assert stage.node["status"]["capacity"][FAMILIES[family].resource] == str(len(base))


def test_addresses_of_nodes_chips_and_pods_are_different() -> None:
    machines = new_machines([FAMILIES["910b-16"]], 3000, "p", "", 4, {})
    addresses = [machine.address for machine in machines]
    addresses += [machine.chip_address(chip) for machine in machines for chip in range(16)]
    addresses += [machine.pod_address(set()) for machine in machines]
    assert len(set(addresses)) == len(addresses)


def test_new_nodes_have_other_numbers_and_super_pods_than_existing_ones() -> None:
    old = Stage("a3-8-super-pod", super_pod=1, server=3)
    existing = {"n": msgspec.convert(old.node, SimulatedNode)}
    found = new_machines([FAMILIES["a3-16-super-pod"]], 3, "p", "", 2, existing)
    assert [machine.name for machine in found] == [f"p-a3-16-super-pod-{i}" for i in range(3)]
    assert [machine.index for machine in found] == [1, 2, 3]
    assert [(machine.super_pod, machine.server) for machine in found] == [(2, 0), (2, 1), (3, 0)]
    assert new_machines([FAMILIES["910b-8"]], 1, "p", "", 4, {"p-910b-8-0": existing["n"]}) == []


def test_amounts_follow_the_division_of_the_chips() -> None:
    assert Stage("310p-8", DYNAMIC).node["status"]["allocatable"][NPU_CORE] == "64"
    divided = Stage("910b-8", "5c.1cpu.16g").node["status"]["allocatable"]
    assert (divided[f"{ASCEND_910}-5c.1cpu.16g"], divided[ASCEND_910]) == ("32", "0")
    assert division_problem(FAMILIES["910b-8"], "2c") == (
        "chips of 910b-8 cannot be divided into 2c: dynamic, 5c.1cpu.16g, 10c.3cpu.32g"
    )
    assert division_problem(FAMILIES["310-8"], DYNAMIC)


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        (INDEX, "-1", "is not a number"),
        (INDEX, "99999999", "is not a number below"),
        ("superPodID", "x", "is not a number"),
    ],
)
def test_a_node_with_a_malformed_annotation_is_named(key: str, text: str, problem: str) -> None:
    stage = Stage()
    stage.node["metadata"]["annotations"][key] = text
    with pytest.raises(ValueError, match=problem) as error:
        machine_of(msgspec.convert(stage.node, SimulatedNode))
    assert f"metadata.annotations[{key}]" in str(error.value)


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"chips":{"x":{}}}', '{"chips":{"1":{"level":"worst"}}}', '{"node":"sick"}', '{"chips":{"8":{}}}'],
)
def test_malformed_faults_are_named(text: str) -> None:
    stage = Stage()
    stage.node["metadata"]["annotations"][FAULTS] = text
    with pytest.raises(ValueError, match=FAULTS):
        faults_of(msgspec.convert(stage.node, SimulatedNode))


def test_faults_come_back_as_they_were_written() -> None:
    faults = Faults(kubelet=Kubelet.STOPPED).with_chips([3, 4], ChipFault(since=5))
    assert read_faults(write_faults(faults)) == faults
    assert write_faults(faults.without_chips({3, 4})) == '{"kubelet":"Stopped"}'
    assert write_faults(Faults()) is None


def test_broken_chips_are_not_allocatable() -> None:
    stage = Stage()
    stage.faults = Faults(chips={0: ChipFault(), 1: ChipFault(level="NotHandleFault")})
    stage.settle()
    assert stage.node["status"]["allocatable"][ASCEND_910] == "7"
    assert stage.node["status"]["capacity"][ASCEND_910] == "8"


def test_nothing_happens_on_a_node_whose_kubelet_has_stopped() -> None:
    stage = Stage()
    stage.faults = Faults(kubelet=Kubelet.STOPPED)
    stage.bind("a", {"cpu": 1})
    stage.pods["a"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    stage.settle()
    assert stage.node["status"]["conditions"][0]["status"] == "Unknown"
    assert "a" in stage.pods
    stage.faults = Faults()
    stage.settle()
    assert stage.node["status"]["conditions"][0]["status"] == "True"
    assert "a" not in stage.pods


def test_a_pod_runs_for_the_time_of_its_annotation() -> None:
    stage = Stage()
    stage.bind("forever", {"cpu": 1})
    stage.bind("short", {"cpu": 1}, {RUNS_FOR: "90s", EXIT_CODE: "3"})
    assert stage.settle() == 90
    assert stage.settle(NOW + 60) == 30
    assert stage.settle(NOW + 90) is None
    assert stage.status("forever")["phase"] == "Running"
    status = stage.status("short")
    assert status["phase"] == "Failed"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert stage.status("forever")["podIP"] != status["podIP"]
