"""HyperNodes in the cache: resolved members, trees, and reports of members that are left out."""

import pytest

from scheduler.api.hypernode import CLUSTER_TOP, HyperNode, HyperNodes
from scheduler.api.kinds import HYPER_NODE, NODE
from scheduler.cache import ClusterCache
from tests.builders import NAME, Raw, feed, hyper_node, node

FOUR = [node(f"n{i}", labels={"rack": "r1" if i < 3 else "r2"}) for i in (1, 2, 3, 4)]


def cache_of(*objects: Raw | list[Raw]) -> ClusterCache:
    cache = ClusterCache([NAME])
    feed(cache, *objects)
    return cache


def tree_of(cache: ClusterCache) -> HyperNodes:
    return cache.snapshot(0).hyper_nodes


def get(tree: HyperNodes, name: str) -> HyperNode:
    found = tree.get(name)
    assert found is not None
    return found


def members(cache: ClusterCache, name: str) -> list[str]:
    snapshot = cache.snapshot(0)
    return [snapshot.nodes.names[row] for row in get(snapshot.hyper_nodes, name).rows]


def problems(cache: ClusterCache) -> list[str]:
    cache.snapshot(0)
    return [f"{m.kind} {m.name}: {m.field}: {m.problem}" for m in cache.take_malformed()]


# --- members ---
@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"exactMatch": {"name": "n2"}}, ["n2"]),
        ({"regexMatch": {"pattern": "^n[12]$"}}, ["n1", "n2"]),
        ({"regexMatch": {"pattern": "3"}}, ["n3"]),
        ({"regexMatch": {"pattern": "(?i)^N4"}}, ["n4"]),
        ({"labelMatch": {"matchLabels": {"rack": "r1"}}}, ["n1", "n2"]),
        ({"labelMatch": {"matchExpressions": [{"key": "rack", "operator": "NotIn", "values": ["r1"]}]}}, ["n3", "n4"]),
        ({"labelMatch": {"matchLabels": {"rack": "r9"}}}, []),
        ({"labelMatch": {}}, []),
        ({}, []),
    ],
    ids=[
        "name",
        "pattern",
        "pattern anywhere",
        "RE2 flags",
        "labels",
        "expressions",
        "labels of no node",
        "no labels",
        "empty",
    ],
)
def test_members_are_selected_by_name_pattern_or_labels(selector: Raw, expected: list[str]) -> None:
    cache = cache_of(FOUR, hyper_node("s", 1, selector))
    assert members(cache, "s") == expected and problems(cache) == []


def test_all_existing_members_count_and_missing_ones_are_ignored() -> None:
    cache = cache_of(FOUR, hyper_node("s", 1, "n9", "n4", {"regexMatch": {"pattern": "1"}}, ">missing"))
    assert members(cache, "s") == ["n1", "n4"] and problems(cache) == []


def test_a_node_added_later_becomes_a_member() -> None:
    cache = cache_of(FOUR, hyper_node("a", 1, "n9"), hyper_node("b", 1, {"regexMatch": {"pattern": "9$"}}))
    assert members(cache, "a") == members(cache, "b") == []
    feed(cache, node("n9"))
    assert members(cache, "a") == members(cache, "b") == ["n9"]
    cache.delete(NODE, "", "n9")
    assert members(cache, "a") == []


def test_a_node_whose_labels_change_moves_to_another_hyper_node() -> None:
    cache = cache_of(FOUR, *(hyper_node(r, 1, {"labelMatch": {"matchLabels": {"rack": r}}}) for r in ("r1", "r2")))
    feed(cache, node("n1", labels={"rack": "r2"}))
    assert members(cache, "r1") == ["n2"] and members(cache, "r2") == ["n1", "n3", "n4"]


def test_a_pattern_with_catastrophic_backtracking_elsewhere_matches_in_linear_time() -> None:
    names = [f"gpu-{'a' * 60}-{i}.example.com" for i in range(50)]
    cache = cache_of([node(name) for name in names], hyper_node("s", 1, {"regexMatch": {"pattern": r"^(\w+-?)+$"}}))
    assert members(cache, "s") == []


def test_many_patterns_match_the_same_nodes_as_each_alone() -> None:
    nodes = [node(f"r{rack}-n{i}") for rack in range(20) for i in range(3)]
    leaves = [hyper_node(f"l{rack}", 1, {"regexMatch": {"pattern": f"^r{rack}-"}}) for rack in range(20)]
    cache = cache_of(nodes, leaves)
    assert all(members(cache, f"l{rack}") == [f"r{rack}-n{i}" for i in range(3)] for rack in range(20))


