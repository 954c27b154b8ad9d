"""vcjobs that can use either of two accelerators, on a real API server with scheduler and controllers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controlplane.client import ApiError
from controlplane.run import ControlPlane
from scheduler.api.names import (
    CARD_ALTERNATIVE,
    CARD_ALTERNATIVES,
    CARD_NAME,
    CARD_QUOTA,
    CARD_REQUEST,
    CONDITION_ALTERNATIVE,
    JOB_NAME,
)
from tests.integration.programs import run
from tests.integration.rights import account
from tests.integration.stage import GROUPS, Namespace, emptied, running

pytestmark = pytest.mark.controlplane

H200, PPU = "NVIDIA-H200", "PPU-ZW810E"
RESOURCES = {H200: "nvidia.com/gpu", PPU: "example.com/ppu"}
IMAGES = {H200: "train:cuda", PPU: "train:ppu"}
CONFIGURATION = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: capacity-card, arguments: {cardUnlimitedCpuMemory: true}}, {name: nodeorder}]
"""


class Stage(Namespace):
    """A queue with eight cards of each model."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        super().__init__(plane)
        self._directory = directory
        self.jobs = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{self.name}/jobs"
        self.queue = f"{self.name}-team"
        annotations = {CARD_QUOTA: json.dumps({H200: 8, PPU: 8})}
        body = {"metadata": {"name": self.queue, "annotations": annotations}, "spec": {"weight": 1}}
        self.api.create(f"{GROUPS}/queues", {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", **body})

    def card_node(self, name: str, card: str, number: int) -> str:
        resource = RESOURCES[card]
        node = self.node(name, **{resource: str(number)})
        labels = {f"{resource}.product": card, f"{resource}.count": str(number), f"{resource}.memory": "97871"}
        self.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})
        return node

    def job(self, name: str) -> None:
        """A gang of two Pods with four cards each."""
        listed = [{"card": c, "resource": RESOURCES[c], "count": 4, "image": IMAGES[c]} for c in (H200, PPU)]
        container = {"name": "main", "image": "train:none", "resources": {"requests": {"cpu": "1"}}}
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"pool": self.name},
            "containers": [container],
        }
        template = {"metadata": {"annotations": {CARD_ALTERNATIVES: json.dumps(listed)}}, "spec": spec}
        task = {"name": "w", "replicas": 2, "minAvailable": 2, "template": template}
        body = {"schedulerName": "volcano-py", "queue": self.queue, "minAvailable": 2, "tasks": [task]}
        kind = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}}
        self.api.create(self.jobs, {**kind, "spec": body})

    def pods_of(self, job: str) -> list[dict[str, Any]]:
        return [pod for pod in self.pods() if pod["metadata"]["labels"].get(JOB_NAME) == job]

    def cards(self, job: str) -> set[str]:
        return {pod["metadata"]["annotations"][CARD_NAME] for pod in self.pods_of(job)}

    def runs_on(self, job: str, node: str) -> bool:
        pods = self.pods_of(job)
        return len(pods) == 2 and all(pod["spec"].get("nodeName") == node for pod in pods)

    def group_of(self, job: str) -> dict[str, Any]:
        items = self.api.get(f"{GROUPS}/namespaces/{self.name}/podgroups")["items"]
        return next((each for each in items if each["metadata"]["name"].startswith(f"{job}-")), {})

    def lines(self, job: str) -> dict[str, str]:
        """Alternative -> what the condition of the PodGroup says about it."""
        conditions = self.group_of(job).get("status", {}).get("conditions") or ()
        messages = (each["message"] for each in conditions if each["type"] == CONDITION_ALTERNATIVE)
        pairs = (line.partition(": ") for line in next(messages, "").split("\n"))
        return {name: text for name, _, text in pairs}

    @property
    def configuration(self) -> str:
        """The file with the configuration of the scheduler."""
        return str(self._directory / "scheduler.conf")

    def shown(self, *command: str) -> str:
        """What the command line prints about objects of the namespace."""
        done = run([*command, "--kubeconfig", str(self.plane.kubeconfig), "-n", self.name])
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def roles(self) -> Iterator[None]:
        """Scheduler and controllers, for the block."""
        Path(self.configuration).write_text(CONFIGURATION, encoding="utf-8")
        controllers = running(
            "controllers", account(self.plane, "controllers"), self._directory, "--leader-elect=false"
        )
        with self.scheduled(self._directory, f"--scheduler-conf={self.configuration}"), controllers:
            yield


@pytest.fixture
def stage(control_plane: ControlPlane, tmp_path: Path) -> Stage:
    emptied(control_plane)
    return Stage(control_plane, tmp_path)


def test_a_full_quota_leads_to_the_second_card_and_a_freed_one_back_to_the_first(stage: Stage) -> None:
    gpus, ppus = stage.card_node("gpus", H200, 16), stage.card_node("ppus", PPU, 8)
    with stage.roles():
        stage.job("a")
        stage.wait(lambda: stage.runs_on("a", gpus))
        stage.job("b")
        stage.wait(lambda: stage.runs_on("b", ppus))
        stage.job("c")
        exceeded = "requested <8000>, total would be <16000>, but capability is <8000>"
        stage.wait(lambda: all(exceeded in stage.lines("c").get(card, "") for card in (H200, PPU)))

    assert stage.pods_of("c") == []
    conf = stage.configuration
    explained = json.loads(stage.shown("explain", "job", "c", "--no-changes", "-o", "json", "--scheduler-conf", conf))
    assert {each["name"]: each["state"] for each in explained["alternatives"]} == dict.fromkeys(
        (H200, PPU), "does not fit"
    )
    assert all(exceeded in each["reason"] for each in explained["alternatives"])
    viewed = stage.shown("job", "view", "b")
    assert f"4 {RESOURCES[PPU]}, {IMAGES[PPU]}" in viewed and f"{PPU}:         chosen" in viewed
    group = stage.group_of("b")
    assert group["metadata"]["annotations"][CARD_ALTERNATIVE] == PPU
    assert json.loads(group["metadata"]["annotations"][CARD_REQUEST]) == {PPU: 8}
    assert stage.lines("b")[PPU] == "chosen" and exceeded in stage.lines("b")[H200]
    for pod in stage.pods_of("b"):
        (container,) = pod["spec"]["containers"]
        assert (container["image"], container["resources"]["limits"]) == (IMAGES[PPU], {RESOURCES[PPU]: "4"})

    stage.api.delete(f"{stage.jobs}/a?propagationPolicy=Background")
    for pod in stage.pods_of("a"):
        try:
            stage.api.delete(f"{stage.path}/pods/{pod['metadata']['name']}?gracePeriodSeconds=0")
        except ApiError as error:
            assert error.status == 404
    with stage.roles():  # other processes
        stage.wait(lambda: stage.runs_on("c", gpus))
        assert stage.runs_on("b", ppus)


def test_pods_that_wait_are_replaced_when_nodes_of_another_card_arrive(stage: Stage) -> None:
    stage.card_node("gpus", H200, 4)  # one Pod of two
    with stage.roles():
        stage.job("a")
        stage.wait(lambda: len(stage.pods_of("a")) == 2 and stage.cards("a") == {H200})
        ppus = stage.card_node("ppus", PPU, 8)

        def moved() -> bool:
            assert len(stage.cards("a")) < 2
            return stage.runs_on("a", ppus)

        stage.wait(moved)
    assert stage.cards("a") == {PPU}
    assert "1 of 2 Pods find a node" in stage.lines("a")[H200]
