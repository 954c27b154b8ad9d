"""PodGroups: the queue of the namespace, and validation of the queue and the topology."""

from typing import Any

import pytest

from scheduler.api.kinds import POD_GROUP
from scheduler.api.names import CARD_REQUEST
from scheduler.webhooks.contract import Json
from tests.unit.webhooks.clusters import Cluster, created, queue

TEAM = {"metadata": {"name": "team", "annotations": {"scheduling.volcano.sh/queue-name": "research"}}}
NAMELESS = {"metadata": {"name": "nameless", "annotations": {"scheduling.volcano.sh/queue-name": ""}}}
CLUSTER = Cluster(
    queue("root"),
    queue("default", parent="root"),
    queue("research", parent="root"),
    queue("dept", parent="root"),
    queue("a", parent="dept"),
    queue("b", parent="dept"),
    queue("shut", parent="root", state="Closed"),
    queue("closing", parent="root", state="Closing"),
    queue("new", state=""),
    namespaces=[TEAM, NAMELESS],
)
TIERS = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously."
BOTH = {"highestTierAllowed": 1, "highestTierName": "rack"}


def group(annotations: dict[str, str] | None = None, **spec: Any) -> Json:
    return {"metadata": {"name": "g", "annotations": annotations or {}}, "spec": {"minMember": 1, **spec}}


@pytest.mark.parametrize(
    ("namespace", "asked", "stored"),
    [
        ("team", "default", "research"),
        ("team", "a", "a"),
        ("default", "default", "default"),
        ("nameless", "default", "default"),
    ],
)
def test_pod_groups_without_a_queue_get_that_of_their_namespace(namespace: str, asked: str, stored: str) -> None:
    decision = created(POD_GROUP, group(queue=asked), CLUSTER, namespace=namespace)
    assert decision.object["spec"]["queue"] == stored


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("default", ""),
        ("", ""),
        ("a", ""),
        ("nowhere", 'unable to find queue: queue.scheduling.volcano.sh "nowhere" not found'),
        ("shut", "can only submit PodGroup to queue with state `Open`, queue `shut` status is `Closed`."),
        ("closing", "can only submit PodGroup to queue with state `Open`, queue `closing` status is `Closing`."),
    ],
)
def test_a_pod_group_needs_a_queue_that_is_open(name: str, refusal: str) -> None:
    assert created(POD_GROUP, group(queue=name), CLUSTER).refusal == refusal


def test_a_queue_that_the_controller_has_not_opened_yet_accepts_pod_groups() -> None:
    assert created(POD_GROUP, group(queue="new"), CLUSTER).refusal == ""


def test_a_queue_with_children_accepts_no_pod_groups() -> None:
    assert created(POD_GROUP, group(queue="dept"), CLUSTER).refusal == (
        "can only submit PodGroup to leaf queue, queue `dept` has 2 child queues: set spec.queue to a queue without "
        "children (those of `dept` are a, b)"
    )
    refusal = "can not submit PodGroup to root queue: set spec.queue to one below it, such as `default`"
    assert created(POD_GROUP, group(queue="root"), CLUSTER).refusal == refusal


def test_a_topology_names_its_highest_tier_in_one_way() -> None:
    assert created(POD_GROUP, group(queue="a", networkTopology=BOTH), CLUSTER).refusal == TIERS
    policies = [{"name": "s", "networkTopology": BOTH}, {"name": "t", "networkTopology": BOTH}]
    refusal = created(POD_GROUP, group(queue="nowhere", subGroupPolicy=policies), CLUSTER).refusal
    assert refusal == (
        f"unable to find queue: queue.scheduling.volcano.sh \"nowhere\" not found; in subGroupPolicy 's': {TIERS}"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"NVIDIA-H200": 2}', ""),
        ('{"NVIDIA-GeForce-RTX-4090|NVIDIA-GeForce-RTX-4090-D": 2}', ""),
        ("2", "'2' is not a JSON object of cards and numbers"),
        ("{}", "no card is named"),
        ('{"NVIDIA-H200": 0}', "'NVIDIA-H200': 0 is not a number of cards to ask for"),
        ('{"NVIDIA-H200": 1.5}', "'NVIDIA-H200': 1.5 is not a whole number"),
    ],
)
def test_a_malformed_card_request_is_refused_with_field_and_remedy(text: str, problem: str) -> None:
    refusal = created(POD_GROUP, group({CARD_REQUEST: text}, queue="a"), CLUSTER).refusal
    assert refusal.startswith(f"metadata.annotations[{CARD_REQUEST}]: {problem}: write a JSON object") is bool(problem)
    assert bool(refusal) is bool(problem)
