"""A tenant who may edit one namespace tries to hold more cards than the quota of a queue allows."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controlplane.client import ApiError, Client
from controlplane.run import ControlPlane
from scheduler.api.names import BINDING_RECORD, CARD_NAME, CARD_QUOTA, GROUP_NAME
from tests.integration.stage import GROUPS, Namespace, emptied
from tests.integration.tenant import tenant

pytestmark = pytest.mark.controlplane

CARD = "NVIDIA-H200"
CARDS = "nvidia.com/gpu"
CONFIGURATION = """\
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: capacity-card}, {name: nodeorder}]
"""


def _custom(kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    version = "scheduling.volcano.sh/v1beta1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


class Stage(Namespace):
    """Two nodes with two cards each. Queue ``paid`` may have one, queue ``free`` none, and the tenant's Pod ``old`` of
    ``paid`` will terminate for an hour."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        super().__init__(plane)
        self._directory = directory
        self.tenant = tenant(plane, self.name)
        for name in ("n1", "n2"):
            node = self.node(name, **{CARDS: "2"})
            labels = {f"{CARDS}.product": CARD, f"{CARDS}.count": "2", f"{CARDS}.memory": "143771"}
            self.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})
        self.paid, self.free = (f"{self.name}-{kind}" for kind in ("paid", "free"))
        for queue, number in ((self.paid, 1), (self.free, 0)):
            annotations = {CARD_QUOTA: json.dumps({CARD: number})}
            body = _custom("Queue", queue, {"weight": 1}, annotations=annotations)
            self.api.create(f"{GROUPS}/queues", body)
        self._system = f"{self.name}-system"
        self.api.create("/api/v1/namespaces", {"metadata": {"name": self._system}})
        data = {"key": b"k" * 32, "in-use-since": b"1"}
        encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
        self.api.create(f"/api/v1/namespaces/{self._system}/secrets", {"metadata": {"name": "key"}, "data": encoded})
        self._probes = 0

    def at_work(self) -> Any:
        """A running scheduler."""
        conf = self._directory / "scheduler.conf"
        conf.write_text(CONFIGURATION, encoding="utf-8")
        options = (f"--scheduler-conf={conf}", f"--signing-key-secret={self._system}/key")
        return self.scheduled(self._directory, *options, kubeconfig=self.plane.kubeconfig)

    def card_pod(self, name: str, group: str, **spec: Any) -> None:
        annotations = {CARD_NAME: CARD, "volcano-py.test/terminates-for": "1h"}
        self.pod(name, group, {"cpu": "1", CARDS: "1"}, annotations, terminationGracePeriodSeconds=3600, **spec)

    def wait_for_a_cycle(self) -> None:
        """Waits until the scheduler has decided on all objects: a Pod that is created last is bound."""
        self._probes += 1
        name = f"probe-{self._probes}"
        self.group(name, 1)
        self.pod(name, name, {"cpu": "100m"})
        self.wait(lambda: name in self.bound())

    def cards(self) -> set[str]:
        """The Pods that hold a card: bound and not deleted."""
        return {name for name in self.bound() if not name.startswith("probe")}


@pytest.fixture
def stage(control_plane: ControlPlane, tmp_path: Path) -> Stage:
    emptied(control_plane)
    return Stage(control_plane, tmp_path)


def _annotate(stage: Stage, user: Client, key: str, value: str | None) -> None:
    user.patch(f"{stage.path}/pods/old", {"metadata": {"annotations": {key: value}}})


def a_long_grace_period(stage: Stage, user: Client) -> None:
    user.delete(f"{stage.path}/pods/old")


def another_group(stage: Stage, user: Client) -> None:
    group = _custom("PodGroup", "elsewhere", {"minMember": 1, "queue": stage.free})
    user.create(f"{GROUPS}/namespaces/{stage.name}/podgroups", group)
    _annotate(stage, user, GROUP_NAME, "elsewhere")


def no_group(stage: Stage, user: Client) -> None:
    _annotate(stage, user, GROUP_NAME, None)


def another_queue(stage: Stage, user: Client) -> None:
    user.patch(f"{GROUPS}/namespaces/{stage.name}/podgroups/old", {"spec": {"queue": stage.free}})


def a_deleted_group(stage: Stage, user: Client) -> None:
    user.delete(f"{GROUPS}/namespaces/{stage.name}/podgroups/old")


def a_group_made_again(stage: Stage, user: Client) -> None:
    a_deleted_group(stage, user)
    group = _custom("PodGroup", "old", {"minMember": 1, "queue": stage.free})
    user.create(f"{GROUPS}/namespaces/{stage.name}/podgroups", group)


def another_card(stage: Stage, user: Client) -> None:
    _annotate(stage, user, CARD_NAME, "NVIDIA-GeForce-RTX-4090")


def another_queue_without_the_record(stage: Stage, user: Client) -> None:
    another_queue(stage, user)
    _annotate(stage, user, BINDING_RECORD, None)


def no_group_and_no_record(stage: Stage, user: Client) -> None:
    a_deleted_group(stage, user)
    _annotate(stage, user, BINDING_RECORD, "{}")


