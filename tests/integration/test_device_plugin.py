"""``volcano-py playground device-plugin`` on a real API server: the chips that the scheduler chooses are those that the
containers get, and stay so when chips break, and when device plugin and kubelet restart.

The kubelet is the one of ``tests.fake_kubelet``, which starts no containers. ``make test-node`` runs real ones.
"""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from controlplane.client import ApiError
from controlplane.run import ControlPlane
from scheduler.api.names import ASCEND_910, ASCEND_REAL, PREDICATE_TIME
from tests.fake_kubelet import FakeKubelet, RejectedError
from tests.integration.playground import Playground
from tests.integration.programs import print_end
from tests.integration.stage import Namespace, a_control_plane, running

pytestmark = pytest.mark.controlplane

JOBS = "/apis/batch.volcano.sh/v1alpha1"
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": None}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with a_control_plane() as found:
        found.start_controller_manager()
        found.admin.create("/api/v1/namespaces", {"metadata": {"name": "volcano-system"}})  # of the scheduler
        yield found


class NodeUnderTest:
    """A Node with a kubelet and a device plugin. ``step`` does what the kubelet does next."""

    def __init__(self, space: Namespace, name: str, root: Path, directory: Path) -> None:
        self.api = space.api
        self.name = name
        self.kubelet = FakeKubelet(root)
        self.kubelet.start()
        self.environments: dict[str, dict[str, str]] = {}
        """UID of a Pod -> the environment of its container."""
        self._started: dict[str, str] = {}
        """The UID of each Pod that was started, by namespace and name."""
        self._space = space
        self._directory = directory / name
        self._directory.mkdir()
        amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        status = {"allocatable": amounts, "capacity": amounts, "conditions": [READY]}
        meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        self.api.create("/api/v1/nodes", {"metadata": meta, "status": status})
        self.plugin = self.start_plugin()

    def start_plugin(self) -> Playground:
        directories = ("--kubelet-dir", str(self.kubelet.directory), "--root-dir", str(self.kubelet.root))
        options = ("--node", self.name, *directories, "--family", "910b-8")
        self.plugin = Playground(self._space.plane, self._directory, "device-plugin", *options)
        return self.plugin

    def restart_kubelet(self) -> None:
        self.kubelet.stop()
        self.kubelet.start()

    def stop(self) -> None:
        self.plugin.stop()
        self.kubelet.stop()
        print_end(self.plugin.log)

    def step(self) -> None:
        endpoint = self.kubelet.endpoints.get(ASCEND_910)
        amounts = {
            "capacity": {ASCEND_910: str(len(endpoint.health) if endpoint else 0)},
            "allocatable": {ASCEND_910: str(len(self.kubelet.healthy(ASCEND_910)))},
        }
        self.api.patch(f"/api/v1/nodes/{self.name}/status", {"status": amounts})
        pods = [pod for pod in self._space.pods() if pod["spec"].get("nodeName") == self.name]
        present = {self._key(pod): pod["metadata"]["uid"] for pod in pods}
        for key in list(self.kubelet.assigned):
            if present.get(key) != self._started[key]:
                self.kubelet.end(key)
        for pod in sorted(pods, key=lambda pod: int(pod["metadata"]["annotations"][PREDICATE_TIME])):
            try:
                self._start(pod)
            except ApiError as error:  # the Pod was deleted in the meantime
                assert error.status == 404, error

    def _start(self, pod: dict[str, Any]) -> None:
        meta, (container,) = pod["metadata"], pod["spec"]["containers"]
        path = f"{self._space.path}/pods/{meta['name']}"
        if meta.get("deletionTimestamp"):
            self.api.delete(f"{path}?gracePeriodSeconds=0")
        elif pod["status"]["phase"] == "Pending":
            self._started[self._key(pod)] = meta["uid"]
            amount = int(container["resources"]["limits"][ASCEND_910])
            try:
                self.environments[meta["uid"]] = self.kubelet.admit(self._key(pod), ASCEND_910, amount)
                status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            except RejectedError as error:
                status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": str(error)}
            self.api.patch(f"{path}/status", {"status": status})

    def _key(self, pod: dict[str, Any]) -> str:
        return f"{self._space.name}/{pod['metadata']['name']}"


