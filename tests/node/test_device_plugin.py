"""Containers on a real node with simulated NPUs: they get the chips that the scheduler chose, and others when a chip
breaks; device plugin and kubelet restart while they run."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from controlplane.client import ApiError
from controlplane.manifests import CHART, RELEASE
from controlplane.node.cluster import Cluster
from scheduler.api.kinds import NODE, VCJOB, object_path
from scheduler.api.names import ASCEND_910
from tests.integration.playground import Playground
from tests.integration.programs import print_end
from tests.node.stage import Stage, container_status

pytestmark = pytest.mark.node

WITH_CHIPS = "node-3"
RUN = 'echo "$ASCEND_VISIBLE_DEVICES" > "/marks/$HOSTNAME"; sleep 3600'


class Chips:
    """The device plugin of a node, as a process."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self._cluster = cluster
        self._directory = directory
        self.node = cluster.nodes[WITH_CHIPS]
        # All kubelets use the same directory for device plugins; the one that started last has its socket there.
        self.node.stop_kubelet()
        self.node.start_kubelet()
        self.start()

    def start(self) -> None:
        root = self.node.directory / "kubelet"
        options = ("device-plugin", "--node", self.node.name, "--root-dir", str(root), "--family", "910b-8")
        self.plugin = Playground(self._cluster.plane, self._directory, *options)

    def amount(self) -> int:
        """The chips that the kubelet reports as allocatable."""
        status = self._cluster.plane.admin.get(object_path(NODE, "", self.node.name))["status"]
        return int(status["allocatable"].get(ASCEND_910, 0))

    def registrations(self) -> int:
        """How often the device plugin has registered with a kubelet."""
        return sum("is registered with" in each["text"] for each in self.plugin.news())


@pytest.fixture(scope="module")
def chips(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chips]:
    """A node with eight chips, and a scheduler that restarts jobs whose chips break."""
    for namespace in ("mindx-dl", "volcano-system"):
        with suppress(ApiError):  # it exists
            cluster.plane.admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    options = ("--reset-then-reuse-values", "--set=scheduler.rescheduling=true", "--wait", "--timeout=120s")
    cluster.helm("upgrade", RELEASE, CHART, *options)
    found = Chips(cluster, tmp_path_factory.mktemp("plugin"))
    yield found
    found.plugin.stop()
    print_end(found.plugin.log)


def task(stage: Stage, name: str, script: str, amount: int, replicas: int = 1) -> dict[str, Any]:
    """A task whose Pods have chips."""
    amounts = {"cpu": "100m", "memory": "32Mi", ASCEND_910: str(amount)}
    return stage.task(
        name,
        script,
        replicas,
        container={"resources": {"requests": amounts, "limits": amounts}},
        nodeSelector={"accelerator-type": "module-910b-8"},
    )


def submit(stage: Stage, name: str, *tasks: dict[str, Any]) -> None:
    """Creates a vcjob that restarts when a chip breaks."""
    body = {
        "apiVersion": VCJOB.api_version,
        "kind": "Job",
        "metadata": {"name": name, "labels": {"fault-scheduling": "force"}},
        "spec": {
            "schedulerName": "volcano-py",
            "minAvailable": sum(each["replicas"] for each in tasks),
            "policies": [{"event": "PodFailed", "action": "Ignore"}],
            "tasks": list(tasks),
        },
    }
    stage.api.create(object_path(VCJOB, stage.namespace, "").rstrip("/"), body)


def chosen(pod: dict[str, Any]) -> str:
    """The chips that the scheduler chose, as a container sees them."""
    return str(pod["metadata"]["annotations"][ASCEND_910]).replace("Ascend910-", "")


def test_each_container_gets_the_chips_that_the_scheduler_chose(stage: Stage, chips: Chips) -> None:
    stage.until(lambda: chips.amount() == 8)
    show = 'echo "$ASCEND_VISIBLE_DEVICES"'
    submit(stage, "show", task(stage, "one", show, 1, 2), task(stage, "two", show, 2))
    stage.reaches("show", "Completed")
    pods = stage.pods_of("show")
    assert [stage.log(pod["metadata"]["name"]).strip() for pod in pods] == [chosen(pod) for pod in pods]
    assert len({chip for pod in pods for chip in chosen(pod).split(",")}) == 4


def test_a_job_gets_other_chips_when_one_of_its_chips_breaks(stage: Stage, chips: Chips) -> None:
    submit(stage, "train", task(stage, "worker", RUN, 4))
    first = stage.until(lambda: stage.marked("train-worker-0").strip())
    broken = first.split(",")[0]
    chips.plugin.command("fail", WITH_CHIPS, "--chip", broken)
    try:
        stage.until(lambda: stage.marked("train-worker-0").strip() not in ("", first))
        (pod,) = stage.pods_of("train")
        second = stage.marked("train-worker-0").strip()
        assert second == chosen(pod)
        assert broken not in second.split(",")
        stage.until(lambda: chips.amount() == 7)
    finally:
        chips.plugin.command("recover", WITH_CHIPS)


def test_containers_keep_their_chips_when_device_plugin_and_kubelet_restart(stage: Stage, chips: Chips) -> None:
    submit(stage, "before", task(stage, "worker", RUN, 4))
    first = stage.until(lambda: stage.marked("before-worker-0").strip())
    registrations = chips.registrations()
    chips.plugin.kill()
    chips.node.stop_kubelet()
    chips.node.start_kubelet()
    chips.start()
    stage.until(lambda: chips.registrations() > registrations and chips.amount() == 8)
    submit(stage, "after", task(stage, "worker", RUN, 4))
    second = stage.until(lambda: stage.marked("after-worker-0").strip())
    assert not set(first.split(",")) & set(second.split(","))
    (pod,) = stage.pods_of("before")
    assert container_status(pod)["restartCount"] == 0
    assert (chosen(pod), pod["status"]["phase"]) == (first, "Running")
