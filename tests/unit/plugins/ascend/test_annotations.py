"""The annotations of bound Pods: chips, an increasing time, and device addresses for acjobs and whole nodes."""

import json
from typing import Any

import pytest

from scheduler.api.names import (
    ACCELERATOR_TYPE,
    ACJOB_OPERATOR_NAME,
    ASCEND_910,
    ASCEND_910_CONFIGURATION,
    ASCEND_REAL,
    BASE_DEVICE_INFOS,
    DISTRIBUTED_JOB,
    HCCL_RANK_INDEX,
    NPU_CONFIGURATION,
    PREDICATE_TIME,
    SCHEDULE_POLICY,
)
from tests.builders import Raw, World
from tests.unit.plugins.ascend.chips import CONFIGURATION, device_info, job, names, npu_node, npu_pod

ADDRESSES = json.dumps({f"Ascend910-{i}": {"IP": f"10.0.0.{i}", "SuperDeviceID": i + 100} for i in range(8)})
OPERATOR = {ACJOB_OPERATOR_NAME: "ascendjob-controller"}


def node_with(addresses: str | None = ADDRESSES, name: str = "n", **annotations: str) -> list[Raw]:
    """A node whose chips are all listed as free."""
    more = {} if addresses is None else {BASE_DEVICE_INFOS: addresses}
    raw = npu_node(name, annotations={**more, **annotations})
    raw["status"]["addresses"] = [
        {"type": "Hostname", "address": name},
        {"type": "InternalIP", "address": "192.168.1.10"},
    ]
    return [raw, device_info(name, list(range(8)))]


def bind(*objects: Raw | list[Raw]) -> tuple[World, list[dict[str, str]]]:
    world = World(*objects).run(CONFIGURATION)
    return world, [b.annotations for b in world.decisions.binds]


def test_the_annotation_of_a_pod_lists_its_chips_in_ascending_order() -> None:
    _, (annotations,) = bind(node_with(), job("j", 4))
    assert annotations == {
        ASCEND_910: "Ascend910-0,Ascend910-1,Ascend910-2,Ascend910-3",
        PREDICATE_TIME: annotations[PREDICATE_TIME],
        DISTRIBUTED_JOB: "false",
        HCCL_RANK_INDEX: "0",
    }


def test_the_pods_of_a_distributed_job_are_annotated_as_distributed() -> None:
    _, bound = bind(node_with(), node_with(name="m"), job("j", 8, 2))
    assert [a[DISTRIBUTED_JOB] for a in bound] == ["true", "true"]


def test_predicate_times_are_nanoseconds_and_grow_from_binding_to_binding() -> None:
    world = World(node_with(), job("a", 1), job("b", 1)).run(CONFIGURATION)
    assert world.outcome is not None
    now = int(world.outcome.session.now * 1_000_000_000)
    assert [int(b.annotations[PREDICATE_TIME]) for b in world.decisions.binds] == [now + 1, now + 2]


def test_a_predicate_time_is_later_than_those_of_the_pods_on_the_node_although_the_clock_was_set_back() -> None:
    later = int((World(node_with()).cluster.now + 3600) * 1e9)
    ahead = {ASCEND_910: names([0]), PREDICATE_TIME: str(later)}
    served = {ASCEND_910: names([1]), PREDICATE_TIME: str(2**64 - 1)}
    held = [npu_pod("held", 1, on="n", annotations=ahead), npu_pod("served", 1, on="n", annotations=served)]
    _, bound = bind(node_with(), *held, job("a", 1), job("b", 1))
    assert [int(annotations[PREDICATE_TIME]) for annotations in bound] == [later + 1, later + 2]


@pytest.mark.parametrize("text", ["x", "١", "-1", "1.5", str(2**64 - 2), "9" * 50])
def test_a_predicate_time_that_cannot_be_one_is_ignored_with_a_warning(text: str) -> None:
    held = npu_pod("held", 1, on="n", annotations={ASCEND_910: names([0]), PREDICATE_TIME: text})
    world = World(node_with(), held, job("a", 1)).run(CONFIGURATION)
    assert world.outcome is not None
    (bind,) = world.decisions.binds
    assert int(bind.annotations[PREDICATE_TIME]) == int(world.outcome.session.now * 1_000_000_000) + 1
    problem = f"{text[:32]!r} is not a time in nanoseconds before tomorrow"
    assert f"Pod held metadata.annotations[predicate-time]: {problem}" in world.malformed


def test_the_same_snapshot_gives_the_same_annotations() -> None:
    objects = [*node_with(), *job("a", 1), *job("b", 8)]
    assert bind(*objects)[1] == bind(*objects)[1]