@pytest.mark.parametrize(
    "attack",
    [
        a_long_grace_period,
        another_group,
        no_group,
        another_queue,
        a_deleted_group,
        a_group_made_again,
        another_card,
        another_queue_without_the_record,
        no_group_and_no_record,
    ],
)
def test_a_tenant_gets_no_card_beyond_the_quota(stage: Stage, attack: Callable[[Stage, Client], None]) -> None:
    with stage.at_work():
        stage.group("old", 1, stage.paid)
        stage.card_pod("old", "old")
        stage.wait(lambda: stage.cards() == {"old"})
        attack(stage, stage.tenant)
        stage.group("new", 1, stage.paid)
        stage.card_pod("new", "new")
        stage.wait_for_a_cycle()
        assert stage.cards() == {"old"}
    with stage.at_work():  # after a restart
        stage.wait_for_a_cycle()
        assert stage.cards() == {"old"}
        stage.wait(lambda: stage.condition("new")["message"])
        stage.api.delete(f"{stage.path}/pods/old?gracePeriodSeconds=0")
        stage.wait(lambda: stage.cards() == {"new"})


def test_the_tenant_reads_which_queue_is_charged(stage: Stage) -> None:
    with stage.at_work():
        stage.group("old", 1, stage.paid)
        stage.card_pod("old", "old")
        stage.wait(lambda: stage.cards() == {"old"})
        another_queue(stage, stage.tenant)

        def messages() -> list[str]:
            events = stage.tenant.get(f"{stage.path}/events")["items"]
            return [
                e["message"] for e in events if e["type"] == "Warning" and e["involvedObject"]["kind"] == "PodGroup"
            ]

        stage.wait(
            lambda: any(stage.paid in text and stage.free in text and f"<{CARD}> 1000" in text for text in messages())
        )


def test_while_nodes_do_not_say_which_cards_they_have_pods_stay_charged_and_no_pod_gets_one(stage: Stage) -> None:
    label = f"{CARDS}.product"
    first, second = (f"{stage.name}-{name}" for name in ("n1", "n2"))

    def describe(node: str, product: str | None) -> None:
        stage.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {label: product}}})

    def used() -> str | None:
        status = stage.api.get(f"{GROUPS}/queues/{stage.paid}").get("status") or {}
        found: str | None = ((status.get("cards") or {}).get(CARD) or {}).get("used")
        return found

    def node_warnings() -> list[str]:
        """The nodes of the Warnings about the label, one for each Event."""
        events = stage.api.get("/api/v1/namespaces/default/events")["items"]
        return sorted(
            e["involvedObject"]["name"]
            for e in events
            if e["type"] == "Warning" and f"metadata.labels[{label}]: missing" in e["message"]
            and e["involvedObject"]["name"] in (first, second)
        )  # fmt: skip

    def says(pod: str, text: str) -> bool:
        """Whether the condition and a Warning Event of a Pod contain a text."""
        events = [e["message"] for e in stage.events() if (e["type"], e["involvedObject"]["name"]) == ("Warning", pod)]
        return text in stage.condition(pod)["message"] and any(text in message for message in events)

    quota = {"metadata": {"annotations": {CARD_QUOTA: json.dumps({CARD: 3})}}}
    stage.api.patch(f"{GROUPS}/queues/{stage.paid}", quota)
    with stage.at_work():
        stage.group("old", 2, stage.paid)
        stage.card_pod("old-0", "old", nodeSelector={"kubernetes.io/hostname": first})
        stage.card_pod("old-1", "old", nodeName=first)  # without a binding record
        stage.wait(lambda: stage.bound() == {"old-0": first, "old-1": first} and used() == "2")

        for node in (first, second):
            describe(node, None)
        stage.wait(lambda: node_warnings() == [first, second])
        stage.group("new", 1, stage.paid)
        stage.card_pod("new", "new")
        stage.wait(lambda: says("new", f"no valid label {label}"))
        stage.wait_for_a_cycle()
        assert (stage.cards(), used()) == ({"old-0", "old-1"}, "2")

        describe(second, CARD)
        stage.wait(lambda: stage.bound().get("new") == second and used() == "3")
        stage.group("more", 1, stage.paid)
        stage.card_pod("more", "more")
        exceeded = "total would be <4000>, but capability is <3000>"
        stage.wait(lambda: says("more", exceeded))
        assert node_warnings() == [first, second]
    with stage.at_work():  # after a restart
        stage.wait_for_a_cycle()
        assert stage.cards() == {"old-0", "old-1", "new"}
        assert node_warnings() == [first, second]
        stage.api.delete(f"{stage.path}/pods/old-0?gracePeriodSeconds=0")
        stage.wait(lambda: stage.bound().get("more") == second)


def test_the_tenant_is_no_administrator(stage: Stage) -> None:
    for path in (
        f"{GROUPS}/queues/{stage.paid}",
        "/api/v1/nodes",
        f"/api/v1/namespaces/{stage.name}-system/secrets/key",
    ):
        with pytest.raises(ApiError) as refused:
            stage.tenant.patch(path, {}) if "queues" in path else stage.tenant.get(path)
        assert refused.value.status == 403
