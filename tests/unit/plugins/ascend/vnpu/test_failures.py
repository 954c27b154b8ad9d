"""Virtual NPUs that could not be created: the Pod is replaced, and its job gets another chip."""

import json
from typing import Any

import pytest

from scheduler.api.kinds import NODE, POD, POD_GROUP
from scheduler.api.names import NPU_CORE, VNPU_FAILURES
from scheduler.playground.objects import FAULTS
from tests.builders import Raw, World, configuration, node, pod
from tests.unit.cluster.memory.test_playground import job, simulated
from tests.unit.plugins.ascend.chips import CONFIGURATION
from tests.unit.plugins.ascend.vnpu.parts import core_info, core_job, core_node, core_pod, cores_of

MESSAGE = (
    "Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = NPUSegmentFailed, which is unexpected"
)
NOW = int(World().cluster.now)
"""The time of the first session."""
DEVICESHARE = configuration(
    ["priority", "gang"], ["deviceshare"], arguments={"deviceshare": {"deviceshare.AscendMindClusterVNPUEnable": True}}
)


def failed(name: str, job_name: str, part: str = "0-vir04_3c", message: str = MESSAGE, **status: Any) -> Raw:
    """A Pod of four AI cores that the kubelet of node n rejected."""
    raw = core_pod(name, 4, job_name, on="n", annotations={NPU_CORE: part} if part else {})
    raw["status"] = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message} | status
    return raw


def with_record(objects: list[Raw], *failures: Raw) -> list[Raw]:
    """The objects of a job, whose PodGroup has a record."""
    objects[0]["metadata"].setdefault("annotations", {})[VNPU_FAILURES] = json.dumps(failures)
    return objects


def record(world: World) -> list[Raw]:
    """The failures that the session writes onto the PodGroup."""
    (write,) = (write for write in world.decisions.writes if write.kind is POD_GROUP)
    found: list[Raw] = json.loads(write.body["metadata"]["annotations"][VNPU_FAILURES])
    return found


def there(chips: int = 2) -> list[Raw]:
    return [core_node("n", chips), core_info("n", list(range(chips)))]


# --- a session ---
def test_a_failure_is_recorded_before_the_pod_is_deleted() -> None:
    world = World(there(), core_job("j", 4)[0], failed("j-0", "j")).run(CONFIGURATION)
    (entry,) = record(world)
    assert (entry["node"], entry["chip"], len(entry["pods"])) == ("n", 0, 1)
    assert world.evicted == set()


def test_a_pod_whose_failure_is_recorded_is_deleted_with_an_event_that_says_why() -> None:
    group, raw = core_job("j", 4)[0], failed("j-0", "j")
    raw["metadata"]["uid"] = "u0"
    failure = {"node": "n", "chip": 0, "time": NOW, "pods": ["u0"]}
    world = World(there(), with_record([group, raw], failure)).run(CONFIGURATION)
    (eviction,) = world.decisions.evictions
    assert (eviction.task.name, eviction.grace_period) == ("j-0", 0)
    assert eviction.reason.startswith("chipDyCutErr (Pod was rejected: ")
    (event,) = (event for event in world.decisions.events if event.reason == "VirtualNPUFailed")
    assert "Pod j-0: its virtual NPU 0-vir04_3c could not be created on node n" in event.message
    assert event.message.endswith("the job gets no part of chip 0 of node n for 10 minutes")
    assert not [write for write in world.decisions.writes if write.kind is POD_GROUP]


@pytest.mark.parametrize(
    ("age", "times", "chip"), [(0, 1, 1), (590, 1, 1), (601, 1, 0), (1100, 2, 1), (1201, 2, 0), (86_390, 99, 1)]
)
def test_the_job_gets_another_chip_until_the_time_is_over(age: int, times: int, chip: int) -> None:
    failure = {"node": "n", "chip": 0, "time": NOW - age, "times": times}
    world = World(there(), with_record(core_job("j", 4), failure)).run(CONFIGURATION)
    assert cores_of(world) == {"j-0": f"n:{chip}-vir04_3c"}


