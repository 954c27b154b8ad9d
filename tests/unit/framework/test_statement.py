"""A statement is all or nothing: a discarded statement leaves every number unchanged, bit for bit."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.decisions import EventRecord, pod_ref
from scheduler.api.job import Job
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.session import Session
from scheduler.framework.statement import AllocationError, Statement
from tests.builders import World, configuration, group, node, pod, pods, queue
from tests.examples import examples

PLUGINS = ("priority", "gang", "drf", "proportion")
SOME, LATER, EVICT = "allocate", "pipeline", "evict"
Operation = tuple[str, int, int, int]


def world() -> World:
    return World(
        node("n1", "7.3c+16Gi"),
        node("n2", "5c+3Gi+example.com/gpu=8"),
        queue("q", 3),
        group("a", "q", 2, phase="Inqueue"),
        group("b", minimum=1, phase="Running"),
        pods("a", 4, "0.7c+1300Mi", "a"),
        pods("g", 3, "0.1c+example.com/gpu=1", "a"),
        pods("r", 4, "0.3c+333Mi", "b", on="n1"),
        pod("t", "1c", "b", on="n2", deleting=True),
    )


def state(session: Session) -> dict[str, Any]:
    """Every number that a placement changes, as bytes; and the tasks in each status."""
    nodes = session.nodes
    columns = {name: getattr(nodes, name).tobytes() for name in ("idle", "used", "releasing", "pipelined", "nonzero")}
    proportion = next(p for p in session.plugins if p.name == "proportion")
    books = {name: book.allocated.tobytes() for name, book in proportion._books.items()}  # type: ignore[attr-defined]
    return {**columns, "books": books, "jobs": {key: of(job) for key, job in session.jobs.items()}}


def of(job: Job) -> tuple[Any, ...]:
    sums = [vector.tobytes() for vector in (job.allocated, job.pending, job.pipelined)]
    members = {status.name: sorted(tasks) for status, tasks in job.by_status.items()}
    return (sums, members, dict(job.placed), job.pending_best_effort, job.ready_count, job.waiting_count)


def perform(session: Session, statement: Statement, operation: Operation) -> None:
    """Applies one operation to a task for which it is possible; nothing if there is no such task."""
    what, which, row, number = operation
    job = session.jobs["default/a"]
    if what == EVICT:
        owner = session.jobs["default/b"] if which % 2 else job
        held = [t for s in (TaskStatus.RUNNING, TaskStatus.ALLOCATED) for t in owner.of(s).values()]
        if held:
            statement.evict(owner, held[which % len(held)], "test")
        return
    waiting = list(job.of(TaskStatus.PENDING).values())
    if not waiting:
        return
    first = waiting[which % len(waiting)]
    alike = [task for task in waiting if task.cls is first.cls][:number]
    if what == SOME:
        statement.allocate(job, alike, [(row + i) % 2 for i in range(len(alike))])
    else:
        statement.pipeline(job, first, row % 2)


OPERATIONS = st.lists(
    st.tuples(st.sampled_from([SOME, LATER, EVICT]), st.integers(0, 6), st.integers(0, 1), st.integers(1, 4)),
    max_size=10,
)


@settings(max_examples=examples(60), deadline=None)
@given(OPERATIONS, OPERATIONS)
def test_discarding_restores_every_number(kept: list[Operation], discarded: list[Operation]) -> None:
    session = world().session(configuration(PLUGINS))
    statement = session.statement()
    for operation in kept:
        perform(session, statement, operation)
    before = state(session)
    trial = session.statement()
    for operation in discarded:
        perform(session, trial, operation)
    trial.discard()
    assert state(session) == before
    assert not trial
    statement.discard()
    assert state(session) == state(world().session(configuration(PLUGINS)))


@settings(max_examples=examples(30), deadline=None)
@given(OPERATIONS, st.integers(0, 10))
def test_a_plugin_that_refuses_leaves_everything_as_it_was(operations: list[Operation], patience: int) -> None:
    session = world().session(configuration(PLUGINS))
    calls = 0

    def refuse(job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        nonlocal calls
        calls += 1
        if calls > patience:
            raise AllocationError("no more")

    session.plugin_session.add_handlers(refuse, lambda job, tasks, rows: None)
    statement = session.statement()
    for operation in operations:
        before = state(session)
        try:
            perform(session, statement, operation)
        except AllocationError:
            assert state(session) == before


# --- what each operation does ---
def test_allocating_takes_amounts_and_moves_the_task() -> None:
    session = world().session(configuration(PLUGINS))
    job = session.jobs["default/a"]
    task = next(iter(job.of(TaskStatus.PENDING).values()))
    idle = session.nodes.idle[0].copy()
    session.statement().allocate(job, (task,), (1,))
    assert session.nodes.idle[0].tolist() == [idle[0], idle[1] - 700]
    assert session.status_of(job, task) is TaskStatus.ALLOCATED and session.row_of(job, task) == 1


def test_pipelining_binds_nothing() -> None:
    session = world().session(configuration(PLUGINS))
    job = session.jobs["default/a"]
    task = next(iter(job.of(TaskStatus.PENDING).values()))
    before = session.nodes.idle.copy()
    session.statement().pipeline(job, task, 1)
    assert np.array_equal(session.nodes.idle, before)
    assert session.nodes.pipelined[0].tolist() == [0, 700]
    assert (job.waiting_count, job.ready_count) == (1, 0)


def test_evicting_makes_amounts_available_for_later() -> None:
    session = world().session(configuration(PLUGINS))
    job = session.jobs["default/b"]
    task = next(iter(job.of(TaskStatus.RUNNING).values()))
    future = session.nodes.future_idle()[0, 0]
    session.statement().evict(job, task, "preempt")
    assert session.nodes.future_idle()[0, 0] == future + 300
    assert session.status_of(job, task) is TaskStatus.RELEASING


def test_what_had_been_given_is_remembered_when_a_statement_is_discarded() -> None:
    session = world().session(configuration(PLUGINS))
    job = session.jobs["default/a"]
    first, second = list(job.of(TaskStatus.PENDING).values())[:2]
    statement = session.statement()
    statement.allocate(job, (first,), (0,))
    statement.pipeline(job, second, 1)
    statement.discard()
    assert job.transaction == {first.uid: (TaskStatus.ALLOCATED, "n1"), second.uid: (TaskStatus.PIPELINED, "n2")}


def test_committing_binds_allocated_tasks_and_evicts_victims_while_pipelined_tasks_stay_in_the_session() -> None:
    session = world().session(configuration(PLUGINS))
    job, other = session.jobs["default/a"], session.jobs["default/b"]
    first, second = list(job.of(TaskStatus.PENDING).values())[:2]
    victim = next(iter(other.of(TaskStatus.RUNNING).values()))
    statement, more = session.statement(), session.statement()
    statement.allocate(job, (first,), (0,))
    more.evict(other, victim, "preempt")
    more.pipeline(job, second, 1)
    statement.merge(more)
    assert not more
    statement.commit()
    assert [(b.task, b.node) for b in session.decisions.binds] == [(first, "n1")]
    assert [(e.task, e.reason) for e in session.decisions.evictions] == [(victim, "preempt")]
    assert session.status_of(job, first) is TaskStatus.BINDING
    assert session.status_of(job, second) is TaskStatus.PIPELINED


def test_handlers_called_before_a_refusal_are_called_again_to_undo() -> None:
    session = world().session(configuration(()))
    calls: list[str] = []

    def refuse(job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        raise AllocationError("no")

    session.plugin_session.add_handlers(lambda *_: calls.append("first"), lambda *_: calls.append("undo first"))
    session.plugin_session.add_handlers(refuse, lambda *_: calls.append("undo second"))
    session.plugin_session.add_handlers(lambda *_: calls.append("third"), lambda *_: calls.append("undo third"))
    job = session.jobs["default/a"]
    task = next(iter(job.of(TaskStatus.PENDING).values()))
    with pytest.raises(AllocationError):
        session.statement().allocate(job, (task,), (0,))
    assert calls == ["first", "undo first"]


def test_a_task_of_a_deleted_queue_can_be_evicted() -> None:
    lost = World(node("n"), group("a", "gone", 1), pod("p", "1c", "a", on="n"))
    session = lost.session(configuration(PLUGINS))
    job = session.jobs["default/a"]
    statement = session.statement()
    statement.evict(job, next(job.tasks()), "test")
    statement.discard()
    assert job.count(TaskStatus.RUNNING) == 1


def test_a_task_restored_out_of_order_leaves_the_rest_of_the_statement_unchanged() -> None:
    session, other = (world().session(configuration(PLUGINS)) for _ in range(2))
    for chosen, spared in ((session, True), (other, False)):
        job, waiting = chosen.jobs["default/b"], chosen.jobs["default/a"]
        first, second = list(job.of(TaskStatus.RUNNING).values())[:2]
        statement = chosen.statement()
        if spared:
            statement.evict(job, first, "test")
        statement.evict(job, second, "test")
        statement.pipeline(waiting, next(iter(waiting.of(TaskStatus.PENDING).values())), 0, nominate=True)
        if spared:
            statement.restore(first)
    assert state(session) == state(other)


def test_withdrawing_a_pipelined_task_restores_the_session() -> None:
    session = world().session(configuration(PLUGINS))
    job, before = session.jobs["default/a"], state(session)
    task = next(iter(job.of(TaskStatus.PENDING).values()))
    statement = session.statement()
    statement.pipeline(job, task, 0, nominate=True)
    statement.commit()
    assert set(job.nominated) == {task.uid}
    session.statement().withdraw(job, task)
    assert state(session) == before and not job.nominated


def test_the_event_of_an_eviction_is_recorded_only_when_the_statement_commits() -> None:
    session = world().session(configuration(PLUGINS))
    job = session.jobs["default/b"]
    task = next(iter(job.of(TaskStatus.RUNNING).values()))
    event = EventRecord(pod_ref(task), "Normal", "Preempted", "text")
    statement = session.statement()
    statement.evict(job, task, "preempt", event)
    statement.discard()
    statement.evict(job, task, "preempt", event)
    assert session.decisions.events == []
    statement.commit()
    assert session.decisions.events == [event]
