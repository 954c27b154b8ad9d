"""Oversubscribed amounts of nodes, which the agent of Volcano's colocation writes as annotations."""

import pytest

from scheduler.api.names import OVERSUBSCRIPTION_CPU, OVERSUBSCRIPTION_MEMORY
from tests.builders import World, configuration, group, node, pods

CONF = configuration(["gang", "predicates"])


def lent(**annotations: str) -> World:
    keys = {"cpu": OVERSUBSCRIPTION_CPU, "memory": OVERSUBSCRIPTION_MEMORY}
    small = node("n1", "2c+2Gi")
    small["metadata"]["annotations"] = {keys[name]: text for name, text in annotations.items()}
    return World(small, group("a"), pods("a", 6, "1c+1Gi", "a"))


@pytest.mark.parametrize(
    ("annotations", "placed"),
    [
        ({}, 2),
        ({"cpu": "2000", "memory": "2147483648"}, 4),
        ({"cpu": "1999", "memory": "2147483648"}, 3),
        ({"cpu": "2000"}, 2),
    ],
)
def test_oversubscribed_cpu_and_memory_in_annotations_are_added_to_allocatable(
    annotations: dict[str, str], placed: int
) -> None:
    assert len(lent(**annotations).run(CONF).bound) == placed


@pytest.mark.parametrize("text", ["much", "-1000", ""])
def test_a_malformed_oversubscription_counts_as_zero_and_is_reported(text: str) -> None:
    world = lent(cpu=text, memory="2147483648").run(CONF)
    assert len(world.bound) == 2
    assert any(f"metadata.annotations[{OVERSUBSCRIPTION_CPU}]" in message for message in world.events("Malformed"))
