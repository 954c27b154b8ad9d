"""`volcano-py playground` on a real API server: the scheduler uses simulated NPU nodes like real nodes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.run import ControlPlane
from scheduler.playground.families import FAMILIES
from tests.integration.installation import EXAMPLES
from tests.integration.playground import playing
from tests.integration.rights import account
from tests.integration.stage import Namespace, a_control_plane, running

pytestmark = pytest.mark.controlplane

ASCEND_910 = "huawei.com/Ascend910"
REAL = "huawei.com/AscendReal"
CONFIGURATION = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
CONSUMED = "18446744073709551615"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """The cluster runs without KWOK: the playground simulates kubelets."""
    with a_control_plane() as found:
        found.start_controller_manager()
        yield found


@pytest.fixture
def space(plane: ControlPlane) -> Namespace:
    return Namespace(plane)


def annotations(space: Namespace, pod: str) -> dict[str, str]:
    found: dict[str, str] = space.api.get(f"{space.path}/pods/{pod}")["metadata"].get("annotations", {})
    return found


def phase(space: Namespace, pod: str) -> Any:
    return space.api.get(f"{space.path}/pods/{pod}")["status"].get("phase")


def ready(space: Namespace, node: str) -> str:
    """The condition Ready of a Node."""
    conditions = space.api.get(f"/api/v1/nodes/{node}")["status"]["conditions"]
    return next(str(each["status"]) for each in conditions if each["type"] == "Ready")


def submit(space: Namespace, name: str, chips: int, **metadata: str) -> None:
    space.group(name, 1)
    selector = {"accelerator-type": "module-910b-8"}
    space.pod(name, name, {"cpu": "1", ASCEND_910: str(chips)}, metadata, nodeSelector=selector)


def test_pods_run_with_the_chips_that_the_scheduler_chose_and_faults_take_effect(
    plane: ControlPlane, space: Namespace, tmp_path: Path
) -> None:
    with (
        playing(plane, tmp_path, "--nodes", "2", "--family", "910b-8", "--prefix", "p") as playground,
        space.scheduled(tmp_path),
        running("controllers", account(plane, "controllers"), tmp_path, "--leader-elect=false"),
    ):
        nodes = ("p-910b-8-0", "p-910b-8-1")

        def free_chips() -> int:
            return sum(playground.devices(node).get(ASCEND_910, "").count("Ascend910-") for node in nodes)

        space.wait(lambda: free_chips() == 16)
        playground.command("fail", "p-910b-8-0", "--chip", "0", "--chip", "1")
        space.wait(lambda: playground.devices("p-910b-8-0")[f"{ASCEND_910}-Unhealthy"] == "Ascend910-0,Ascend910-1")
        node = space.api.get("/api/v1/nodes/p-910b-8-0")["status"]
        assert (node["capacity"][ASCEND_910], node["allocatable"][ASCEND_910]) == ("8", "6")

        submit(space, "six", 6)
        submit(space, "two", 2)
        space.wait(lambda: [phase(space, name) for name in ("six", "two")] == ["Running"] * 2)
        for name, amount in (("six", 6), ("two", 2)):
            found = annotations(space, name)
            assert found[REAL] == found[ASCEND_910]
            assert found["predicate-time"] == CONSUMED
            configuration = json.loads(found[CONFIGURATION])
            assert [device["device_id"] for device in configuration["devices"]] == [
                chip.removeprefix("Ascend910-") for chip in found[REAL].split(",")
            ]
            assert len(configuration["devices"]) == amount
        space.wait(lambda: free_chips() == 16 - 2 - 8)

        # The node of a Pod stops: the Pod stays as it is, and the node is not ready.
        stopped = space.bound()["two"]
        playground.command("fail", stopped, "--kubelet")
        space.wait(lambda: ready(space, stopped) == "Unknown")
        assert phase(space, "two") == "Running"
        playground.command("recover", stopped)
        space.wait(lambda: ready(space, stopped) == "True")

        space.api.delete(f"{space.path}/pods/six")
        space.wait(lambda: "six" not in space.bound())
        assert playground.stop() == 0
    assert not plane.admin.get("/api/v1/nodes")["items"]
    assert not space.pods()


def test_the_example_of_an_ascend_job_runs_on_the_default_playground(
    plane: ControlPlane, space: Namespace, tmp_path: Path
) -> None:
    with (
        playing(plane, tmp_path, "--nodes", "2", "--prefix", "e") as playground,
        space.scheduled(tmp_path),
        running("controllers", account(plane, "controllers"), tmp_path, "--leader-elect=false"),
    ):
        space.wait(lambda: len(plane.admin.get("/api/v1/nodes")["items"]) == 2)
        plane.kubectl("create", "--namespace", space.name, "-f", EXAMPLES / "acjob.yaml")
        space.wait(lambda: set(space.bound()) == {"resnet-master-0", "resnet-worker-0"})
        space.wait(lambda: {phase(space, pod) for pod in space.bound()} == {"Running"})
        assert playground.stop() == 0


def test_pods_use_every_chip_of_a_node_of_every_family(plane: ControlPlane, space: Namespace, tmp_path: Path) -> None:
    options = [option for name in FAMILIES for option in ("--family", name)]
    with playing(plane, tmp_path, "--nodes", "1", "--prefix", "f", *options) as playground, space.scheduled(tmp_path):
        space.wait(lambda: len(plane.admin.get("/api/v1/nodes")["items"]) == len(FAMILIES))
        for name, family in FAMILIES.items():
            chips = str(len(family.chip_names))
            labels = space.api.get(f"/api/v1/nodes/f-{name}-0")["metadata"]["labels"]
            selector = {key: labels[key] for key in ("accelerator-type", "kubernetes.io/hostname") if key in labels}
            policy = {"huawei.com/schedule_policy": f"chip1-node{chips}"} if name.startswith("npu") else {}
            block = {"sp-block": chips} if name.endswith("super-pod") else {}
            space.group(name, 1, annotations=policy | block)
            space.pod(name, name, {"cpu": "1", family.resource: chips}, nodeSelector=selector)
        space.wait(lambda: {name: phase(space, name) for name in FAMILIES} == dict.fromkeys(FAMILIES, "Running"))
        for name, family in FAMILIES.items():
            assert sorted(annotations(space, name)[REAL].split(",")) == sorted(family.chip_names)
        assert playground.stop() == 0
    assert not plane.admin.get("/api/v1/nodes")["items"]


def test_a_playground_that_is_killed_goes_on_where_it_was(
    plane: ControlPlane, space: Namespace, tmp_path: Path
) -> None:
    options = ("--nodes", "2", "--family", "910b-8", "--prefix", "k")
    with space.scheduled(tmp_path):
        with playing(plane, tmp_path, *options) as playground:
            space.wait(lambda: all(playground.devices(node) for node in ("k-910b-8-0", "k-910b-8-1")))
            submit(space, "before", 4)
            space.wait(lambda: phase(space, "before") == "Running")
            playground.kill()
        found = annotations(space, "before")
        submit(space, "while", 4)
        space.wait(lambda: "while" in space.bound())
        space.api.delete(f"{space.path}/pods/before")
        with playing(plane, tmp_path, *options) as playground:
            space.wait(lambda: phase(space, "while") == "Running" and "before" not in space.bound())
            assert annotations(space, "while")[REAL] == annotations(space, "while")[ASCEND_910]
            assert annotations(space, "while")[REAL] != found[REAL]
            assert len(plane.admin.get("/api/v1/nodes")["items"]) == 2
            playground.kill()
        assert "removed 2 nodes and 1 Pods" in playground.command("clean")
    assert not plane.admin.get("/api/v1/nodes")["items"]


def test_a_malformed_node_gets_a_warning_and_the_others_work(
    plane: ControlPlane, space: Namespace, tmp_path: Path
) -> None:
    with playing(plane, tmp_path, "--nodes", "2", "--family", "910b-8", "--prefix", "m") as playground:
        space.wait(lambda: all(playground.devices(node) for node in ("m-910b-8-0", "m-910b-8-1")))
        broken = {"metadata": {"annotations": {"playground.volcano-py/faults": "{"}}}
        plane.admin.patch("/api/v1/nodes/m-910b-8-0", broken)

        def warned() -> bool:
            events = plane.admin.get("/api/v1/namespaces/default/events")["items"]
            messages = [event["message"] for event in events if event["involvedObject"]["name"] == "m-910b-8-0"]
            return any("metadata.annotations[playground.volcano-py/faults]" in message for message in messages)

        space.wait(warned)
        playground.command("fail", "m-910b-8-1", "--chip", "7")
        space.wait(lambda: playground.devices("m-910b-8-1")[f"{ASCEND_910}-Unhealthy"] == "Ascend910-7")


def test_nodes_that_are_not_simulated_are_left_alone(plane: ControlPlane, tmp_path: Path) -> None:
    node = plane.admin.create("/api/v1/nodes", {"metadata": {"name": "real-910b-8-0"}})
    with playing(plane, tmp_path, "--nodes", "1", "--prefix", "real", "--for", "1s") as playground:
        assert playground.process.wait(30) == 1
        assert "Node real-910b-8-0 exists and is not simulated" in playground.log.read_text(encoding="utf-8")
    with playing(plane, tmp_path, "--nodes", "1", "--prefix", "kept", "--for", "1s", "--keep") as playground:
        assert playground.process.wait(30) == 0
        names = {each["metadata"]["name"] for each in plane.admin.get("/api/v1/nodes")["items"]}
        assert names == {"real-910b-8-0", "kept-910b-8-0"}
        playground.command("clean")
    (left,) = plane.admin.get("/api/v1/nodes")["items"]
    assert left["metadata"]["uid"] == node["metadata"]["uid"]
    plane.admin.delete("/api/v1/nodes/real-910b-8-0")
