"""The ways in which Pods name cards: the second spelling of the annotation, choices of different kinds, cards that no
node has."""

import pytest

from scheduler.api.names import CARD_CARD, CARD_NAME
from scheduler.framework.configuration_file import parse_configuration
from tests.builders import Raw, World, configuration
from tests.unit.plugins.capacity_card.cards import (
    CONFIGURATION,
    D4090,
    D4090D,
    GPU,
    H200,
    H800,
    card_group,
    card_pod,
    gpu_node,
    insufficient,
    quota_queue,
)

MIG = "NVIDIA-H20/mig-1g.24gb-mixed"


def one_pod(annotations: dict[str, str], quota: dict[str, int], *nodes: Raw, asks: str = f"1c+1Gi+{GPU}=1") -> World:
    raw = card_pod("p", "g", None, asks)
    raw["metadata"]["annotations"] |= annotations
    return World(*nodes, quota_queue("q", quota), card_group("g", "q", 1, phase="Inqueue"), raw).run(CONFIGURATION)


def test_the_second_spelling_names_the_card() -> None:
    world = one_pod({CARD_CARD: f"{H800}|{H200}"}, {H200: 1}, gpu_node("a", H200), gpu_node("b", H800))
    assert world.bound == {"p": "a"}


def test_the_first_spelling_counts_if_both_differ() -> None:
    world = one_pod({CARD_NAME: H200, CARD_CARD: H800}, {H200: 1, H800: 1}, gpu_node("a", H200), gpu_node("b", H800))
    assert world.bound == {"p": "a"}
    assert world.outcome is not None
    (problem,) = world.outcome.malformed
    assert problem.field == f"metadata.annotations[{CARD_NAME}]" and CARD_CARD in problem.problem


@pytest.mark.parametrize(
    ("choice", "kinds"),
    [
        (f"{D4090}|{MIG}", ("is whole card", "is MIG 1g.24gb")),
        (f"{MIG}|NVIDIA-H20/mig-1g.37gb-mixed", ("mig-1g.24gb", "mig-1g.37gb")),
        (f"{H800}/mps-80g*1/2|{H800}", ("is MPS", "is whole card")),
        (f"{H200}|Ascend-910B", ("is NVIDIA card", "is Huawei card")),
        ("PPU-ZW810E|Ascend-910B", ("is PPU card", "is Huawei card")),
    ],
)
def test_cards_of_different_kinds_are_no_choice_even_if_no_node_has_them(choice: str, kinds: tuple[str, str]) -> None:
    quota = dict.fromkeys(choice.split("|"), 1)
    world = one_pod({CARD_NAME: choice}, quota, gpu_node("a", H200))
    assert world.bound == {}
    assert f"cannot stand for each other in {CARD_NAME}" in world.waiting["p"]
    assert all(kind in world.waiting["p"] for kind in kinds)


def test_cards_of_which_the_names_say_nothing_may_be_a_choice() -> None:
    world = one_pod({CARD_NAME: f"{H200}|A100-SXM4-40GB"}, {H200: 1, "A100-SXM4-40GB": 1}, gpu_node("a", H200))
    assert world.bound == {"p": "a"}


def test_a_choice_of_which_the_queue_has_no_quota_has_one_reason() -> None:
    world = one_pod({CARD_NAME: f"{D4090}|{D4090D}"}, {H200: 1}, gpu_node("a", H200))
    assert insufficient("q", f"{D4090}|{D4090D}", 1000, 1000, 0) in world.waiting["p"]
    assert world.waiting["p"].count("insufficient") == 1


@pytest.mark.parametrize("other", ["capacity", "proportion"])
def test_a_configuration_with_two_plugins_that_limit_queues_is_remarked_on(other: str) -> None:
    text = f'actions: "allocate"\ntiers: [{{plugins: [{{name: capacity-card}}, {{name: {other}}}]}}]\n'
    (warning,) = parse_configuration(text, "conf").warnings
    assert warning.startswith(f"conf: plugin capacity-card beside {other}: both limit the queues")


def test_beside_capacity_a_pod_needs_room_under_both_limits() -> None:
    both = configuration(
        ["priority", "gang"],
        ["capacity-card", "capacity"],
        arguments={"capacity-card": {"cardUnlimitedCpuMemory": True}},
    )
    groups = [card_group(name, "q", 1, phase="Inqueue") for name in ("g", "h")]
    pods = [card_pod("p", "g", asks=f"1c+1Gi+{GPU}=1"), card_pod("r", "h", asks=f"1c+1Gi+{GPU}=1")]
    world = World(gpu_node("a", H200), quota_queue("q", {H200: 2}, "1c+8Gi"), *groups, *pods).run(both)
    assert set(world.bound) == {"p"}
    assert "cpu: asked 1, used 1, limit 1" in world.waiting["r"]
