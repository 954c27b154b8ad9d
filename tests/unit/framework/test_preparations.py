"""Bindings with preparations: the plugins that provide them, and the bindings that succeed or fail together."""

from collections.abc import Iterable

from scheduler.api.kinds import CLAIM
from scheduler.api.preparation import Preparation
from scheduler.api.task import Task
from scheduler.framework.session import Session
from tests.builders import World, configuration, group, node, pod

CONF = configuration(["gang"])


def opened() -> Session:
    pods = [pod(f"p{i}", "1c", "g") for i in range(3)]
    return World(node("n1", "9c"), group("g", minimum=2), pods).session(CONF)


def wanted(name: str) -> Preparation:
    return Preparation(kind=CLAIM, namespace="default", name=name, timeout=1.0)


def place(session: Session, *names: str) -> None:
    """Places the tasks in one commit."""
    (job,) = session.jobs.values()
    statement = session.statement()
    for name in names:
        task = next(t for t in job.tasks() if t.name == name)
        statement.allocate(job, (task,), (0,))
    statement.commit()


def test_bindings_of_one_commit_come_about_together_if_one_has_to_be_prepared() -> None:
    session = opened()
    session.plugin_session.add_preparations(lambda task, row: (wanted("c"),) if task.name == "p1" else ())

    place(session, "p0", "p1")
    place(session, "p2")

    together = {bind.task.name: bind.together for bind in session.decisions.binds}
    assert together["p0"] == together["p1"] != 0
    assert together["p2"] == 0


def test_commits_that_have_to_be_prepared_wait_each_for_itself() -> None:
    session = opened()
    session.plugin_session.add_preparations(lambda task, row: (wanted(task.name),))

    place(session, "p0", "p1")
    place(session, "p2")

    first, second, third = (bind.together for bind in session.decisions.binds)
    assert first == second != third != 0


def test_without_preparations_nothing_waits_for_anything() -> None:
    session = opened()

    place(session, "p0", "p1")

    assert {(bind.preparations, bind.together) for bind in session.decisions.binds} == {((), 0)}


def test_the_preparations_of_all_plugins_are_run_in_their_order() -> None:
    session = opened()

    def made(*names: str) -> object:
        def prepare(task: Task, row: int) -> Iterable[Preparation]:
            return [wanted(name) for name in names]

        return prepare

    session.plugin_session.add_preparations(made("a", "b"))  # type: ignore[arg-type]
    session.plugin_session.add_preparations(made("c"))  # type: ignore[arg-type]

    place(session, "p0")

    assert [made.name for made in session.decisions.binds[0].preparations] == ["a", "b", "c"]
