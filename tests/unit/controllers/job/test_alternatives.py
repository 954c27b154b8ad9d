"""A job whose tasks list alternative accelerators has Pods of the one that the scheduler chose, and never of two."""

import json
from typing import Any

import pytest

from scheduler.api.card_alternatives import parse_gangs
from scheduler.api.kinds import POD, POD_GROUP, VCJOB
from scheduler.api.names import (
    CARD_ALTERNATIVE,
    CARD_ALTERNATIVES,
    CARD_GANGS,
    CARD_NAME,
    CARD_REQUEST,
    PREPARED_ALTERNATIVE,
)
from scheduler.controllers.effects import Create
from tests.unit.controllers.job.world import KilledError, Raw, World, job, task

GPU, NPU = "nvidia.com/gpu", "huawei.com/Ascend910"
ALTERNATIVES = [
    {"name": "gpu", "card": "NVIDIA-H200", "resource": GPU, "count": 8, "image": "train:cuda"},
    {"name": "npu", "card": "Ascend-910B", "resource": NPU, "count": 16, "image": "train:cann", "replicas": 1},
]


def with_alternatives(*others: Raw, alternatives: object = ALTERNATIVES, **spec: Any) -> Raw:
    listing = task("w", 2)
    text = alternatives if isinstance(alternatives, str) else json.dumps(alternatives)
    listing["template"]["metadata"] = {"annotations": {CARD_ALTERNATIVES: text}}
    return job(tasks=[listing, *others], **spec)


def started(raw: Raw | None = None) -> World:
    world = World()
    world.create(with_alternatives(task("master")) if raw is None else raw)
    world.settle()
    return world


def choose(world: World, name: str, phase: str = "") -> None:
    """The scheduler chooses, and writes the phase in the same call."""
    body: Raw = {"metadata": {"annotations": {CARD_ALTERNATIVE: name}}}
    if phase:
        body["status"] = {"phase": phase}
    world.patch(POD_GROUP, world.group()["metadata"]["name"], body)
    world.settle()


def marks(world: World) -> Raw:
    found: Raw = world.group()["metadata"]["annotations"]
    return found


def alternatives_of_pods(world: World) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["annotations"][CARD_ALTERNATIVE] for pod in world.all(POD)}


def test_the_pod_group_is_prepared_for_the_preferred_alternative_and_lists_the_gangs_of_all() -> None:
    world = started()
    group, annotations = world.group(), marks(world)
    assert annotations[PREPARED_ALTERNATIVE] == "gpu"
    assert json.loads(annotations[CARD_REQUEST]) == {"NVIDIA-H200": 16}
    assert (group["spec"]["minMember"], group["spec"]["minTaskMember"]) == (3, {"w": 2, "master": 1})
    assert group["spec"]["minResources"][GPU] == "16" and NPU not in group["spec"]["minResources"]

    gangs, problem = parse_gangs(annotations[CARD_GANGS])
    assert not problem
    gpu, npu = gangs
    assert (gpu.name, gpu.spec.min_member, json.loads(gpu.card_request)) == ("gpu", 3, {"NVIDIA-H200": 16})
    assert (npu.name, npu.spec.min_member, json.loads(npu.card_request)) == ("npu", 2, {"Ascend-910B": 16})
    assert npu.spec.min_resources is not None and npu.spec.min_resources[NPU] == "16"
    assert [(role.name, role.pods) for role in npu.roles] == [("w", 1), ("master", 1)]
    assert npu.roles[0].annotations[CARD_NAME] == "Ascend-910B"
    assert npu.roles[0].spec.containers[0].env is None


def test_no_pod_exists_before_the_admission_and_then_those_of_the_choice() -> None:
    world = started()
    assert not world.all(POD)
    choose(world, "gpu", "Inqueue")
    assert alternatives_of_pods(world) == {"j-w-0": "gpu", "j-w-1": "gpu", "j-master-0": "gpu"}
    pod = world.find(POD, "j-w-0")
    assert pod["metadata"]["annotations"][CARD_NAME] == "NVIDIA-H200"
    assert CARD_ALTERNATIVES not in pod["metadata"]["annotations"]
    (container,) = pod["spec"]["containers"]
    assert (container["image"], container["resources"]["limits"]) == ("train:cuda", {GPU: "8"})


def test_another_choice_is_prepared_before_its_admission() -> None:
    world = started()
    choose(world, "npu")
    assert marks(world)[PREPARED_ALTERNATIVE] == "npu"
    assert json.loads(marks(world)[CARD_REQUEST]) == {"Ascend-910B": 16}
    assert world.group()["spec"]["minMember"] == 2
    assert GPU not in world.group()["spec"]["minResources"]
    assert not world.all(POD)
    choose(world, "npu", "Inqueue")
    assert alternatives_of_pods(world) == {"j-w-0": "npu", "j-master-0": "npu"}
    world.run(2)
    assert world.phase() == "Running"
    assert world.status()["minAvailable"] == 2


def test_waiting_pods_are_gone_before_those_of_another_choice_exist() -> None:
    world = started(with_alternatives(policies=[{"event": "*", "action": "AbortJob"}]))
    choose(world, "gpu", "Inqueue")
    world.wait(2)
    assert world.status()["pending"] == 2
    world.writes.clear()
    choose(world, "npu", "Pending")
    assert not world.all(POD)
    assert marks(world)[PREPARED_ALTERNATIVE] == "npu"
    choose(world, "npu", "Inqueue")
    world.wait(2)
    assert alternatives_of_pods(world) == {"j-w-0": "npu"}
    assert (world.phase(), world.status().get("retryCount", 0)) == ("Pending", 0)  # no Pod counts as evicted


