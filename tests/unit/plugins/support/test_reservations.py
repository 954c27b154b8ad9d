"""The jobs that reserve their minResources."""

import pytest

from scheduler.plugins.support.queue_accounting import reserves
from tests.builders import World, configuration, group, node, pod


@pytest.mark.parametrize(
    ("phase", "grows", "reserving"),
    [("Pending", True, False), ("Inqueue", False, True), ("Running", False, False), ("Running", True, True)],
)
def test_a_job_whose_tasks_start_one_after_another_reserves_the_resources_of_the_next_ones(
    phase: str, grows: bool, reserving: bool
) -> None:
    annotations = {"volcano-py/ordered-tasks": ""} if grows else {}
    raw = group("g", minimum=2, phase=phase, asks="2c", annotations=annotations)
    world = World(node("n"), raw, pod("first", "1c", "g", on="n", phase="Running"), pod("second", "1c", "g"))
    assert reserves(world.session(configuration([])).jobs["default/g"]) == reserving