def test_a_pod_of_an_acjob_gets_the_device_configuration() -> None:
    more = {"superPodID": "3", "rackID": "2", "serverIndex": "5"}
    world, (annotations,) = bind(node_with(**more), job("j", 2, labels=OPERATOR))
    assert annotations[ASCEND_REAL] == annotations[ASCEND_910] == names([0, 1])
    assert annotations[ASCEND_910_CONFIGURATION] == json.dumps(
        {
            "pod_name": "j-0",
            "server_id": world.decisions.binds[0].task.uid,
            "server_ip": "192.168.1.10",
            "host_ip": "192.168.1.10",
            "super_pod_id": 3,
            "rack_id": 2,
            "devices": [
                {"device_id": "0", "device_ip": "10.0.0.0", "super_device_id": "100"},
                {"device_id": "1", "device_ip": "10.0.0.1", "super_device_id": "101"},
            ],
            "server_index": "5",
        },
        separators=(",", ":"),
    )


def test_a_pod_that_takes_a_whole_node_gets_the_device_configuration() -> None:
    _, (annotations,) = bind(node_with(), job("j", 8))
    configuration = json.loads(annotations[ASCEND_910_CONFIGURATION])
    assert annotations[ASCEND_REAL] == names(range(8))
    assert [d["device_id"] for d in configuration["devices"]] == [str(i) for i in range(8)]
    assert (configuration["super_pod_id"], configuration["rack_id"], configuration["server_index"]) == (-2, 0, "")


def test_the_device_configuration_lists_the_chips_in_ascending_order() -> None:
    """The annotation does not depend on the order in which the family chooses the chips."""
    addresses = json.dumps({f"Ascend910-{i}": {"IP": f"10.0.0.{i}"} for i in range(16)})
    kind = {ACCELERATOR_TYPE: "module-910b-16"}
    node = npu_node("n", 16, {BASE_DEVICE_INFOS: addresses}, kind)
    _, (annotations,) = bind(node, device_info("n", list(range(16))), job("j", 10, labels=OPERATOR, selector=kind))
    assert annotations[ASCEND_REAL] == annotations[ASCEND_910] == names([0, 8, 1, 9, 2, 10, 3, 11, 4, 12])
    devices = json.loads(annotations[ASCEND_910_CONFIGURATION])["devices"]
    assert [device["device_id"] for device in devices] == ["0", "1", "2", "3", "4", "8", "9", "10", "11", "12"]


def test_the_family_names_the_annotation_of_the_device_configuration() -> None:
    whole, *pods = job("j", 8)
    whole["metadata"]["annotations"] = {SCHEDULE_POLICY: "chip4-node8"}
    _, (annotations,) = bind(node_with(), whole, pods)
    assert NPU_CONFIGURATION in annotations
    assert ASCEND_910_CONFIGURATION not in annotations


PARTIAL = json.dumps({f"Ascend910-{i}": {} if i else {"IP": "10.0.0.1"} for i in range(8)})


@pytest.mark.parametrize("addresses", [None, "{}", PARTIAL])
def test_without_the_addresses_of_all_chips_the_device_configuration_is_not_written(addresses: str | None) -> None:
    for labels in ({}, OPERATOR):
        world, (annotations,) = bind(node_with(addresses), job("j", 8, labels=labels))
        assert set(annotations) == {ASCEND_910, PREDICATE_TIME, DISTRIBUTED_JOB, HCCL_RANK_INDEX}
        assert world.malformed == []


def test_malformed_device_addresses_are_reported() -> None:
    world, (annotations,) = bind(node_with("{"), job("j", 8))
    assert ASCEND_910_CONFIGURATION not in annotations
    assert world.malformed[0].startswith("Node n metadata.annotations[baseDeviceInfos]: not JSON")


@pytest.mark.parametrize("device", [None, 7, [], {}, {"IP": 5}, {"IP": ""}, {"IP": "10.0.0.1", "SuperDeviceID": []}])
def test_no_device_entry_breaks_the_binding(device: Any) -> None:
    _, (annotations,) = bind(node_with(json.dumps({"Ascend910-0": device})), job("j", 1, labels=OPERATOR))
    assert annotations[ASCEND_910] == names([0])


@pytest.mark.parametrize("text", ["", "-", "x", "9" * 50, "١", "--1", "1.5"])
def test_a_malformed_super_pod_id_is_ignored(text: str) -> None:
    world, (annotations,) = bind(node_with(superPodID=text, rackID=text), job("j", 1, labels=OPERATOR))
    assert "Node n metadata.annotations[superPodID]: " in world.malformed[0]
    configuration = json.loads(annotations[ASCEND_910_CONFIGURATION])
    assert (configuration["super_pod_id"], configuration["rack_id"]) == (-2, 0)