def test_another_job_gets_the_chip() -> None:
    failure = {"node": "n", "chip": 0, "time": NOW}
    world = World(there(1), with_record(core_job("j", 4), failure), core_job("k", 4)).run(CONFIGURATION)
    assert cores_of(world) == {"k-0": "n:0-vir04_3c"}
    text = "node(s) had room only on chips on which a virtual NPU of the job could not be created before"
    assert text in world.message_of("j-0")


def test_a_job_that_avoids_a_chip_gets_as_many_parts_of_the_others_as_fit() -> None:
    failure = {"node": "n", "chip": 0, "time": NOW}
    world = World(there(), with_record(core_job("j", 4, 3), failure)).run(CONFIGURATION)
    assert world.bound == {}
    world = World(there(), with_record(core_job("j", 4, 2), failure)).run(CONFIGURATION)
    assert cores_of(world) == {"j-0": "n:1-vir04_3c", "j-1": "n:1-vir04_3c"}


def test_a_whole_chip_is_another_one_too() -> None:
    failure = {"node": "n", "chip": 0, "time": NOW}
    world = World(there(), with_record(core_job("j", 8), failure)).run(CONFIGURATION)
    assert cores_of(world) == {"j-0": "n:1"}


def test_a_pod_whose_chip_is_not_known_is_placed_on_another_node() -> None:
    world = World(there(), core_job("j", 4)[0], failed("j-0", "j", "")).run(CONFIGURATION)
    (entry,) = record(world)
    assert (entry["node"], entry["chip"]) == ("n", -1)
    failure = {"node": "n", "chip": -1, "time": NOW}
    world = World(there(), core_node("m"), with_record(core_job("j", 4), failure)).run(CONFIGURATION)
    assert world.bound == {"j-0": "m"}


def test_a_second_failure_on_a_chip_doubles_the_time_and_failures_of_long_ago_are_dropped() -> None:
    now = NOW
    failures = ({"node": "n", "chip": 0, "time": now - 700}, {"node": "x", "chip": 1, "time": now - 1300})
    world = World(there(), with_record([core_job("j", 4)[0], failed("j-0", "j")], *failures)).run(CONFIGURATION)
    (entry,) = record(world)
    assert (entry["node"], entry["chip"], entry["times"]) == ("n", 0, 2)


def test_pods_that_fail_together_on_a_chip_are_one_failure() -> None:
    group = core_job("j", 4)[0]
    world = World(there(), group, failed("j-0", "j"), failed("j-1", "j")).run(CONFIGURATION)
    (entry,) = record(world)
    assert (entry.get("times", 1), len(entry["pods"])) == (1, 2)


@pytest.mark.parametrize(
    "raw",
    [
        failed("j-0", "j", message="Pod was rejected: Allocate failed due to not get valid pod, which is unexpected"),
        failed("j-0", "j", reason="Evicted"),
        failed("j-0", "j", phase="Running"),
    ],
    ids=["another refusal", "another reason", "runs"],
)
def test_a_pod_that_failed_for_another_reason_is_left_alone(raw: Raw) -> None:
    world = World(there(), core_job("j", 4)[0], raw).run(CONFIGURATION)
    assert not [write for write in world.decisions.writes if write.kind is POD_GROUP]
    assert world.evicted == set()


def test_a_pod_without_an_owner_is_not_deleted_because_nothing_would_replace_it() -> None:
    raw = failed("j-0", "j")
    raw["metadata"]["uid"] = "u0"
    group = core_job("j", 4)[0]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "j-0", "uid": "u0", "controller": True}
    group["metadata"]["ownerReferences"] = [owner]
    world = World(there(), group, raw).run(CONFIGURATION)
    assert not [write for write in world.decisions.writes if write.kind is POD_GROUP]


@pytest.mark.parametrize("text", ["{", "[1]", '[{"node": "n", "chip": 999, "time": 1}]', '[{"chip": 0}]', "[" * 9999])
def test_a_malformed_record_counts_as_empty_and_is_reported(text: str) -> None:
    objects = core_job("j", 4)
    objects[0]["metadata"]["annotations"] = {VNPU_FAILURES: text}
    world = World(there(), objects).run(CONFIGURATION)
    assert cores_of(world) == {"j-0": "n:0-vir04_3c"}
    assert any(message.startswith("PodGroup j metadata.annotations[") for message in world.malformed)


