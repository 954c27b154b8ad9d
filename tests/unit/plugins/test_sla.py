"""sla: jobs that have waited too long are admitted and keep their nodes."""

from typing import Any

import pytest

from tests.builders import World, configuration, group, node, pods

KEY = "volcano.sh/sla-waiting-time"
HUGE: dict[str, Any] = {"asks": "99c"}


def settings(**arguments: Any) -> Any:
    return configuration(["sla"], ["overcommit"], arguments={"sla": arguments})


def waited(world: World, conf: Any, most: int = 30) -> float:
    """The seconds from the creation of the job ``late`` to its admission; -1 if it is not admitted."""
    for _ in range(most):
        now = world.cluster.now
        if world.run(conf).phase("late") == "Inqueue":
            assert world.outcome is not None
            return now - world.outcome.session.jobs["default/late"].creation
    return -1


def test_a_job_that_waits_too_long_is_admitted_although_other_plugins_would_reject_it() -> None:
    assert waited(World(node("n1"), group("late", **HUGE)), settings(**{"sla-waiting-time": "10s"})) == 10


@pytest.mark.parametrize("key", [KEY, "sla-waiting-time"])
def test_a_job_can_set_its_own_waiting_time(key: str) -> None:
    world = World(node("n1"), group("late", annotations={key: "5s"}, **HUGE))
    assert waited(world, settings(**{"sla-waiting-time": "1h"})) == 5


def test_without_a_waiting_time_jobs_are_never_overdue() -> None:
    assert waited(World(node("n1"), group("late", **HUGE)), settings()) == -1


def test_the_rejection_of_an_earlier_plugin_takes_precedence() -> None:
    conf = configuration(["overcommit"], ["sla"], arguments={"sla": {"sla-waiting-time": "2s"}})
    assert waited(World(node("n1"), group("late", **HUGE)), conf) == -1


def test_jobs_with_earlier_deadlines_come_first() -> None:
    session = World(
        *(group("never"), group("late", annotations={KEY: "1h"}), group("soon", annotations={KEY: "1m"})),
    ).session(settings())
    assert [job.name for job in sorted(session.jobs.values(), key=session.job_key)] == ["soon", "late", "never"]


def test_an_overdue_job_keeps_its_nodes_although_it_is_incomplete() -> None:
    world = World(
        *(node("n1", "2c+8Gi"), group("late", minimum=3, phase="Inqueue", annotations={KEY: "1s"})),
        *(pods("late", 3, "1c", "late"), group("other", phase="Inqueue"), pods("other", 1, "1c", "other")),
    )
    conf = configuration(["sla"], ["gang"])
    assert world.run(conf).bound == {}
    assert World(
        *(node("n1", "2c+8Gi"), group("late", minimum=3, phase="Inqueue"), pods("late", 3, "1c", "late")),
        *(group("other", phase="Inqueue"), pods("other", 1, "1c", "other")),
    ).run(conf).bound == {"other-0": "n1"}


@pytest.mark.parametrize("text", ["soon", "-5s", "0s", ""])
def test_an_invalid_waiting_time_is_ignored_and_reported(text: str) -> None:
    world = World(node("n1"), group("late", annotations={KEY: text}, **HUGE))
    assert waited(world, settings(), most=3) == -1
    (message,) = set(world.events("Malformed"))
    assert message.startswith(f"metadata.annotations[{KEY}]: ")


def test_an_invalid_argument_is_reported() -> None:
    (problem,) = World().session(settings(**{"sla-waiting-time": "soon"})).problems
    assert "argument sla-waiting-time" in problem
