"""nodegroup: restricts queues to the node groups in their affinity."""

from typing import Any

import pytest

from tests.builders import Raw, World, configuration, group, node, pod, queue

LABEL = "volcano.sh/nodegroup-name"
LIMITS = "volcano.sh/nodegroup-resource-limits"


def nodes(*groups: str, asks: str = "8c+8Gi") -> list[Raw]:
    """A node for each group, named after it; "" for a node without a group."""
    return [node(f"n-{name}" if name else "n", asks, {LABEL: name} if name else {}) for name in groups]


def affinity(
    required: list[str] | None = None,
    preferred: list[str] | None = None,
    anti_required: list[str] | None = None,
    anti_preferred: list[str] | None = None,
) -> dict[str, Any]:
    def terms(first: list[str] | None, second: list[str] | None) -> dict[str, list[str]]:
        named = {"required": first, "preferred": second}
        return {f"{k}DuringSchedulingIgnoredDuringExecution": v for k, v in named.items() if v}

    return {
        "nodeGroupAffinity": terms(required, preferred),
        "nodeGroupAntiAffinity": terms(anti_required, anti_preferred),
    }


def limited(raw: Raw, text: str) -> Raw:
    raw["metadata"]["annotations"] = {LIMITS: text}
    return raw


def waiting(queue_name: str, number: int = 1, asks: str = "1c") -> list[Raw]:
    return [group("a", queue_name, phase="Inqueue"), *(pod(f"a-{i}", asks, "a") for i in range(number))]


def run(*objects: Any, hierarchy: bool = False, **arguments: Any) -> World:
    plugins = {"nodegroup": {"enableHierarchy": hierarchy}}
    return World(*objects).run(configuration({"gang": {}}, plugins, arguments={"nodegroup": arguments}))


def places(world: World) -> list[str]:
    return sorted(world.bound.values())


# --- filter ---
@pytest.mark.parametrize(
    ("affinities", "where"),
    [
        (affinity(required=["g1"]), ["n-g1"]),
        (affinity(preferred=["g2"]), ["n-g2"]),
        (affinity(required=["g1", "g2"], anti_required=["g1"]), ["n-g2"]),
        (affinity(anti_preferred=["g3"]), ["n-g3"]),
        (affinity(required=["g1"], anti_preferred=["g3"]), ["n-g1"]),
        (affinity(anti_required=["g1"]), []),
        (affinity(required=["g9"]), []),
    ],
)
def test_a_queue_uses_the_groups_in_its_affinity(affinities: dict[str, Any], where: list[str]) -> None:
    assert places(run(nodes("g1", "g2", "g3", ""), queue("q", affinity=affinities), waiting("q"))) == where


def test_a_queue_without_affinity_uses_no_nodes() -> None:
    world = run(nodes("g1", ""), queue("q"), waiting("q"))
    expected = "0/2 nodes are unavailable: 1 node group affinity not specified, 1 node group label not found."
    assert expected in world.events("FailedScheduling")


def test_without_strict_a_queue_without_affinity_uses_nodes_without_a_group() -> None:
    assert places(run(nodes("g1", ""), queue("q"), waiting("q"), strict=False)) == ["n"]


def test_a_queue_with_affinity_never_uses_nodes_without_a_group() -> None:
    world = run(nodes("g1", ""), queue("q", affinity=affinity(required=["g2"])), waiting("q"), strict=False)
    assert places(world) == []
    expected = "1 node does not satisfy the node group affinity, 1 node group label not found."
    assert any(expected in message for message in world.events("FailedScheduling"))


# --- scores ---
def test_required_groups_score_above_preferred_ones_and_these_above_preferred_anti_affinity() -> None:
    affinities = affinity(required=["g2"], preferred=["g3"], anti_preferred=["g1"])
    world = run(nodes("g1", "g2", "g3", asks="1c+8Gi"), queue("q", affinity=affinities), waiting("q", 3))
    assert world.bound == {"a-0": "n-g2", "a-1": "n-g3", "a-2": "n-g1"}


@pytest.mark.parametrize(("ordered", "first"), [(True, "n-g2"), (False, "n-g1")])
def test_earlier_preferred_groups_score_higher_only_with_enable_preferred_order(ordered: bool, first: str) -> None:
    affinities = affinity(preferred=["g2", "g1"])
    world = run(nodes("g1", "g2"), queue("q", affinity=affinities), waiting("q"), enablePreferredOrder=ordered)
    assert places(world) == [first]


# --- hierarchy ---
@pytest.mark.parametrize(("hierarchy", "where"), [(True, ["n-g1"]), (False, [])])
def test_with_a_hierarchy_a_queue_without_affinity_inherits_that_of_its_nearest_ancestor(
    hierarchy: bool, where: list[str]
) -> None:
    queues = [
        queue("top", affinity=affinity(required=["g2"])),
        queue("middle", parent="top", affinity=affinity(required=["g1"])),
        queue("leaf", parent="middle"),
    ]
    assert places(run(nodes("g1", "g2"), queues, waiting("leaf"), hierarchy=hierarchy)) == where


def test_queues_in_a_cycle_inherit_nothing() -> None:
    assert places(run(nodes("g1"), queue("a", parent="b"), queue("b", parent="a"), waiting("a"), hierarchy=True)) == []


# --- limits ---
def test_a_queue_uses_at_most_its_limit_of_a_group() -> None:
    q = limited(queue("q", affinity=affinity(required=["g1", "g2"])), '{"g1": {"cpu": "2"}}')
    world = run(nodes("g1", "g2", asks="3c+8Gi"), q, waiting("q", 6))
    assert places(world) == ["n-g1", "n-g1", "n-g2", "n-g2", "n-g2"]
    assert any("1 node group resource limit exceeded" in message for message in world.events("FailedScheduling"))


def test_a_group_without_amounts_has_no_limit() -> None:
    q = limited(queue("q", affinity=affinity(required=["g1"])), '{"g1": null}')
    assert len(run(nodes("g1"), q, waiting("q", 2)).bound) == 2


def test_running_tasks_count_against_the_limit() -> None:
    q = limited(queue("q", affinity=affinity(required=["g1"])), '{"g1": {"cpu": "2"}}')
    old = [group("old", "q", phase="Running"), pod("old-0", "1c", "old", on="n-g1")]
    assert len(run(nodes("g1"), q, old, waiting("q", 3)).bound) == 1


def test_the_resources_of_a_discarded_gang_are_released() -> None:
    q = limited(queue("q", affinity=affinity(required=["g1"])), '{"g1": {"cpu": "2"}}')
    gang = [group("gang", "q", 3, phase="Inqueue"), *(pod(f"gang-{i}", "1c", "gang") for i in range(3))]
    assert len(run(nodes("g1"), q, gang, waiting("q", 2)).bound) == 2


@pytest.mark.parametrize("text", ["{", '{"g1": {"cpu": "two"}}', '{"g1": 2}'])
def test_invalid_limits_are_reported_and_stop_only_their_queue(text: str) -> None:
    q = limited(queue("q", affinity=affinity(required=["g1"])), text)
    sound = [queue("sound", affinity=affinity(required=["g1"])), group("b", "sound", phase="Inqueue")]
    world = run(nodes("g1"), q, waiting("q"), sound, pod("b-0", "1c", "b"))
    assert world.bound == {"b-0": "n-g1"}
    assert "0/1 nodes are unavailable: 1 node group resource limit annotation invalid." in world.events(
        "FailedScheduling"
    )
    assert any(message.startswith(f"metadata.annotations[{LIMITS}]: ") for message in world.events("Malformed"))
