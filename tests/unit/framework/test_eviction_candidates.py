"""Columns over the tasks that hold nodes follow what statements do in a session."""

import pytest

from scheduler.api.job import Job
from scheduler.api.task import TaskStatus
from scheduler.framework.extension import PREEMPTABLE, RECLAIMABLE, ExtensionPoint
from scheduler.framework.session import Session
from tests.builders import World, configuration, group, node, pod, pods, queue


@pytest.fixture
def session() -> Session:
    return World(
        node("n1", "9c"), node("n2", "9c"), queue("q1"), queue("q2"),
        group("a", "q1"), pods("a", 3, "1c", "a", on="n1"), pod("a-bound", "2c", "a", on="n2", phase="Pending"),
        group("b", "q2"), pod("b", "", "b", on="n2", annotations={"volcano.sh/preemptable": "false"}),
        pod("b-leaving", "1c", "b", on="n2", deleting=True), pod("b-waiting", "1c", "b"),
        pod("b-lost", "1c", "b", on="nowhere"),
    ).session(configuration(["gang"]))  # fmt: skip


def names(session: Session, mask: object) -> set[str]:
    return {task.name for task, is_in in zip(session.eviction_candidates.tasks, mask, strict=True) if is_in}  # type: ignore[call-overload]


def test_bound_and_running_tasks_on_known_nodes_are_eviction_candidates(session: Session) -> None:
    candidates = session.eviction_candidates
    assert names(session, candidates.present) == {"a-0", "a-1", "a-2", "a-bound", "b"}
    assert names(session, ~candidates.running) == {"a-bound"}
    assert names(session, candidates.best_effort) == names(session, ~candidates.preemptable) == {"b"}
    assert names(session, candidates.own("default/b")) == names(session, candidates.of_queues("q2".__eq__)) == {"b"}
    assert candidates.requests[0].tolist() == [1000, 1000, 1000, 2000, 0]


def test_the_tasks_of_a_node_are_those_of_the_mask(session: Session) -> None:
    candidates = session.eviction_candidates
    assert {task.name for task in candidates.at(1, candidates.present)} == {"a-bound", "b"}
    assert {task.name for task in candidates.at(1, candidates.running)} == {"b"}


def test_the_tasks_of_a_job_are_neighbours(session: Session) -> None:
    candidates = session.eviction_candidates
    for name in ("default/a", "default/b", "default/missing"):
        assert {task.job for task in candidates.tasks[candidates.span(name)]} <= {name}
        assert candidates.own(name)[candidates.span(name)].all() and candidates.own(name).sum() == len(
            candidates.tasks[candidates.span(name)]
        )


def test_an_evicted_task_is_present_again_when_that_is_undone(session: Session) -> None:
    candidates, job = session.eviction_candidates, session.jobs["default/a"]
    (task,) = job.of(TaskStatus.BOUND).values()
    statement = session.statement()
    statement.evict(job, task, "test")
    assert "a-bound" not in names(session, candidates.present)
    statement.restore(task)
    assert "a-bound" in names(session, candidates.present)
    assert not statement


def test_what_is_said_of_a_job_is_asked_again_when_it_changed(session: Session) -> None:
    asked: list[str] = []

    def ready(job: Job) -> int:
        asked.append(job.name)
        return job.ready_count

    candidates, job = session.eviction_candidates, session.jobs["default/a"]
    assert candidates.per_job(ready).tolist() == [4, 4, 4, 4, 2]
    session.statement().evict(job, next(iter(job.of(TaskStatus.RUNNING).values())), "test")
    assert candidates.per_job(ready).tolist() == [3, 3, 3, 3, 2]
    assert asked == ["a", "b", "a"]


def test_a_cluster_without_candidates_has_empty_columns() -> None:
    empty = World(node("n1"), group("a"), pod("p", "1c", "a")).session(configuration(["priority", "gang", "drf"]))
    assert (
        not len(empty.eviction_candidates.present)
        and empty.eviction_candidates.at(0, empty.eviction_candidates.present) == []
    )


@pytest.mark.parametrize("point", [PREEMPTABLE, RECLAIMABLE])
def test_a_veto_holds_in_every_tier(session: Session, point: ExtensionPoint) -> None:
    tasks = list(session.jobs["default/a"].tasks())
    assert len(session.ask(point, tasks[0], tasks)) == 3
    session.plugin_session.add_veto(point, lambda preemptor, task: task.name != "a-1")
    assert [task.name for task in session.ask(point, tasks[0], tasks)] == ["a-1"]
