"""The action allocate: gangs whose tasks fit together only in some orders."""

from itertools import permutations

import pytest

from scheduler.framework.configuration import Configuration
from tests.builders import Raw, World, configuration, group, node, pod

SPREAD = configuration(["gang", "predicates", "nodeorder"], actions="allocate")
PACK = configuration(["gang", "predicates", "nodeorder", "binpack"], actions="allocate")
UNSCORED = configuration(["gang", "predicates"], actions="allocate")


def gang(*cores: int, minimum: int | None = None, roles: dict[str, int] | None = None) -> list[Raw]:
    """A gang of Pods of so many cores each, created in that order; the role says how many they are."""
    members = [pod(f"p{i}", f"{core}c+1G", "pg1", role=f"of-{core}") for i, core in enumerate(cores)]
    return [group("pg1", minimum=len(cores) if minimum is None else minimum, roles=roles or {}), *members]


def two_nodes() -> list[Raw]:
    return [node("n1", "8c+64Gi"), node("n2", "8c+64Gi")]


@pytest.mark.parametrize("settings", [SPREAD, PACK, UNSCORED], ids=["spread", "pack", "unscored"])
@pytest.mark.parametrize("cores", sorted(set(permutations((3, 3, 5, 5)))), ids=str)
def test_a_gang_that_fills_two_nodes_is_placed_in_whatever_order_its_pods_come(
    cores: tuple[int, ...], settings: Configuration
) -> None:
    assert len(World(two_nodes(), gang(*cores)).run(settings).bound) == 4


@pytest.mark.parametrize("cores", sorted(set(permutations((6, 4, 4, 2)))), ids=str)
def test_what_the_largest_first_does_not_solve_is_solved_by_what_found_no_node_first(cores: tuple[int, ...]) -> None:
    nodes = [node("n1", "6c+64Gi"), node("n2", "10c+64Gi")]
    assert len(World(nodes, gang(*cores)).run(PACK).bound) == 4


def test_only_the_minimum_of_each_role_is_placed_in_another_order() -> None:
    roles = {"of-3": 2, "of-5": 2}
    world = World(two_nodes(), gang(3, 3, 5, 5, 5, 3, minimum=4, roles=roles))
    assert set(world.run(PACK).bound) == {"p0", "p1", "p2", "p3"}


def test_a_gang_that_fits_in_no_order_gets_the_reasons_of_its_own_order() -> None:
    def messages(nodes: list[Raw]) -> dict[str, str]:
        decisions = World(nodes, gang(3, 3, 5, 5)).run(PACK).decisions
        assert decisions.binds == []
        return {t.name: update.message.split(" (")[0] for update in decisions.pods for t in update.tasks}

    tried = messages([node("n1", "9c+64Gi"), node("n2", "7c+64Gi"), node("n3", "2c+64Gi")])
    not_tried = messages([node("n1", "9c+64Gi"), node("n2", "6c+64Gi")])  # all cores together are too few
    assert tried.keys() == not_tried.keys() == {"p0", "p1", "p2", "p3"}
    assert tried["p3"] == "0/3 nodes are unavailable: 3 Insufficient cpu."
    assert not_tried["p3"] == "0/2 nodes are unavailable: 2 Insufficient cpu."


def test_a_failed_trial_leaves_the_nodes_to_the_next_jobs() -> None:
    behind = [group("pg2", minimum=1), pod("late", "9c+1G", "pg2")]
    world = World([node("n1", "9c+64Gi"), node("n2", "7c+64Gi")], gang(3, 3, 5, 5), behind)
    assert world.run(PACK).bound == {"late": "n1"}
