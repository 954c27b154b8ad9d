"""The quotas of all queues compared with the cards of the nodes: figures, problems and Warnings."""

from typing import Any

import pytest

from scheduler.api.card_totals import CardTotals, QuotaProblem, problem_of, problem_of_queue
from scheduler.api.reasons import Malformed
from scheduler.cli.queue.tree import card_blocks, tree_blocks
from scheduler.cluster.memory import Simulation
from scheduler.explain.queues import all_cards, every_queue
from scheduler.observability.metrics import Metrics
from tests.builders import NAME, Raw, World, manifests
from tests.unit.plugins.capacity_card.cards import CONFIGURATION, H200, H800, card_pod, gang, gpu_node, quota_queue
from tests.unit.plugins.capacity_card.test_borrowing_reports import BORROW, lent


def machine(name: str, cards: int, healthy: int | None = None, product: str = H200, *, ready: bool = True) -> Raw:
    """A node with cards, of which some are healthy; None: all."""
    raw = gpu_node(name, product, cards if healthy is None else healthy)
    raw["status"]["capacity"] = raw["status"]["allocatable"] | {"nvidia.com/gpu": str(cards)}
    raw["status"]["conditions"] = [{"type": "Ready", "status": str(ready)}]
    return raw


def warnings(world: World) -> list[Malformed]:
    assert world.outcome is not None
    return [it for it in world.outcome.malformed if it.reason in set(QuotaProblem)]


def totals(world: World) -> dict[str, CardTotals]:
    assert world.outcome is not None
    return {card: its for one in world.outcome.session.figures() for card, its in one.cards.items()}


# --- decisions ---
@pytest.mark.parametrize(
    ("granted", "existing", "healthy", "problem"),
    [
        (10, 10, 10, None),
        (11, 10, 10, QuotaProblem.OVER_GRANTED),
        (10, 10, 9, QuotaProblem.UNHEALTHY),
        (11, 10, 9, QuotaProblem.OVER_GRANTED),
        (2, 0, 0, QuotaProblem.NOT_FOUND),
        (0, 0, 0, QuotaProblem.NOT_FOUND),
        (0, 4, 4, QuotaProblem.NOT_GRANTED),
        (0, 4, 0, QuotaProblem.NOT_GRANTED),
        (3, 4, 3, None),
    ],
)
def test_quotas_of_a_card_are_compared_with_existing_and_healthy_cards(
    granted: int, existing: int, healthy: int, problem: QuotaProblem | None
) -> None:
    assert problem_of(CardTotals(granted, existing, healthy, healthy, listed=True)) is problem


def test_a_card_that_no_node_has_and_no_quota_lists_has_no_problem() -> None:
    assert problem_of(CardTotals()) is None


def test_a_queue_that_only_borrows_is_not_concerned_by_over_granting_but_by_a_card_that_no_node_has() -> None:
    assert problem_of_queue(CardTotals(11, 10, 10, 10, listed=True), 0) is None
    assert problem_of_queue(CardTotals(11, 10, 10, 10, listed=True), 5) is QuotaProblem.OVER_GRANTED
    assert problem_of_queue(CardTotals(listed=True), 0) is QuotaProblem.NOT_FOUND
    assert problem_of_queue(CardTotals(0, 4, 4, 4, listed=True), 0) is None


# --- figures ---
def test_totals_count_unhealthy_cards_and_those_of_nodes_that_are_not_ready_as_existing_only() -> None:
    nodes = [machine("a", 4, 3), machine("b", 4, ready=False)]
    job = card_pod("other-0", "", on="a", phase="Running", scheduler="default-scheduler")
    world = World(nodes, quota_queue("q", {H200: 3}), gang("g", "q", 2), job).run(CONFIGURATION)
    assert totals(world) == {H200: CardTotals(3000, 8000, 7000, 3000, 3000, listed=True)}
    assert totals(world)[H200].elastic == 4000


def test_cards_of_another_name_for_the_memory_are_the_same_card() -> None:
    node = gpu_node("a", H800, 0, "nvidia.com/gpu.shared=4", **{"nvidia.com/gpu.replicas": "2"})
    node["metadata"]["labels"]["nvidia.com/gpu.memory"] = "81559"
    queues = [quota_queue("p", {f"{H800}/mps-81g*1/2": 3}), quota_queue("q", {f"{H800}/mps-80g*1/2": 2})]
    world = World(node, queues).run(CONFIGURATION)
    assert totals(world)[f"{H800}/mps-80g*1/2"] == CardTotals(5000, 4000, 4000, 4000, listed=True)
    assert {(it.name, it.reason) for it in warnings(world)} == {(name, "CardOverGranted") for name in "pq"}


# --- Warnings ---
def test_over_granted_cards_are_a_warning_on_each_queue_that_has_quota_with_the_numbers() -> None:
    queues = [quota_queue("a", {H200: 6}), quota_queue("b", {H200: 5}), quota_queue("c", {H200: 0, H800: 1})]
    nodes = [machine("n", 10), machine("m", 4, product=H800)]
    found = warnings(World(nodes, queues).run(CONFIGURATION))
    assert [(it.kind, it.name, it.reason) for it in found] == [("Queue", name, "CardOverGranted") for name in "ab"]
    assert found[0].message == (
        f"metadata.annotations[volcano.sh/card.quota][{H200}]: the quotas of all queues add up to more cards than the "
        "nodes have; Pods within the quota may wait: 11 granted, 10 existing, 10 healthy; quota of this queue: 6"
    )


