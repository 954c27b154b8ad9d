"""A Deployment that an autoscaler grows and shrinks, under a quota of cards: the controller makes its PodGroup, the
scheduler holds it to the quota of its queue Pod by Pod."""

from typing import Any

from scheduler.api.kinds import POD, REPLICA_SET
from scheduler.controllers.podgroup import PodGroupController
from scheduler.controllers.queue import QueueController
from tests.unit.controllers.clusters import Controlled, owner, pod, reference
from tests.unit.plugins.capacity_card.cards import CONFIGURATION, GPU, H200, gpu_node, insufficient, quota_queue

IN_QUEUE = {"scheduling.volcano.sh/queue-name": "cr-queue1", "volcano.sh/card.name": H200}


def card_pod(workload: str, number: int) -> dict[str, Any]:
    requests = {"cpu": "1", GPU: "1"}
    return pod(f"{workload}-{number}", reference(REPLICA_SET, workload), requests=requests, annotations=IN_QUEUE)


def deployed(*workloads: str) -> Controlled:
    """Eight cards, a queue that may have two of them, and a Pod with a card for each workload."""
    cluster = Controlled(lambda store: [PodGroupController(store, ["volcano"]), QueueController(store)])
    cluster.create(gpu_node("n"), quota_queue("cr-queue1", {H200: 2}))
    for name in workloads:
        cluster.create(owner(REPLICA_SET, name, 1), card_pod(name, 0))
    cluster.schedule(CONFIGURATION)
    return cluster


def scale(cluster: Controlled, name: str, old: int, new: int) -> None:
    cluster.patch(REPLICA_SET, name, {"spec": {"replicas": new}})
    for number in range(new, old):
        cluster.delete(POD, f"{name}-{number}")
    cluster.create(*(card_pod(name, number) for number in range(old, new)))
    cluster.schedule(CONFIGURATION)


def node_of(cluster: Controlled, name: str) -> str | None:
    raw = cluster.find(POD, name)
    assert raw is not None
    name_of_node: str | None = raw["spec"].get("nodeName")
    return name_of_node


def test_a_deployment_grows_within_its_quota_and_its_pod_group_still_asks_for_one_pod() -> None:
    cluster = deployed("web")
    scale(cluster, "web", 1, 2)

    assert [node_of(cluster, f"web-{i}") for i in range(2)] == ["n", "n"]
    group = cluster.groups()["podgroup-uid-web"]
    assert group["spec"]["minMember"] == 1
    assert (group["spec"]["minResources"][GPU], group["spec"]["queue"]) == ("1", "cr-queue1")
    assert (group["status"]["phase"], group["status"]["running"]) == ("Running", 2)


def test_a_pod_beyond_the_quota_waits_and_gets_the_reason() -> None:
    cluster = deployed("web")
    scale(cluster, "web", 1, 3)

    assert node_of(cluster, "web-2") is None
    message = insufficient("cr-queue1", H200, 1000, 3000, 2000)
    assert ("Pod", "web-2", "Warning", "FailedScheduling", message) in cluster.events()


def test_quota_that_a_deployment_gives_back_serves_another_one() -> None:
    cluster = deployed("web", "api")
    scale(cluster, "api", 1, 2)
    assert node_of(cluster, "api-1") is None

    scale(cluster, "web", 1, 0)
    cluster.schedule(CONFIGURATION)
    assert list(cluster.groups()) == ["podgroup-uid-api"]
    assert node_of(cluster, "api-1") == "n"
    assert cluster.queue("cr-queue1")["status"]["allocated"][GPU] == "2"
