"""The combination of the answers of several plugins, over tiers, with flags that disable functions."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from scheduler.api.reasons import Refusal
from scheduler.api.task import Task
from scheduler.framework import registry
from scheduler.framework.arguments import Arguments
from scheduler.framework.configuration import Configuration, PluginOption
from scheduler.framework.cycle import open_session
from scheduler.framework.extension import (
    ALLOCATABLE,
    BEST_NODE,
    FIGURES,
    HYPER_NODE_GRADIENT,
    HYPER_NODE_ORDER,
    JOB_ENQUEUEABLE,
    JOB_ENQUEUED,
    JOB_ORDER,
    JOB_PIPELINED,
    JOB_READY,
    JOB_STARVING,
    JOB_VALID,
    OVERUSED,
    PREEMPTABLE,
    PREEMPTIVE,
    QUEUE_ORDER,
    RECLAIMABLE,
    SUB_JOB_ORDER,
    SUB_JOB_PIPELINED,
    SUB_JOB_READY,
    TASK_ORDER,
    UNIFIED_EVICTABLE,
    VICTIM_LIMIT,
    VICTIM_TASKS,
    ExtensionPoint,
    Vote,
)
from scheduler.framework.figures import Figures
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.session import Session
from tests.builders import World, configuration, group, node, pod, queue

PERMIT, ABSTAIN, REJECT = Vote.PERMIT, Vote.ABSTAIN, Vote.REJECT
Answers = Sequence[Sequence[Any]]


def session_with(point: ExtensionPoint, tiers: Answers, flags: dict[str, bool] | None = None) -> Session:
    """A session in which each entry of each tier is the function, or the fixed answer, of one plugin."""
    options = []
    for i, tier in enumerate(tiers):
        row = []
        for j, answer in enumerate(tier):
            name = f"fake-{i}-{j}"
            registry._plugins[name] = _fake(name, point, answer)
            row.append(PluginOption(name, flags or {}))
        options.append(tuple(row))
    world = World(
        node("n", "9c"),
        queue("other"),
        group("a", minimum=1),
        group("b", minimum=1),
        [pod(f"p{i}", "1c", "a", on="n") for i in range(4)],
    )
    return world.session(Configuration((), tuple(options)))


def _fake(name: str, point: ExtensionPoint, answer: Any) -> Callable[[Arguments], Any]:
    class Fake:
        def __init__(self, arguments: Arguments) -> None:
            pass

        def open(self, session: PluginSession) -> None:
            getattr(session, point.method)(answer if callable(answer) else lambda *_: answer)

    Fake.name = name  # type: ignore[attr-defined]
    return Fake


# --- votes ---
@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([], True),
        ([[ABSTAIN], [ABSTAIN]], True),
        ([[PERMIT]], True),
        ([[REJECT]], False),
        ([[PERMIT, REJECT]], False),
        ([[REJECT, PERMIT]], False),
        ([[PERMIT], [REJECT]], True),
        ([[ABSTAIN], [REJECT]], False),
        ([[ABSTAIN, PERMIT], [REJECT]], True),
        ([[REJECT], [PERMIT]], False),
    ],
)
@pytest.mark.parametrize("point", [JOB_PIPELINED, JOB_ENQUEUEABLE])
def test_a_rejection_vetoes_and_a_permission_ends_with_its_tier(
    point: ExtensionPoint, tiers: Answers, expected: bool
) -> None:
    session = session_with(point, tiers)
    ask = session.job_pipelined if point is JOB_PIPELINED else session.job_enqueueable
    assert ask(session.jobs["default/a"]) is expected


# --- victims ---
@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([], ""),
        ([["01"]], "01"),
        ([["012", "12"]], "12"),
        ([["210", "012"]], "210"),
        ([[None, "1"]], "1"),
        ([[None], ["1"]], "1"),
        ([["01"], ["23"]], "01"),
        ([["", "01"], ["23"]], "23"),
        ([["01", ""], ["23"]], "23"),
        ([["01", "", "2"], ["3"]], "3"),
        ([["0", "1"], ["2"]], "2"),
        ([["0", "1", "3"], ["2"]], "3"),
        ([["0", "1", "3", "3"], ["2"]], "3"),
        ([[""], [""]], ""),
        ([[None], [None]], ""),
    ],
)
@pytest.mark.parametrize("point", [PREEMPTABLE, RECLAIMABLE])
def test_victims_intersect_in_a_tier_and_the_first_tier_that_yields_any_decides(
    point: ExtensionPoint, tiers: Answers, expected: str
) -> None:
    def of(numbers: str | None) -> Callable[[Task, Sequence[Task]], list[Task] | None]:
        return lambda preemptor, candidates: None if numbers is None else [candidates[int(n)] for n in numbers]

    session = session_with(point, [[of(answer) for answer in tier] for tier in tiers])
    tasks = sorted(session.jobs["default/a"].tasks(), key=lambda t: t.name)
    assert "".join(task.name[1:] for task in session.ask(point, tasks[3], tasks)) == expected


def test_victims_of_shuffle_unite_in_a_tier() -> None:
    def of(numbers: str) -> Callable[[Sequence[Task]], list[Task]]:
        return lambda candidates: [candidates[int(n)] for n in numbers]

    session = session_with(VICTIM_TASKS, [[of("")], [of("01"), of("12")], [of("3")]])
    tasks = sorted(session.jobs["default/a"].tasks(), key=lambda t: t.name)
    assert [task.name for task in session.victim_tasks(tasks)] == ["p0", "p1", "p2"]


def test_limits_narrow_the_victims_of_shuffle_one_after_the_other() -> None:
    session = session_with(VICTIM_LIMIT, [[lambda tasks: tasks[1:]], [lambda tasks: tasks[:1]]])
    tasks = sorted(session.jobs["default/a"].tasks(), key=lambda t: t.name)
    assert [task.name for task in session.ask(VICTIM_LIMIT, tasks)] == ["p1"]


# --- all, first, and orders ---
@pytest.mark.parametrize(
    ("tiers", "expected"),
    [([], False), ([[True]], True), ([[True, False]], False), ([[], [False]], False), ([[True], [False]], True)],
)
def test_the_first_tier_with_a_function_decides_who_starves(tiers: Answers, expected: bool) -> None:
    session = session_with(JOB_STARVING, tiers)
    assert session.job_starving(session.jobs["default/a"]) is expected


@pytest.mark.parametrize(("tiers", "missing"), [([], 0), ([[0, 0]], 0), ([[0], [2]], 2), ([[3, 1]], 3)])
def test_a_job_is_ready_when_no_plugin_misses_a_task(tiers: Answers, missing: int) -> None:
    session = session_with(JOB_READY, tiers)
    job = session.jobs["default/a"]
    assert (session.job_missing(job), session.job_ready(job)) == (missing, missing == 0)


@pytest.mark.parametrize(("tiers", "room"), [([], 5), ([[9, 3]], 3), ([[3], [2]], 2), ([[0, 9]], 0), ([[-4]], 0)])
def test_the_least_room_in_a_queue_counts(tiers: Answers, room: int) -> None:
    session = session_with(ALLOCATABLE, tiers)
    job = session.jobs["default/a"]
    cls = next(job.tasks()).cls
    assert session.allocatable(session.queues["default"], job, cls, 5) == room


def test_the_first_refusal_counts() -> None:
    no, never = Refusal("No", "no"), Refusal("Never", "never")
    session = session_with(JOB_VALID, [[None, no], [never]])
    assert session.job_valid(session.jobs["default/a"]) is no
    session = session_with(OVERUSED, [[None], [never]])
    assert session.overused(session.queues["default"]) is never


def test_jobs_are_ordered_by_plugins_then_by_age_then_by_name() -> None:
    session = session_with(JOB_ORDER, [[lambda job: 0], [lambda job: job.name != "b"]])
    a, b = session.jobs["default/a"], session.jobs["default/b"]
    assert session.job_key(b) < session.job_key(a)
    session = session_with(JOB_ORDER, [])
    a, b = session.jobs["default/a"], session.jobs["default/b"]
    assert session.job_key(a) < session.job_key(b)
    b.creation = a.creation
    a.uid, b.uid = "z", "y"
    assert session.job_key(a) < session.job_key(b)


def test_queues_are_ordered_by_plugins_then_by_age_then_by_name() -> None:
    session = session_with(QUEUE_ORDER, [[lambda queue: queue.name != "other"]])
    key, queues = session.queue_key, session.queues
    assert sorted(queues, key=lambda name: key(queues[name]))[0] == "other"


def test_tasks_are_ordered_by_plugins_then_by_index_age_and_uid() -> None:
    session = session_with(TASK_ORDER, [[lambda task: -task.priority]])
    tasks = sorted(session.jobs["default/a"].tasks(), key=session.task_key)
    assert [task.name for task in tasks] == ["p0", "p1", "p2", "p3"]
    tasks[3].index, tasks[2].priority = -2, 99
    assert [t.name for t in sorted(tasks, key=session.task_key)] == ["p2", "p3", "p0", "p1"]


# --- flags ---
def test_a_flag_switches_the_functions_at_its_points_off() -> None:
    session = session_with(JOB_PIPELINED, [[REJECT]], {"enableJobPipelined": False})
    assert session.job_pipelined(session.jobs["default/a"])
    session = session_with(JOB_PIPELINED, [[REJECT]], {"enableJobReady": False})
    assert not session.job_pipelined(session.jobs["default/a"])


def test_no_flag_switches_validity_off() -> None:
    session = session_with(
        JOB_VALID, [[Refusal("No", "no")]], dict.fromkeys(("enableJobValid", "enableJobOrder"), False)
    )
    assert session.job_valid(session.jobs["default/a"]) is not None


def test_an_unknown_plugin_is_passed_over() -> None:
    unknown = Configuration((), ((PluginOption("no-such-plugin"),),))
    snapshot = World(node("n")).session(configuration([])).snapshot
    assert open_session(Session(snapshot, unknown)).plugins == []


# --- any point, by its combinator ---
@pytest.mark.parametrize(
    ("point", "tiers", "answer"),
    [
        (HYPER_NODE_GRADIENT, [[None, "a"], ["b"]], "a"),
        (HYPER_NODE_GRADIENT, [[None]], None),
        (SUB_JOB_READY, [[1], [3, 0]], 3),
        (SUB_JOB_READY, [], 0),
        (SUB_JOB_PIPELINED, [[ABSTAIN, PERMIT], [REJECT]], True),
        (SUB_JOB_PIPELINED, [[PERMIT, REJECT]], False),
        (PREEMPTIVE, [[True], [False]], False),
        (PREEMPTIVE, [], True),
        (SUB_JOB_ORDER, [[2], [1]], (2, 1)),
        (FIGURES, [[Figures()], [Figures()]], [Figures(), Figures()]),
        (JOB_ENQUEUED, [[1, 2]], None),
    ],
)
def test_a_point_is_asked_by_its_combinator(point: ExtensionPoint, tiers: Answers, answer: object) -> None:
    assert session_with(point, tiers).ask(point, "subject") == answer


def test_the_scores_of_hyper_nodes_are_added_up() -> None:
    session = session_with(HYPER_NODE_ORDER, [[np.array([1.5, 0.0]), np.array([2.0, 0.0])], [np.array([3.0, 1.0])]])
    assert session.ask(HYPER_NODE_ORDER, "sub-job", ["h0", "h1"]).tolist() == [6.5, 1.0]


def test_victims_of_gang_eviction_are_narrowed_by_every_tier() -> None:
    tasks = list(session_with(UNIFIED_EVICTABLE, []).jobs["default/a"].tasks())
    tiers = [[lambda context, candidates: candidates[:3]], [lambda context, candidates: candidates[1:]]]
    session = session_with(UNIFIED_EVICTABLE, tiers)

    assert session.ask(UNIFIED_EVICTABLE, "context", tasks) == tasks[1:3]


def test_a_plugin_may_choose_among_the_candidates_and_leave_it_to_the_score() -> None:
    world = World(
        [node(f"n{i}", "9c") for i in range(3)], group("g", minimum=2), [pod(f"p{i}", "1c", "g") for i in (0, 1)]
    )
    choices = iter([2, None])
    registry._plugins["chooser"] = _fake("chooser", BEST_NODE, lambda cls, rows, scores: next(choices))

    world.run(Configuration(("enqueue", "allocate"), ((PluginOption("gang"), PluginOption("chooser")),)))

    assert sorted(world.bound.values()) == ["n0", "n2"]


@pytest.mark.parametrize("reads", [lambda session: session.now, lambda session: session.external_calls])
def test_a_session_notes_whether_its_decisions_may_depend_on_time(reads: Callable[[Session], object]) -> None:
    session = session_with(OVERUSED, [])
    assert not session.read_time
    reads(session)
    assert session.read_time