@pytest.mark.parametrize(
    ("member", "place", "problem"),
    [
        ({"type": "Rack"}, "type", "'Rack' is neither Node nor HyperNode"),
        ({"type": "HyperNode", "selector": {"regexMatch": {"pattern": "x"}}}, "selector", "by exactMatch only"),
        (
            {"type": "Node", "selector": {"regexMatch": {"pattern": "["}}},
            "selector.regexMatch.pattern",
            "error parsing regexp: missing closing ]: `[`",
        ),
        (
            {"type": "Node", "selector": {"regexMatch": {"pattern": "a" * 5000}}},
            "selector.regexMatch.pattern",
            "it has 5000 characters, more than 4096",
        ),
        (
            {"type": "Node", "selector": {"labelMatch": {"matchExpressions": [{"key": "k", "operator": "Near"}]}}},
            "selector.labelMatch",
            "k: operator 'Near' is not known",
        ),
    ],
    ids=["type", "hyper node by pattern", "no pattern", "long pattern", "operator"],
)
def test_a_malformed_member_is_left_out_and_reported_once(member: Raw, place: str, problem: str) -> None:
    leaf = hyper_node("s", 1, "n1")
    leaf["spec"]["members"].append(member)
    cache = cache_of(FOUR, leaf)
    (reported,) = problems(cache)
    assert reported.startswith(f"HyperNode s: spec.members[1].{place}: ") and problem in reported
    feed(cache, leaf)
    assert members(cache, "s") == ["n1"] and problems(cache) == []


@pytest.mark.parametrize("tier", [-1, 2**31, 10**30])
def test_a_tier_out_of_range_keeps_the_last_good_version(tier: int) -> None:
    cache = cache_of(FOUR, hyper_node("s", 2, "n1"))
    feed(cache, hyper_node("s", tier, "n2"))
    assert members(cache, "s") == ["n1"] and len(problems(cache)) == 1


def test_no_hyper_node_may_have_the_name_of_the_virtual_root() -> None:
    cache = cache_of(FOUR, hyper_node(CLUSTER_TOP, 1, "n1"))
    assert tree_of(cache).ordered == [tree_of(cache).top] and len(problems(cache)) == 1


# --- the tree ---
def test_hyper_nodes_are_members_of_hyper_nodes() -> None:
    cache = cache_of(FOUR, hyper_node("t", 2, ">b", ">a"), hyper_node("a", 1, "n1"), hyper_node("b", 1, "n2"))
    assert members(cache, "t") == ["n1", "n2"]
    cache.delete(HYPER_NODE, "", "b")
    assert members(cache, "t") == ["n1"]


def test_of_two_parents_the_lower_tier_has_the_child_and_the_other_is_reported() -> None:
    leaf, high, low = hyper_node("s", 1, "n1"), hyper_node("a", 3, ">s", "n3"), hyper_node("b", 2, ">s", "n2")
    cache = cache_of(FOUR, high, leaf, low)
    assert members(cache, "b") == ["n1", "n2"] and members(cache, "a") == ["n3"]
    assert problems(cache) == [
        "HyperNode a: spec.members[s]: HyperNode s is a member of b already; left out of this one"
    ]
    cache.delete(HYPER_NODE, "", "b")
    assert members(cache, "a") == ["n1", "n3"] and problems(cache) == []


def test_a_cycle_is_broken_and_the_rest_of_the_tree_is_kept() -> None:
    circle = [hyper_node("x", 2, ">y", "n1"), hyper_node("y", 3, ">x", "n2"), hyper_node("z", 1, ">z", "n3")]
    cache = cache_of(FOUR, circle, hyper_node("s", 1, "n4"))
    assert members(cache, "x") == ["n1", "n2"] and members(cache, "y") == ["n2"] and members(cache, "s") == ["n4"]
    assert problems(cache) == [
        "HyperNode z: spec.members[z]: HyperNode z is or contains this one; left out of it",
        "HyperNode y: spec.members[x]: HyperNode x is or contains this one; left out of it",
    ]


def test_a_conflict_is_reported_again_only_after_it_was_resolved() -> None:
    cache = cache_of(FOUR, hyper_node("z", 1, ">z"))
    assert len(problems(cache)) == 1
    feed(cache, node("n5"))
    assert problems(cache) == []
    feed(cache, hyper_node("z", 1, "n1"))
    assert problems(cache) == []
    feed(cache, hyper_node("z", 1, ">z"))
    assert len(problems(cache)) == 1


def test_a_tier_name_of_two_tiers_means_the_lower_tier() -> None:
    cache = cache_of(FOUR, hyper_node("a", 2, "n1", tier_name="rack"), hyper_node("b", 1, "n2", tier_name="rack"))
    assert tree_of(cache).tier_names == {"rack": 1}
    assert problems(cache) == ["HyperNode b: spec.tierName: 'rack' is the name of tier 2 as well as of 1; taken for 1"]


# --- what a snapshot pays ---
def test_the_tree_is_shared_until_something_it_depends_on_changes() -> None:
    cache = cache_of(FOUR, hyper_node("s", 1, "n1"))
    tree, version = tree_of(cache), cache.version
    feed(cache, hyper_node("s", 1, "n1"), FOUR)
    assert tree_of(cache) is tree and cache.version == version
    feed(cache, hyper_node("s", 1, "n2"))
    assert tree_of(cache) is not tree and cache.version > version
