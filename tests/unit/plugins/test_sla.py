"""sla: jobs that have waited too long are let in and keep nodes."""

from typing import Any

import pytest

from tests.builders import World, configuration, group, node, pods

KEY = "volcano.sh/sla-waiting-time"
HUGE: dict[str, Any] = {"asks": "99c"}


def settings(**arguments: Any) -> Any:
    return configuration(["sla"], ["overcommit"], arguments={"sla": arguments})


def waited(world: World, conf: Any, most: int = 30) -> float:
    """Seconds from its creation after which the job called late is let in; -1: it is not."""
    for _ in range(most):
        now = world.cluster.now
        if world.run(conf).phase("late") == "Inqueue":
            assert world.outcome is not None
            return now - world.outcome.session.jobs["default/late"].creation
    return -1


def test_a_job_that_waits_too_long_is_let_in_though_others_would_not() -> None:
    assert waited(World(node("n1"), group("late", **HUGE)), settings(**{"sla-waiting-time": "10s"})) == 10


@pytest.mark.parametrize("key", [KEY, "sla-waiting-time"])
def test_a_job_may_say_itself_how_long_it_waits(key: str) -> None:
    world = World(node("n1"), group("late", annotations={key: "5s"}, **HUGE))
    assert waited(world, settings(**{"sla-waiting-time": "1h"})) == 5


def test_without_a_time_jobs_wait_for_ever() -> None:
    assert waited(World(node("n1"), group("late", **HUGE)), settings()) == -1


def test_an_earlier_plugin_that_rejects_has_the_last_word() -> None:
    conf = configuration(["overcommit"], ["sla"], arguments={"sla": {"sla-waiting-time": "2s"}})
    assert waited(World(node("n1"), group("late", **HUGE)), conf) == -1


def test_jobs_that_must_start_sooner_come_first() -> None:
    session = World(
        *(group("never"), group("late", annotations={KEY: "1h"}), group("soon", annotations={KEY: "1m"})),
    ).session(settings())
    assert [job.name for job in sorted(session.jobs.values(), key=session.job_key)] == ["soon", "late", "never"]


def test_an_overdue_job_keeps_the_nodes_it_has_got_though_it_is_not_complete() -> None:
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
def test_a_time_that_is_none_is_set_aside_and_told_of(text: str) -> None:
    world = World(node("n1"), group("late", annotations={KEY: text}, **HUGE))
    assert waited(world, settings(), most=3) == -1
    (message,) = set(world.events("Malformed"))
    assert message.startswith(f"metadata.annotations[{KEY}]: ")


def test_an_argument_that_is_no_time_is_told_of() -> None:
    (problem,) = World().session(settings(**{"sla-waiting-time": "soon"})).problems
    assert "argument sla-waiting-time" in problem
