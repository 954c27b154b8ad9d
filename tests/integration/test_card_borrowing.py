"""Queues that borrow idle card quota on a real API server, and give it back."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.run import ControlPlane
from scheduler.api.names import CARD_NAME, CARD_QUOTA
from tests.integration.stage import GROUPS, Namespace, emptied

pytestmark = pytest.mark.controlplane

CARD = "NVIDIA-H200"
CARDS = "nvidia.com/gpu"
CONFIGURATION = """\
actions: "enqueue, allocate, reclaim, gangreclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance},
            {name: capacity-card, arguments: {cardBorrowing: true}}]
- plugins: [{name: predicates}, {name: nodeorder}]
"""


class Stage(Namespace):
    """A node with four cards, and two queues with a quota of two each."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane)
        node = self.node("n1", **{CARDS: "4"})
        labels = {f"{CARDS}.product": CARD, f"{CARDS}.count": "4", f"{CARDS}.memory": "143771"}
        self.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})
        self.queues = [f"{self.name}-{kind}" for kind in ("mine", "yours")]
        for queue in self.queues:
            body = {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": {"name": queue, "annotations": {CARD_QUOTA: json.dumps({CARD: 2})}},
                "spec": {"weight": 1},
            }
            self.api.create(f"{GROUPS}/queues", body)

    def jobs(self, name: str, queue: str, number: int) -> None:
        """Jobs of one Pod with one card."""
        for i in range(number):
            self.group(f"{name}-{i}", 1, queue=queue)
            self.pod(f"{name}-{i}", f"{name}-{i}", {"cpu": "1", CARDS: "1"}, {CARD_NAME: CARD})

    def figure(self, queue: str, name: str) -> str | None:
        """A figure of the card in the status of a queue; None if it is not written yet."""
        status = self.api.get(f"{GROUPS}/queues/{queue}").get("status") or {}
        found: str | None = ((status.get("cards") or {}).get(CARD) or {}).get(name)
        return found

    def running(self, name: str) -> int:
        return sum(pod.startswith(f"{name}-") for pod in self.bound())


@pytest.fixture
def stage(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Stage]:
    emptied(control_plane)
    found = Stage(control_plane)
    conf = tmp_path / "scheduler.conf"
    conf.write_text(CONFIGURATION, encoding="utf-8")
    with found.scheduled(tmp_path, f"--scheduler-conf={conf}"):
        yield found


def test_a_queue_borrows_idle_quota_and_its_owner_gets_it_back(stage: Stage) -> None:
    mine, yours = stage.queues
    stage.jobs("borrow", mine, 5)
    stage.wait(lambda: stage.running("borrow") == 4)
    stage.wait(lambda: stage.figure(mine, "used") == "4", 60)
    assert stage.figure(mine, "quota") == "2"
    stage.wait(lambda: stage.figure(mine, "borrowed") == "2" and stage.figure(yours, "lent") == "2", 60)
    assert [stage.figure(queue, "guarantee") for queue in (mine, yours)] == ["2", "2"]
    assert [stage.figure(mine, name) for name in ("granted", "existing", "healthy", "problem")] == ["4", "4", "4", None]

    stage.jobs("own", yours, 3)

    stage.wait(lambda: stage.running("own") == 2 and stage.running("borrow") == 2, 60)
    stage.wait(lambda: [stage.figure(yours, name) for name in ("guarantee", "used", "lent")] == ["2", "2", "0"], 60)
    stage.wait(lambda: any("idle quota of queues: <0>" in event["message"] for event in stage.events()), 60)
