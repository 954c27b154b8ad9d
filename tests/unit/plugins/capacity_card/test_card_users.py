"""The cards in use by queue, namespace and workload, in metrics, in the status of queues, and on the command line."""

from typing import Any

import pytest

from scheduler.api.kinds import POD
from scheduler.api.names import CARD_NAME, OFFLINE, ONLINE, WORKLOAD
from scheduler.cli.queue.show import amount_lines, amounts_of
from scheduler.observability.card_users import CardUserFigures
from tests.builders import Raw, World, configuration, group, pod, queue
from tests.unit.plugins.capacity_card.cards import CONFIGURATION, GPU, H200, H800, card_group, gpu_node, quota_queue

NODES = [gpu_node("a", H200, 16), gpu_node("b", H800)]
QUEUES = [quota_queue("q", {H200: 8, H800: 8}), quota_queue("r", {H200: 8})]


def card_pods(
    group: str, kind: str, number: int, card: str = H200, of: str = "default", label: str | None = None
) -> list[Raw]:
    """Pods with a card each that an object of a kind manages, in a PodGroup of a namespace. ``label``: the value of
    their label ``volcano-py/workload``."""
    owner = {"apiVersion": "v1", "kind": kind, "name": group, "uid": "u", "controller": True}
    made = [
        pod(
            f"{group}-{i}",
            f"1c+1Gi+{GPU}=1",
            group,
            annotations={CARD_NAME: card},
            labels={} if label is None else {WORKLOAD: label},
        )
        for i in range(number)
    ]
    for each in made:
        each["metadata"] |= {"ownerReferences": [owner], "namespace": of}
    return made


def job(name: str, queue: str, pods: list[Raw]) -> list[Raw]:
    made = card_group(name, queue, 1, phase="Inqueue")
    made["metadata"]["namespace"] = pods[0]["metadata"]["namespace"]
    return [made, *pods]


def world() -> World:
    return World(
        NODES,
        QUEUES,
        job("chat", "q", card_pods("chat", "ReplicaSet", 3)),
        job("train", "q", card_pods("train", "Job", 2)),
        job("tune", "q", card_pods("tune", "Job", 1, H800, "speech")),
        job("asr", "r", card_pods("asr", "StatefulSet", 1, of="speech")),
        job("sts-train", "r", card_pods("sts-train", "StatefulSet", 2, of="speech", label=OFFLINE)),
        job("notebook", "r", card_pods("notebook", "Job", 1, of="speech", label=ONLINE)),
    )


def used(found: World) -> dict[tuple[str, ...], float]:
    """Card, queue, namespace and workload -> the value of the metric."""
    assert found.outcome is not None
    figures = CardUserFigures()
    figures.update(found.outcome.session.cards_in_use())
    samples = (sample for family in figures.collect() for sample in family.samples)
    return {tuple(s.labels.values()): s.value for s in samples if s.name == "volcano_py_used_cards"}


EXPECTED = {
    (H200, "q", "default", ONLINE): 3,
    (H200, "q", "default", OFFLINE): 2,
    (H800, "q", "speech", OFFLINE): 1,
    (H200, "r", "speech", ONLINE): 2,
    (H200, "r", "speech", OFFLINE): 2,
}


@pytest.mark.parametrize("sessions", [1, 4])
def test_cards_are_counted_by_model_queue_namespace_and_workload(sessions: int) -> None:
    """After some sessions the jobs are settled, and their sums are kept."""
    found = world().run(CONFIGURATION, sessions, kubelet=True)
    assert used(found) == EXPECTED
    assert found.outcome is not None and (sessions == 1) == bool(found.outcome.session.active_jobs)


def test_a_card_counts_until_its_pod_is_deleted() -> None:
    found = world().run(CONFIGURATION, 4, kubelet=True)
    found.cluster.server.patch(POD, "default", "train-0", {"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}})
    assert used(found.run(CONFIGURATION)) == EXPECTED


def test_the_status_of_a_queue_and_queue_get_have_online_and_offline_cards() -> None:
    raw = world().run(CONFIGURATION).get("Queue", "q")
    cards: dict[str, Any] = raw["status"]["cards"]
    by_workload = {card: (its["online"], its["offline"]) for card, its in cards.items()}
    assert by_workload == {H200: ("3", "2"), H800: ("0", "1")}
    titles, *lines = [line.split() for line in amount_lines(amounts_of(raw))]
    assert titles[-2:] == ["Online", "Offline"]
    assert [line[-2:] for line in lines if line[0] == H200] == [["3", "2"]]


def test_without_used_cards_the_status_has_no_workloads() -> None:
    found = World(NODES, QUEUES, group("g", "q", 1)).run(CONFIGURATION)
    assert not {"online", "offline"} & found.get("Queue", "q")["status"]["cards"][H200].keys()
    assert used(found) == {}


def test_without_the_plugin_no_cards_are_counted() -> None:
    found = World(NODES, queue("q"), job("train", "q", card_pods("train", "Job", 1))).run(configuration(["gang"]))
    assert used(found) == {}


def test_an_invalid_label_causes_a_warning_on_the_pod() -> None:
    found = World(NODES, QUEUES, job("chat", "q", card_pods("chat", "ReplicaSet", 1, label="training")))
    found.run(CONFIGURATION)
    assert used(found) == {(H200, "q", "default", ONLINE): 1}
    (event,) = [event for event in found.cluster.events() if event["reason"] == "Malformed"]
    assert event["involvedObject"]["name"] == "chat-0"
    expected = "metadata.labels[volcano-py/workload]: 'training' is neither online nor offline"
    assert event["message"].startswith(expected)