def test_a_pod_with_a_node_keeps_the_alternative() -> None:
    world = started()
    choose(world, "gpu", "Inqueue")
    world.patch(POD, "j-w-0", {"spec": {"nodeName": "n1"}})
    choose(world, "npu", "Pending")
    assert set(alternatives_of_pods(world).values()) == {"gpu"}
    assert marks(world)[PREPARED_ALTERNATIVE] == "gpu"


def test_pods_that_terminate_hold_up_the_next_alternative() -> None:
    world = started()
    choose(world, "gpu", "Inqueue")
    for name in ("j-w-0", "j-w-1", "j-master-0"):
        until = {"deletionTimestamp": "2027-01-15T08:00:00Z", "deletionGracePeriodSeconds": 30}
        world.patch(POD, name, {"metadata": {**until, "finalizers": ["test/kept"]}})
    choose(world, "npu", "Inqueue")
    world.wait(5)
    assert set(alternatives_of_pods(world).values()) == {"gpu"}
    assert marks(world)[PREPARED_ALTERNATIVE] == "gpu"
    world.stop_deleted()
    world.wait(5)
    assert set(alternatives_of_pods(world).values()) == {"npu"}


def test_a_scaled_job_gets_more_pods_of_its_alternative() -> None:
    world = started(with_alternatives(task("master")))
    world.run(3)
    spec = world.find(VCJOB, "j")["spec"]
    first, second = spec["tasks"]
    tasks = [{**first, "replicas": 3, "minAvailable": 3}, second]
    world.patch(VCJOB, "j", {"spec": {"tasks": tasks, "minAvailable": 4}})
    world.run(3)
    assert alternatives_of_pods(world) == dict.fromkeys(("j-w-0", "j-w-1", "j-w-2", "j-master-0"), "gpu")
    assert json.loads(marks(world)[CARD_REQUEST]) == {"NVIDIA-H200": 24}
    (gpu, _), _ = parse_gangs(marks(world)[CARD_GANGS])
    assert gpu.spec.min_member == world.group()["spec"]["minMember"] == 4


def test_a_restarted_job_chooses_again() -> None:
    world = started(with_alternatives(policies=[{"event": "PodFailed", "action": "RestartJob"}]))
    choose(world, "npu")
    choose(world, "npu", "Inqueue")
    world.bind()
    world.end_pod("j-w-0", "Failed", 1)
    world.wait(3)
    world.stop_deleted()
    world.wait(3)
    assert CARD_ALTERNATIVE not in marks(world)
    assert marks(world)[PREPARED_ALTERNATIVE] == "gpu"
    choose(world, "gpu", "Inqueue")
    assert alternatives_of_pods(world) == {"j-w-0": "gpu", "j-w-1": "gpu"}


def test_a_scheduler_that_does_not_choose_gets_the_preferred_alternative() -> None:
    world = started()
    world.run(3)
    assert world.phase() == "Running"
    assert set(alternatives_of_pods(world).values()) == {"gpu"}


@pytest.mark.parametrize("alternatives", ["[{", [{"card": "A", "resource": "gpu"}]])
def test_a_malformed_list_is_set_aside_with_a_warning(alternatives: object) -> None:
    world = started(with_alternatives(alternatives=alternatives))
    world.run(3)
    assert world.phase() == "Running"
    (warning,) = [message for _, reason, message in world.job_events() if reason == "Malformed"]
    assert f"spec.tasks[0].template.metadata.annotations[{CARD_ALTERNATIVES}]" in warning


def test_marks_on_the_job_are_not_taken_for_those_of_the_pod_group() -> None:
    forged = {CARD_ALTERNATIVE: "npu", PREPARED_ALTERNATIVE: "npu", CARD_GANGS: "[]", "kept": "yes"}
    world = started(with_alternatives(annotations=forged))
    assert CARD_ALTERNATIVE not in marks(world)
    assert (marks(world)[PREPARED_ALTERNATIVE], marks(world)["kept"]) == ("gpu", "yes")


@pytest.mark.parametrize("writes", range(14))
def test_pods_of_two_alternatives_never_exist_at_once_wherever_the_controllers_are_killed(writes: int) -> None:
    world = World()
    world.create(with_alternatives(task("master")))
    seen: list[set[str]] = []
    world.refuse = lambda effect: _seen(world, seen, effect)
    for name, phase in (("", ""), ("gpu", "Inqueue"), ("npu", "Pending"), ("npu", "Inqueue")):
        world.writes_left = writes
        try:
            world.settle() if not name else choose(world, name, phase)
        except KilledError:
            world.start()
            world.settle()
    world.writes_left = float("inf")
    world.wait(5)
    world.run(3)
    assert all(len(found) <= 1 for found in seen)
    assert alternatives_of_pods(world) == {"j-w-0": "npu", "j-master-0": "npu"}
    assert world.find(VCJOB, "j")["status"]["state"]["phase"] == "Running"


def _seen(world: World, seen: list[set[str]], effect: object) -> str:
    """Notes the alternatives of the Pods that exist once a Pod is created."""
    if isinstance(effect, Create) and effect.kind is POD:
        mark = effect.manifest["metadata"]["annotations"][CARD_ALTERNATIVE]
        seen.append({mark, *alternatives_of_pods(world).values()})
    return ""
