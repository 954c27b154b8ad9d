"""The tree of HyperNodes, whose nodes are rows of a table."""

import numpy as np
import pytest

from scheduler.api.hypernode import CLUSTER_TOP, HyperNode, HyperNodes, HyperNodeSeed, sums


def seed(name: str, tier: int, rows: list[int], parent: str = "") -> HyperNodeSeed:
    return HyperNodeSeed(name, tier, np.array(rows, dtype=np.intp), parent)


@pytest.fixture
def tree() -> HyperNodes:
    """Two leaves under a spine, a separate leaf, and a last node without HyperNode."""
    seeds = [
        seed("right", 1, [2, 3], "spine"),
        seed("spine", 2, []),
        seed("left", 1, [0, 1], "spine"),
        seed("far", 1, [4, 5]),
    ]
    return HyperNodes(7, seeds)


def get(tree: HyperNodes, name: str) -> HyperNode:
    found = tree.get(name)
    assert found is not None
    return found


def test_a_hyper_node_contains_the_nodes_of_its_members(tree: HyperNodes) -> None:
    spine = get(tree, "spine")
    assert spine.rows.tolist() == [0, 1, 2, 3]
    assert [child.name for child in spine.children] == ["left", "right"]


def test_the_virtual_root_contains_all_nodes_one_tier_above_all(tree: HyperNodes) -> None:
    assert tree.top.name == CLUSTER_TOP and tree.top.tier == 3
    assert tree.top.rows.tolist() == list(range(7))
    assert [child.name for child in tree.top.children] == ["far", "spine"]
    assert get(tree, CLUSTER_TOP) is tree.top


def test_without_hyper_nodes_there_is_only_the_root() -> None:
    tree = HyperNodes(2)
    assert tree.ordered == [tree.top] and tree.top.tier == 1
    assert tree.covering(np.array([1])) is tree.top


def test_hyper_nodes_are_ordered_by_tier_and_name(tree: HyperNodes) -> None:
    assert [hn.name for hn in tree.ordered] == ["far", "left", "right", "spine", CLUSTER_TOP]
    assert [hn.index for hn in tree.ordered] == list(range(5))
    assert tree.tiers == [1, 2, 3]


def test_the_common_ancestor_of_two_hyper_nodes_is_the_lowest_one(tree: HyperNodes) -> None:
    left, right, far = (get(tree, name) for name in ("left", "right", "far"))
    assert HyperNodes.common(left, left) is left
    assert HyperNodes.common(left, right).name == "spine"
    assert HyperNodes.common(get(tree, "spine"), right).name == "spine"
    assert HyperNodes.common(left, far) is tree.top


def test_rows_are_covered_by_the_lowest_hyper_node_that_contains_them(tree: HyperNodes) -> None:
    covering = [tree.covering(np.array(rows)).name for rows in ([1], [1, 0, 1], [1, 2], [1, 4], [6])]
    assert covering == ["left", "left", "spine", CLUSTER_TOP, CLUSTER_TOP]


def test_of_two_leaves_that_share_a_node_the_first_by_name_covers_it() -> None:
    tree = HyperNodes(3, [seed("b", 1, [0, 1]), seed("a", 1, [1, 2])])
    assert [tree.covering(np.array([row])).name for row in range(3)] == ["b", "a", "a"]
    assert tree.covering(np.array([0, 1])).name == "b"


def test_leaf_codes_and_tier_codes_name_the_hyper_nodes_of_each_node(tree: HyperNodes) -> None:
    names = [hn.name for hn in tree.ordered]
    assert [names[code] if code >= 0 else "" for code in tree.leaf_codes] == [
        *("left", "left", "right", "right", "far", "far", "")
    ]
    assert [names[code] if code >= 0 else "" for code in tree.codes_of(2)] == ["spine"] * 4 + [""] * 3


def test_a_hyper_node_contains_rows_only_if_it_contains_each(tree: HyperNodes) -> None:
    left = get(tree, "left")
    assert left.holds(np.array([0, 1])) and left.holds(np.array([], dtype=np.intp))
    assert not left.holds(np.array([1, 2])) and not left.holds(np.array([6]))


def test_amounts_are_summed_over_the_nodes_of_each_hyper_node() -> None:
    tree = HyperNodes(3, [seed("some", 1, [0, 2]), seed("none", 1, [])])
    column = np.array([[1.0, 2.0, 4.0], [10.0, 20.0, 40.0]])
    assert sums(column, tree.ordered).tolist() == [[0.0, 5.0, 7.0], [0.0, 50.0, 70.0]]
    assert sums(column, []).shape == (2, 0)


def test_a_chain_of_thousands_of_hyper_nodes_does_not_exceed_the_recursion_limit() -> None:
    chain = [seed(f"h{i}", i, [0] if i == 0 else [], f"h{i + 1}" if i < 4999 else "") for i in range(5000)]
    assert len(get(HyperNodes(1, chain), "h0").path_to_root) == 5001
