"""gang: the conditions of a job when a session closes."""

from typing import Any

import pytest

from tests.builders import World, configuration, group, node, pod, pods

RUNNING: dict[str, Any] = {"on": "n"}
LEAVING: dict[str, Any] = {"on": "n", "deleting": True}
FAILED: dict[str, Any] = {"on": "n", "phase": "Failed"}


def conditions(*members: dict[str, Any], minimum: int = 2) -> list[str]:
    """The reasons of the conditions that a session sets on a job with these Pods."""
    made = [pod(f"p{i}", "1c", "a", **member) for i, member in enumerate(members)]
    world = World(node("n", "9c"), group("a", minimum=minimum, phase="Running"), made).run(configuration(["gang"]))
    return [c["reason"] for c in world.get("PodGroup", "a")["status"].get("conditions") or []]


SCHEDULED, UNSCHEDULABLE = "tasks in gang are ready to be scheduled", "NotEnoughResources"


@pytest.mark.parametrize("members", [(RUNNING, LEAVING), (FAILED, LEAVING), (LEAVING, LEAVING)])
def test_a_terminating_gang_gets_no_condition(members: tuple[dict[str, Any], ...]) -> None:
    assert conditions(*members) == []


@pytest.mark.parametrize(
    "members",
    [
        (FAILED, FAILED),
        (RUNNING, FAILED),
        (FAILED, LEAVING, {}),
        (RUNNING, {"deleting": True}),
    ],
)
def test_a_gang_below_its_minimum_is_unschedulable(members: tuple[dict[str, Any], ...]) -> None:
    assert conditions(*members, minimum=3 if len(members) == 3 else 2) == [UNSCHEDULABLE]


def test_a_gang_at_its_minimum_is_scheduled() -> None:
    assert conditions(RUNNING, RUNNING, LEAVING) == [SCHEDULED]


def test_a_condition_is_not_repeated() -> None:
    conf = configuration(["gang"])
    world = World(node("n", "9c"), group("a", minimum=2, phase="Running"), pods("p", 2, "1c", "a", on="n")).run(conf)
    world.run(conf)
    assert not world.decisions
