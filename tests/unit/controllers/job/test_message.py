"""The status message of a vcjob: what its PodGroup waits for, written a limited number of times."""

from typing import Any

from scheduler.api.kinds import VCJOB
from scheduler.api.times import format_timestamp
from scheduler.controllers.effects import Patch
from scheduler.controllers.job.status import MESSAGE_LENGTH
from tests.unit.controllers.job.world import World, job, running, task

FULL = "queue research has insufficient cpu: requested 8, used 24, limit 30"


def waiting(message: str = FULL) -> World:
    """A job whose PodGroup is refused by its queue."""
    world = World()
    world.create(job())
    world.settle()
    refuse(world, message)
    world.wait(2)
    return world


def refuse(world: World, message: str, status: str = "True", phase: str = "Pending") -> None:
    condition = {"type": "Unschedulable", "status": status, "message": message}
    condition["lastTransitionTime"] = format_timestamp(world.now)
    world.group_phase(world.group()["metadata"]["name"], phase, condition)


def state(world: World) -> tuple[str, Any]:
    """The message of the state, and reason and message of each condition that has one."""
    status = world.find(VCJOB, "j")["status"]
    explained = [
        (condition["status"], condition["reason"], condition["message"])
        for condition in status["conditions"]
        if condition.get("message") or condition.get("reason")
    ]
    return status["state"].get("message", ""), explained


def status_writes(world: World) -> int:
    return sum(isinstance(write, Patch) and write.kind is VCJOB for write in world.writes)


def test_the_status_and_the_condition_of_the_phase_say_what_the_pod_group_waits_for() -> None:
    world = waiting()

    assert state(world) == (FULL, [("Pending", "Unschedulable", FULL)])
    assert world.phase() == "Pending"


def test_the_message_is_removed_when_the_job_runs() -> None:
    world = waiting()

    refuse(world, "", status="False", phase="Inqueue")
    world.run()

    assert world.phase() == "Running"
    assert state(world) == ("", [])


def test_the_message_is_removed_when_the_pod_group_waits_no_longer_in_the_same_phase() -> None:
    world = waiting()

    refuse(world, "", status="False")
    world.wait(2)

    assert (world.phase(), *state(world)) == ("Pending", "", [])


def test_a_job_that_is_aborted_while_it_waits_keeps_no_message() -> None:
    world = waiting()

    world.command("AbortJob")
    world.run(2)

    assert (world.phase(), *state(world)) == ("Aborted", "", [])


def test_a_message_that_changes_every_second_is_written_every_ten_seconds_and_the_last_one_in_the_end() -> None:
    world = waiting()
    before = status_writes(world)

    for second in range(60):
        refuse(world, f"{FULL} {second}")
        world.wait(1)
    world.wait(10)

    assert state(world)[0] == f"{FULL} 59"
    assert status_writes(world) - before <= 7


def test_an_unchanged_message_is_written_once() -> None:
    world = waiting()
    before = status_writes(world)

    for _ in range(5):
        refuse(world, FULL)
        world.wait(30)

    assert status_writes(world) == before


def test_counts_do_not_wait_for_the_next_message() -> None:
    world = World()
    world.create(job(tasks=[task(replicas=2)], minimum=2))
    world.settle()
    world.admit()
    world.settle()
    refuse(world, FULL, phase="Inqueue")
    world.wait(2)
    refuse(world, f"{FULL} again", phase="Inqueue")

    world.end_pod("j-w-0", "Running")
    world.wait(2)

    assert (world.status()["running"], state(world)[0]) == (1, FULL)
    world.wait(10)
    assert state(world)[0] == f"{FULL} again"


def test_a_running_job_waits_for_nothing_even_if_its_gang_lacks_pods() -> None:
    world = running(job(minimum=1))
    refuse(world, FULL, phase="Running")
    world.wait(2)

    assert state(world) == ("", [])


def test_a_message_of_any_length_is_cut() -> None:
    message = state(waiting("x" * 100_000))[0]

    assert message == "x" * (MESSAGE_LENGTH - 3) + "..."


def test_a_claim_that_is_missing_is_named_in_the_message() -> None:
    world = World()
    world.create(job(volumes=[{"mountPath": "/data", "volumeClaimName": "data"}]))
    world.run(2)

    assert "pvc data is not found" in state(world)[0]