@pytest.mark.parametrize(
    ("nodes", "quota", "reason"),
    [
        ([machine("n", 4, 3)], 4, "CardUnhealthy"),
        ([machine("n", 4, ready=False)], 4, "CardUnhealthy"),
        ([machine("n", 4), machine("m", 4, 0)], 9, "CardOverGranted"),
        ([machine("n", 4, product=H800)], 1, "CardNotFound"),
        ([machine("n", 4, product=H800)], 0, "CardNotFound"),
        ([machine("n", 4)], 4, None),
    ],
)
def test_a_warning_says_what_kind_of_problem_a_quota_has(nodes: list[Raw], quota: int, reason: str | None) -> None:
    world = World(nodes, quota_queue("q", {H200: quota})).run(CONFIGURATION)
    assert [it.reason for it in warnings(world) if it.name == "q"] == ([reason] if reason else [])
    (written,) = [update.cards for update in world.decisions.queues if update.name == "q"]
    assert written is not None and written[H200].get("problem") == reason


def test_a_card_that_no_queue_may_use_is_a_warning_on_the_root_queue() -> None:
    world = World(machine("n", 4), quota_queue("q", {H800: 1}), machine("m", 4, product=H800)).run(CONFIGURATION)
    (warning,) = warnings(world)
    assert (warning.name, warning.reason) == ("root", "CardNotGranted")
    assert warning.message.endswith(
        "the nodes have this card, and no queue has quota of it; no Pod gets it: 0 granted, 4 existing, 4 healthy"
    )


def test_a_warning_with_other_numbers_is_the_same_warning() -> None:
    """So that it is not recorded again while the numbers change."""
    few, more = (warnings(World(machine("n", 1), quota_queue("q", {H200: n})).run(CONFIGURATION)) for n in (2, 3))
    assert few == more and few[0].message != more[0].message


# --- views ---
def test_metrics_have_the_totals_the_problems_and_the_guarantee_of_each_queue() -> None:
    jobs = [*gang("g", "a", 1), card_pod("g-1", "g")]
    queues = [quota_queue("a", {H200: 6}), quota_queue("b", {H200: 5})]
    world = World(machine("n", 10), machine("m", 2, product=H800), queues, jobs).run(CONFIGURATION)
    assert world.outcome is not None
    session, metrics = world.outcome.session, Metrics("a")
    metrics.card_totals.update(session.figures(), session.usage_by_queue())

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"volcano_py_{name}", labels)

    fields = ("granted", "existing", "allocatable", "healthy", "used", "elastic")
    assert [value(f"cards_{field}", card=H200, shard="a") for field in fields] == [11, 10, 10, 10, 2, 0]
    assert [value(f"cards_{field}", card=H800, shard="a") for field in fields] == [0, 2, 2, 2, 0, 2]
    of_queue = {"queue_name": "a", "resource": H200}
    assert (value("queue_guaranteed_cards", **of_queue), value("queue_elastic_cards", **of_queue)) == (6, 1)
    problems: dict[str, Any] = {"problem": "CardOverGranted", "card": H200, "shard": "a"}
    assert [value("card_quota_problem", **problems, queue_name=name) for name in "ab"] == [1, 1]
    assert value("card_quota_problem", problem="CardNotGranted", queue_name="", card=H800, shard="a") == 1


def test_queue_top_has_a_table_of_the_cards_of_the_cluster() -> None:
    queues = [quota_queue("a", {H200: 6}), quota_queue("b", {H200: 5})]
    simulation = Simulation(manifests(machine("n", 10), queues, gang("g", "a", 2)), CONFIGURATION, [NAME])
    tree = [line for block in tree_blocks(every_queue(simulation)) for line in block]
    assert tree[1].split() == ["Resource", "Use", "Used", "Deserved", "Capability", "Guarantee"]
    assert any(H200 in line and line.split()[-2:] == ["6", "6"] for line in tree)
    blank, titles, row = (line for block in card_blocks(all_cards(simulation)) for line in block)
    assert (blank, titles.split()) == (
        "",
        ["Card", "Used", "Granted", "Existing", "Healthy", "Elastic", "Problem"],
    )
    assert row.split() == [H200, "2", "11", "10", "10", "0", "CardOverGranted"]


def test_where_queues_borrow_the_guarantee_stays_the_quota_and_what_is_lent_is_part_of_it() -> None:
    world = World(*lent()).run(BORROW)
    cards = {update.name: update.cards[H200] for update in world.decisions.queues if update.cards}
    assert [(cards[name]["guarantee"], cards[name]["lent"], cards[name]["borrowed"]) for name in "abc"] == [
        ("4", "0", "2"),
        ("4", "3", "0"),
        ("0", "0", "1"),
    ]
    assert all((its["granted"], its["existing"]) == ("8", "8") for its in cards.values())