def test_a_job_that_restarts_after_failures_of_pods_keeps_its_retries() -> None:
    group, raw = core_job("j", 4)[0], failed("j-0", "j")
    group["metadata"]["labels"] = {"fault-scheduling": "force", "fault-retry-times": "3"}
    group["status"] = {"phase": "Running"}
    world = World(there(), group, raw).run(CONFIGURATION)
    assert world.evicted == set()
    texts = [str(write.body) for write in world.decisions.writes if write.name == "vcjob-fault-npu-cm"]
    assert not any('"number"' in text for text in texts)


# --- deviceshare ---
def test_with_deviceshare_the_job_gets_another_node() -> None:
    world = World(there(), core_job("j", 4)[0], failed("j-0", "j")).run(DEVICESHARE)
    assert [entry["node"] for entry in record(world)] == ["n"]
    failure = {"node": "n", "chip": 0, "time": NOW}
    world = World(there(), core_node("m"), core_info("m", [0]), with_record(core_job("j", 4), failure)).run(DEVICESHARE)
    assert world.bound == {"j-0": "m"}
    world = World(there(), node("cpu", "8c+8Gi"), with_record(core_job("j", 4), failure)).run(DEVICESHARE)
    assert "could not be created before" in world.message_of("j-0")


# --- from the device plugin to the next Pod ---
def test_a_vcjob_whose_virtual_npu_cannot_be_created_runs_on_another_chip_and_has_not_failed() -> None:
    atlas = {"ring-controller.atlas": "ascend-310P"}
    raw = job("infer", 1, NPU_CORE, 4, **atlas)
    raw["spec"]["policies"] = [{"event": "PodFailed", "action": "AbortJob"}]
    simulation = simulated("310p-8", 1, raw, division="dynamic")
    faults = {"metadata": {"annotations": {FAULTS: '{"chips":{"0":{"fault":"Division"},"1":{"fault":"Division"}}}'}}}
    server = simulation.cluster.server
    server.patch(NODE, "", "npu-310p-8-0", faults)
    simulation.run(20)
    (pod_,) = server.of(POD)
    assert pod_["status"]["phase"] == "Running"
    assert pod_["metadata"]["annotations"][NPU_CORE] == "2-vir04_3c"
    (group,) = server.of(POD_GROUP)
    recorded = json.loads(group["metadata"]["annotations"][VNPU_FAILURES])
    assert [(each["node"], each["chip"]) for each in recorded] == [("npu-310p-8-0", 0), ("npu-310p-8-0", 1)]


def test_a_job_whose_virtual_npu_can_be_created_nowhere_waits_with_the_reason() -> None:
    atlas = {"ring-controller.atlas": "ascend-310P"}
    simulation = simulated("310p-8", 1, job("infer", 1, NPU_CORE, 4, **atlas), division="dynamic")
    chips = ",".join(f'"{chip}":{{"fault":"Division"}}' for chip in range(8))
    faults = {"metadata": {"annotations": {FAULTS: f'{{"chips":{{{chips}}}}}'}}}
    server = simulation.cluster.server
    server.patch(NODE, "", "npu-310p-8-0", faults)
    simulation.run(60)
    (pod_,) = server.of(POD)
    assert pod_["status"].get("phase", "Pending") == "Pending"
    (condition,) = (c for c in pod_["status"]["conditions"] if c["type"] == "PodScheduled")
    assert "room only on chips on which a virtual NPU of the job could not be created" in condition["message"]
    uid = pod_["metadata"]["uid"]
    simulation.run(20)
    assert [each["metadata"]["uid"] for each in server.of(POD)] == [uid]


def test_pods_without_npus_are_not_concerned() -> None:
    raw = pod("x-0", "1c", "x", on="n")
    raw["status"] = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": MESSAGE}
    world = World(node("n", "8c+8Gi"), raw).run(CONFIGURATION)
    assert world.decisions.writes == []
