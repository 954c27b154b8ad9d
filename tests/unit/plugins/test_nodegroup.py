"""nodegroup: queues use the groups of nodes that their affinity names."""

from typing import Any

import pytest

from tests.builders import Raw, World, configuration, group, node, pod, queue

LABEL = "volcano.sh/nodegroup-name"
LIMITS = "volcano.sh/nodegroup-resource-limits"


def nodes(*groups: str, asks: str = "8c+8Gi") -> list[Raw]:
    """A node for each group, called after it; "" has none."""
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


# --- which nodes ---
@pytest.mark.parametrize(
    ("wishes", "where"),
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
def test_a_queue_uses_the_groups_that_it_names(wishes: dict[str, Any], where: list[str]) -> None:
    assert places(run(nodes("g1", "g2", "g3", ""), queue("q", affinity=wishes), waiting("q"))) == where


def test_a_queue_without_affinity_uses_nothing() -> None:
    world = run(nodes("g1", ""), queue("q"), waiting("q"))
    told = "0/2 nodes are unavailable: 1 node group affinity not specified, 1 node group label not found."
    assert told in world.events("FailedScheduling")


def test_unless_it_is_not_strict_then_it_uses_nodes_without_a_group() -> None:
    assert places(run(nodes("g1", ""), queue("q"), waiting("q"), strict=False)) == ["n"]


def test_a_queue_with_affinity_never_uses_nodes_without_a_group() -> None:
    world = run(nodes("g1", ""), queue("q", affinity=affinity(required=["g2"])), waiting("q"), strict=False)
    assert places(world) == []
    told = "1 node does not satisfy the node group affinity, 1 node group label not found."
    assert any(told in message for message in world.events("FailedScheduling"))


# --- which of them ---
def test_required_groups_are_better_than_preferred_ones_and_those_than_others_to_avoid() -> None:
    wishes = affinity(required=["g2"], preferred=["g3"], anti_preferred=["g1"])
    world = run(nodes("g1", "g2", "g3", asks="1c+8Gi"), queue("q", affinity=wishes), waiting("q", 3))
    assert world.bound == {"a-0": "n-g2", "a-1": "n-g3", "a-2": "n-g1"}


@pytest.mark.parametrize(("ordered", "first"), [(True, "n-g2"), (False, "n-g1")])
def test_of_preferred_groups_the_first_is_the_best_only_if_that_is_switched_on(ordered: bool, first: str) -> None:
    wishes = affinity(preferred=["g2", "g1"])
    world = run(nodes("g1", "g2"), queue("q", affinity=wishes), waiting("q"), enablePreferredOrder=ordered)
    assert places(world) == [first]


# --- hierarchy ---
@pytest.mark.parametrize(("hierarchy", "where"), [(True, ["n-g1"]), (False, [])])
def test_a_queue_without_affinity_has_that_of_the_nearest_queue_above_if_there_is_a_hierarchy(
    hierarchy: bool, where: list[str]
) -> None:
    queues = [
        queue("top", affinity=affinity(required=["g2"])),
        queue("middle", parent="top", affinity=affinity(required=["g1"])),
        queue("leaf", parent="middle"),
    ]
    assert places(run(nodes("g1", "g2"), queues, waiting("leaf"), hierarchy=hierarchy)) == where


def test_queues_that_are_each_others_parents_inherit_nothing() -> None:
    assert places(run(nodes("g1"), queue("a", parent="b"), queue("b", parent="a"), waiting("a"), hierarchy=True)) == []


# --- limits ---
def test_a_queue_takes_no_more_of_a_group_than_its_annotation_says() -> None:
    q = limited(queue("q", affinity=affinity(required=["g1", "g2"])), '{"g1": {"cpu": "2"}}')
    world = run(nodes("g1", "g2", asks="3c+8Gi"), q, waiting("q", 6))
    assert places(world) == ["n-g1", "n-g1", "n-g2", "n-g2", "n-g2"]
    assert any("1 node group resource limit exceeded" in message for message in world.events("FailedScheduling"))


def test_no_amounts_are_no_limit() -> None:
    q = limited(queue("q", affinity=affinity(required=["g1"])), '{"g1": null}')
    assert len(run(nodes("g1"), q, waiting("q", 2)).bound) == 2


def test_what_runs_there_counts() -> None:
    q = limited(queue("q", affinity=affinity(required=["g1"])), '{"g1": {"cpu": "2"}}')
    old = [group("old", "q", phase="Running"), pod("old-0", "1c", "old", on="n-g1")]
    assert len(run(nodes("g1"), q, old, waiting("q", 3)).bound) == 1


def test_the_cpus_of_a_discarded_gang_are_released() -> None:
    q = limited(queue("q", affinity=affinity(required=["g1"])), '{"g1": {"cpu": "2"}}')
    gang = [group("gang", "q", 3, phase="Inqueue"), *(pod(f"gang-{i}", "1c", "gang") for i in range(3))]
    assert len(run(nodes("g1"), q, gang, waiting("q", 2)).bound) == 2


@pytest.mark.parametrize("text", ["{", '{"g1": {"cpu": "two"}}', '{"g1": 2}'])
def test_limits_that_cannot_be_read_stop_the_queue_alone_and_are_told_of(text: str) -> None:
    q = limited(queue("q", affinity=affinity(required=["g1"])), text)
    sound = [queue("sound", affinity=affinity(required=["g1"])), group("b", "sound", phase="Inqueue")]
    world = run(nodes("g1"), q, waiting("q"), sound, pod("b-0", "1c", "b"))
    assert world.bound == {"b-0": "n-g1"}
    assert "0/1 nodes are unavailable: 1 node group resource limit annotation invalid." in world.events(
        "FailedScheduling"
    )
    assert any(message.startswith(f"metadata.annotations[{LIMITS}]: ") for message in world.events("Malformed"))