class Nodes(Namespace):
    """A namespace, and all nodes of the cluster."""

    nodes: list[NodeUnderTest]

    @contextmanager
    def running(self, directory: Path, *names: str) -> Iterator[None]:
        """Runs the nodes, the scheduler and the controllers until the end of the block."""
        with ExitStack() as stack:
            self.nodes = []
            for name in names:
                root = stack.enter_context(tempfile.TemporaryDirectory(prefix="k"))  # short: it is part of a socket
                self.nodes.append(NodeUnderTest(self, name, Path(root), directory))
                stack.callback(self.nodes[-1].stop)
            self.wait(self.all_registered)
            stack.enter_context(self.scheduled(directory))
            stack.enter_context(running("controllers", self.plane.kubeconfig, directory, "--leader-elect=false"))
            yield

    def all_registered(self) -> bool:
        """Whether kubelets and scheduler can learn of all chips."""
        for node in self.nodes:
            node.step()
        return all(node.kubelet.healthy(ASCEND_910) and node.plugin.devices(node.name) for node in self.nodes)

    def job(self, name: str, replicas: int, chips: int) -> None:
        amounts = {"cpu": "1", ASCEND_910: str(chips)}
        container = {"name": "ascend", "image": "registry.example/train:1"}
        labels = {"ring-controller.atlas": "ascend-910b"}
        spec = {
            "schedulerName": "volcano-py",
            "nodeSelector": {"accelerator-type": "module-910b-8"},
            "restartPolicy": "Never",
            "containers": [{**container, "resources": {"requests": amounts, "limits": amounts}}],
        }
        template = {"metadata": {"labels": labels}, "spec": spec}
        body = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": name, "labels": {**labels, "fault-scheduling": "force"}},
            "spec": {
                "schedulerName": "volcano-py",
                "minAvailable": replicas,
                "policies": [{"event": "PodFailed", "action": "Ignore"}],
                "tasks": [{"name": "worker", "replicas": replicas, "template": template}],
            },
        }
        self.api.create(f"{JOBS}/namespaces/{self.name}/jobs", body)

    def run_with_their_chips(self, job: str, replicas: int) -> bool:
        """Whether the Pods of a job run, each with the chips of its annotation. A Pod that has others is an error."""
        for node in self.nodes:
            node.step()
        pods = [pod for pod in self.pods() if pod["metadata"]["labels"]["volcano.sh/job-name"] == job]
        environments = {uid: each for node in self.nodes for uid, each in node.environments.items()}
        for pod in pods:
            assert pod["status"]["phase"] != "Failed", pod["status"]
            if pod["metadata"]["uid"] in environments:
                annotations = pod["metadata"]["annotations"]
                visible = environments[pod["metadata"]["uid"]]["ASCEND_VISIBLE_DEVICES"]
                assert annotations[ASCEND_910] == ",".join(f"Ascend910-{chip}" for chip in visible.split(","))
                assert annotations[ASCEND_REAL] == annotations[ASCEND_910]
        return [pod["status"]["phase"] for pod in pods] == ["Running"] * replicas


def test_containers_get_the_chips_that_the_scheduler_chose_and_others_when_chips_break(
    plane: ControlPlane, tmp_path: Path
) -> None:
    space = Nodes(plane)
    with space.running(tmp_path, "real-0", "real-1"):
        first, second = space.nodes
        space.job("train", 3, 4)
        space.wait(lambda: space.run_with_their_chips("train", 3))
        before = {pod["metadata"]["uid"]: pod for pod in space.pods()}

        pod = next(iter(before.values()))
        node = next(each for each in space.nodes if each.name == pod["spec"]["nodeName"])
        broken = pod["metadata"]["annotations"][ASCEND_910].split(",")[0]
        node.plugin.command("fail", node.name, "--chip", broken.removeprefix("Ascend910-"))
        space.wait(lambda: broken not in node.kubelet.healthy(ASCEND_910))

        def restarted() -> bool:
            done = space.run_with_their_chips("train", 3)
            return done and before.keys().isdisjoint(pod["metadata"]["uid"] for pod in space.pods())

        space.wait(restarted, timeout=90)
        used = {(pod["spec"]["nodeName"], pod["metadata"]["annotations"][ASCEND_910]) for pod in space.pods()}
        assert not any(name == node.name and broken in chips.split(",") for name, chips in used)

        # Nothing is lost when device plugin and kubelet restart.
        for each in space.nodes:
            each.plugin.kill()
        space.api.delete(f"{JOBS}/namespaces/{space.name}/jobs/train")
        space.job("again", 3, 4)
        for each in space.nodes:
            each.start_plugin()
            each.restart_kubelet()
        space.wait(lambda: space.run_with_their_chips("again", 3), timeout=90)
        assert {first.plugin.stop(), second.plugin.stop()} == {0}
