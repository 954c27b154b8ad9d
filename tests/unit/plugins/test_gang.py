"""gang: what is said of a job when a session closes."""

from typing import Any

import pytest

from tests.builders import World, configuration, group, node, pod, pods

RUNNING: dict[str, Any] = {"on": "n"}
LEAVING: dict[str, Any] = {"on": "n", "deleting": True}
FAILED: dict[str, Any] = {"on": "n", "phase": "Failed"}


def conditions(*members: dict[str, Any], minimum: int = 2) -> list[str]:
    """The reasons that a session gives for a job of such Pods."""
    made = [pod(f"p{i}", "1c", "a", **member) for i, member in enumerate(members)]
    world = World(node("n", "9c"), group("a", minimum=minimum, phase="Running"), made).run(configuration(["gang"]))
    return [c["reason"] for c in world.get("PodGroup", "a")["status"].get("conditions") or []]


SCHEDULED, UNSCHEDULABLE = "tasks in gang are ready to be scheduled", "NotEnoughResources"


@pytest.mark.parametrize("members", [(RUNNING, LEAVING), (FAILED, LEAVING), (LEAVING, LEAVING)])
def test_nothing_is_said_of_a_gang_that_is_on_its_way_out(members: tuple[dict[str, Any], ...]) -> None:
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
def test_a_gang_that_lacks_tasks_is_unschedulable(members: tuple[dict[str, Any], ...]) -> None:
    assert conditions(*members, minimum=3 if len(members) == 3 else 2) == [UNSCHEDULABLE]


def test_a_gang_that_has_its_minimum_is_scheduled() -> None:
    assert conditions(RUNNING, RUNNING, LEAVING) == [SCHEDULED]


def test_what_is_told_once_is_not_told_again() -> None:
    conf = configuration(["gang"])
    world = World(node("n", "9c"), group("a", minimum=2, phase="Running"), pods("p", 2, "1c", "a", on="n")).run(conf)
    world.run(conf)
    assert not world.decisions
