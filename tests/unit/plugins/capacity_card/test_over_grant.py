"""What admission says of card quotas that grant more cards than the nodes have."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from scheduler.api.card_totals import QuotaProblem
from scheduler.api.cards import MILLI
from scheduler.api.names import CARD_QUOTA
from scheduler.api.objects import Node
from scheduler.api.scheduling import Queue
from scheduler.plugins.capacity_card.over_grant import over_grants
from tests.builders import Raw
from tests.unit.plugins.capacity_card.cards import GPU, H200, H800, gpu_node, quota_queue
from tests.unit.plugins.capacity_card.test_totals import machine

MIG = f"{H200}/mig-1g.18gb-mixed"
VGPU = f"{H200}/vgpu-8g"


def problems(raised: Mapping[str, int], queues: list[Raw], nodes: list[Raw]) -> list[tuple[QuotaProblem, str]]:
    """What is wrong if queue ``q`` gets a quota."""
    found = over_grants(
        "q",
        {card: float(number * MILLI) for card, number in raised.items()},
        [msgspec.convert(raw, Queue) for raw in queues],
        [msgspec.convert(raw, Node) for raw in nodes],
    )
    return [(each.problem, each.message.removeprefix(f"metadata.annotations[{CARD_QUOTA}]: ")) for each in found]


def test_a_quota_within_the_cards_of_the_nodes_is_no_problem() -> None:
    assert problems({H200: 5}, [quota_queue("p", {H200: 5}), quota_queue("q", {H200: 4})], [machine("n", 10)]) == []


def test_a_quota_that_makes_eleven_of_ten_cards_is_named_with_the_numbers() -> None:
    others = [quota_queue("p", {H200: 5}), quota_queue("q", {H200: 2}), quota_queue("none", None)]
    assert problems({H200: 6}, others, [machine("m", 4), machine("n", 6)]) == [
        (
            QuotaProblem.OVER_GRANTED,
            "the quotas of all queues add up to more cards than the nodes have: "
            f"{H200}: 11 granted, 10 existing, 10 healthy; quota of this queue: 6",
        )
    ]


@pytest.mark.parametrize("node", [machine("n", 10, 9), machine("n", 10, ready=False)], ids=["chip", "node"])
def test_cards_that_are_not_healthy_are_another_problem_than_cards_that_do_not_exist(node: Raw) -> None:
    ((problem, message),) = problems({H200: 10}, [], [node])
    assert problem is QuotaProblem.UNHEALTHY and "10 granted, 10 existing, " in message


def test_a_card_that_no_node_has_is_named() -> None:
    ((problem, message),) = problems({H800: 1, H200: 1}, [], [machine("n", 1)])
    assert (problem, message.partition(": ")[0]) == (QuotaProblem.NOT_FOUND, f"no node has the card {H800!r}")


def test_partitions_count_on_their_own() -> None:
    node = gpu_node("n", H200, 2, "nvidia.com/mig-1g.18gb=3")
    assert problems({MIG: 3, H200: 2}, [], [node]) == []
    ((problem, message),) = problems({MIG: 4}, [], [node])
    assert problem is QuotaProblem.OVER_GRANTED and "4 granted, 3 existing, 3 healthy" in message


def test_several_names_of_a_card_with_the_memory_are_one_card() -> None:
    node = gpu_node("a", H800, 0, f"{GPU}.shared=4", **{f"{GPU}.replicas": "2"})
    node["metadata"]["labels"][f"{GPU}.memory"] = "81559"
    other = quota_queue("p", {f"{H800}/mps-81g*1/2": 3})
    ((problem, message),) = problems({f"{H800}/mps-79g*1/2": 2}, [other], [node])
    assert problem is QuotaProblem.OVER_GRANTED and "5 granted, 4 existing, 4 healthy" in message


def test_of_cards_that_labels_do_not_name_the_numbers_of_the_scheduler_count() -> None:
    other = quota_queue("p", {VGPU: 3})
    other["status"]["cards"] = {VGPU: {"quota": "3", "existing": "8", "healthy": "8"}}
    assert problems({VGPU: 5}, [other], [machine("n", 1)]) == []
    ((problem, message),) = problems({VGPU: 6}, [other], [machine("n", 1)])
    assert problem is QuotaProblem.OVER_GRANTED and "9 granted, 8 existing, 8 healthy" in message
    assert problems({VGPU: 6}, [], [machine("n", 1)]) == []  # not known


@pytest.mark.parametrize("cards", [None, "many", {H800: None}, {H800: {"existing": {}}}, {H800: {"existing": "x"}}])
def test_malformed_statuses_nodes_and_quotas_count_as_nothing(cards: Any) -> None:
    other = quota_queue("p", "{no JSON")
    other["status"]["cards"] = cards
    bad = machine("bad", 4)
    bad["status"]["allocatable"][GPU] = bad["status"]["capacity"][GPU] = "four"
    ((problem, _),) = problems({H200: 5}, [other], [machine("n", 4), bad])
    assert problem is QuotaProblem.OVER_GRANTED
    ((problem, _),) = problems({H800: 5}, [other], [machine("n", 4)])
    assert problem is QuotaProblem.NOT_FOUND
