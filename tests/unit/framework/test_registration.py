"""The functions that plugins may register: functions receive the objects on which they may depend, and other functions
are refused."""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from scheduler.api.job import Job
from scheduler.api.queue import Queue
from scheduler.api.reasons import Refusal
from scheduler.api.task import Task, TaskClass
from scheduler.framework import registry
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import MaskFilter, StaticScore
from scheduler.framework.extension import FLAGS, JOB_VALID, POINTS
from scheduler.framework.failures import PluginError, RegistrationError
from scheduler.framework.plugin_session import PluginSession
from tests.builders import World, configuration, group, hyper_node, node, pod, queue
from tests.unit.framework.fake_plugin import Opening, fake_plugin


def two_queues() -> World:
    """Two queues, each with a job; the Pods of both jobs are of one class."""
    jobs = [[group(f"g-{name}", name), pod(f"p-{name}", "1c", f"g-{name}")] for name in ("red", "blue")]
    return World(node("n-blue"), node("n-red"), queue("red"), queue("blue"), *jobs)


def named_like(session: PluginSession, colour: str) -> MaskFilter:
    return MaskFilter(np.array([name.endswith(colour) for name in session.nodes.names]), f"node(s) were not {colour}")


# --- what a function may depend on ---
def test_a_filter_by_queue_is_asked_for_each_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    def opening(session: PluginSession) -> None:
        def filters(cls: TaskClass, queue: Queue) -> list[MaskFilter]:
            return [named_like(session, queue.name)]

        session.add_filter(filters, per_queue=True)

    assert two_queues().run(fake_plugin(opening, monkeypatch)).bound == {"p-red": "n-red", "p-blue": "n-blue"}


def test_a_filter_by_a_part_of_the_queue_is_given_that_part(monkeypatch: pytest.MonkeyPatch) -> None:
    def opening(session: PluginSession) -> None:
        session.add_filter(lambda cls, colour: [named_like(session, colour)], per_queue=lambda queue: queue.name)

    assert two_queues().run(fake_plugin(opening, monkeypatch)).bound == {"p-red": "n-red", "p-blue": "n-blue"}


def test_a_score_by_job_is_asked_for_each_job(monkeypatch: pytest.MonkeyPatch) -> None:
    def opening(session: PluginSession) -> None:
        def scores(cls: TaskClass, job: Job) -> list[StaticScore]:
            wanted = job.name.removeprefix("g-")
            return [StaticScore(np.array([9.0 * name.endswith(wanted) for name in session.nodes.names]))]

        session.add_score(scores, per_job=True)

    assert two_queues().run(fake_plugin(opening, monkeypatch)).bound == {"p-red": "n-red", "p-blue": "n-blue"}


@pytest.mark.parametrize(
    ("key", "calls"), [({}, 1), ({"per_queue": lambda queue: queue.weight}, 1), ({"per_job": True}, 2)]
)
def test_an_answer_is_kept_for_all_jobs_with_equal_keys(
    key: dict[str, Any], calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def opening(session: PluginSession) -> None:
        def alone(cls: TaskClass) -> list[Any]:
            asked.append(cls)
            return []

        def keyed(cls: TaskClass, value: object) -> list[Any]:
            asked.append(value)
            return []

        session.add_filter(keyed if key else alone, **key)

    two_queues().run(fake_plugin(opening, monkeypatch))
    assert len(asked) == calls


def test_a_filter_and_a_score_do_not_see_whose_tasks_are_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def opening(session: PluginSession) -> None:
        def answers(cls: TaskClass) -> list[Any]:
            seen.append(session.placing)
            return []

        session.add_filter(answers)
        session.add_score(answers)

    topology = {"mode": "hard", "highestTierAllowed": 1}
    world = World(node("n"), hyper_node("h", 1, "n"), group("g", networkTopology=topology), pod("p", "1c", "g"))
    fake_plugin(opening, monkeypatch)
    assert world.run(configuration(["gang", "fake", "network-topology-aware"])).bound
    assert set(seen) == {None}


# --- what is refused ---
def refused(opening: Opening, monkeypatch: pytest.MonkeyPatch) -> str:
    with pytest.raises(RegistrationError) as raised:
        two_queues().session(fake_plugin(opening, monkeypatch))
    return str(raised.value)


def test_a_filter_that_wants_the_job_without_saying_so_is_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def by_job(cls: TaskClass, job: Job) -> list[MaskFilter]:
        return []

    message = refused(lambda session: session.add_filter(by_job), monkeypatch)  # type: ignore[arg-type]
    assert message.startswith("plugin fake: Filter: function ")
    assert "by_job(cls: " in message and "missing a required argument: 'job'" in message
    assert "per_queue=True or per_job=True" in message


@pytest.mark.parametrize(("key", "wanted"), [({"per_queue": True}, "Job"), ({"per_job": True}, "Queue")])
def test_a_score_that_is_given_a_queue_and_wants_a_job_is_refused(
    key: dict[str, Any], wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def by_job(cls: TaskClass, what: Job) -> list[StaticScore]:
        return []

    def by_queue(cls: TaskClass, what: "Queue") -> list[StaticScore]:
        return []

    function = by_job if wanted == "Job" else by_queue
    message = refused(lambda session: session.add_score(function, **key), monkeypatch)
    assert message.startswith("plugin fake: Score: function ") and f"parameter what is a {wanted}" in message


@pytest.mark.parametrize(
    ("opening", "problem"),
    [
        (lambda s: s.add_allocatable(lambda cls, job, queue: 1), "parameter cls would receive a Queue"),
        (lambda s: s.add_allocatable_now(lambda queue, cls, job: 1), "parameter cls would receive a Job"),
        (lambda s: s.add_filter(lambda job: []), "parameter job would receive a TaskClass"),
        (lambda s: s.add_score(lambda cls, queue: [], per_job=True), "parameter queue would receive a Job"),
        (lambda s: s.add_job_order(lambda task: 1), "parameter task would receive a Job"),
    ],
)
def test_a_parameter_that_is_named_like_something_else_is_refused(
    opening: Opening, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert problem in refused(opening, monkeypatch)


def test_a_parameter_of_any_other_name_or_with_the_right_annotation_is_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def room(job: Queue, queue: Job, cls: TaskClass) -> int:
        return 9

    def opening(session: PluginSession) -> None:
        session.add_allocatable(room)
        session.add_allocatable(lambda q, j, c: 9)

    assert two_queues().run(fake_plugin(opening, monkeypatch)).bound


# --- a quota without a reason ---
def test_a_quota_that_gives_no_reason_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    conf = fake_plugin(lambda s: s.add_allocatable(lambda queue, job, cls: 0), monkeypatch)
    world = two_queues().run(conf)
    reason = "plugin fake allows no more of these Pods in queue red, and gives no reason"
    assert world.refusals("g-red") == [reason]
    assert reason in world.waiting["p-red"]
    assert set(world.events("NotAllocatable")) == {reason, reason.replace("red", "blue")}


def test_a_quota_that_lets_no_pod_start_beside_terminating_ones_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    conf = fake_plugin(lambda s: s.add_allocatable_now(lambda queue, job, cls: 0), monkeypatch)
    world = two_queues().run(conf)
    assert world.bound == {}
    assert world.refusals("g-red") == [
        "plugin fake allows no more of these Pods in queue red while others terminate, and gives no reason"
    ]


def test_a_quota_with_a_reason_has_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def opening(session: PluginSession) -> None:
        def room(queue: Queue, job: Job, cls: TaskClass) -> int:
            session.refuse(job, Refusal("Full", f"queue {queue.name} is full"))
            return 0

        session.add_allocatable(lambda queue, job, cls: 9)
        session.add_allocatable(room)

    assert set(two_queues().run(fake_plugin(opening, monkeypatch)).refusals("g-red")) == {"queue red is full"}


@pytest.mark.parametrize(
    ("methods", "problem"),
    [
        ({}, "Odd has no method open(session)"),
        ({"open": None}, "Odd has no method open(session)"),
        (
            {"open": lambda self, session: None, "__init__": lambda self: None},
            "Odd(arguments) cannot be called: too many positional arguments",
        ),
        (
            {"open": lambda self: None, "__init__": lambda self, arguments: None},
            "Odd.open(session) cannot be called: too many positional arguments",
        ),
    ],
)
def test_a_class_that_no_session_could_open_is_refused(methods: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        registry.register_plugin(type("Odd", (), {"name": "odd", **methods}))
    assert registry.plugin("odd") is None


def test_an_action_without_execute_is_refused() -> None:
    odd = type("Odd", (), {"name": "odd", "__init__": lambda self, arguments: None})
    with pytest.raises(ValueError, match=re.escape("Odd has no method execute(session)")):
        registry.register_action(odd)


def test_a_key_that_takes_the_wrong_thing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(job: Job) -> str:
        return job.name

    message = refused(
        lambda session: session.add_filter(lambda cls, name: [], per_queue=key),  # type: ignore[arg-type]
        monkeypatch,
    )
    assert message.startswith("plugin fake: Filter key: function ") and "parameter job is a Job" in message


def test_a_key_with_a_value_that_cannot_be_kept_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def opening(session: PluginSession) -> None:
        session.add_filter(lambda cls, names: [], per_job=lambda job: [job.name])  # type: ignore[type-var]

    with pytest.raises(PluginError, match=r"plugin fake: Filter: per_queue or per_job returned .*unhashable"):
        two_queues().run(fake_plugin(opening, monkeypatch))


def test_queue_and_job_are_not_given_together(monkeypatch: pytest.MonkeyPatch) -> None:
    def opening(session: PluginSession) -> None:
        session.add_filter(lambda cls, what: [], per_queue=True, per_job=True)  # type: ignore[call-overload]

    assert "per_queue and per_job were both given" in refused(opening, monkeypatch)


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name)
def test_a_function_with_a_parameter_too_many_is_refused_at_every_point(
    point: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = ", ".join(f"a{i}" for i in range(len(point.takes) + 1))
    function = eval(f"lambda {parameters}: None")
    message = refused(lambda session: getattr(session, point.method)(function), monkeypatch)
    assert message.startswith(f"plugin fake: {point.name}: function ")


@pytest.mark.parametrize(
    "function",
    [
        lambda job: None,
        lambda *anything: None,
        lambda job, extra=1: None,
        functools.partial(lambda extra, job: None, 1),
        {}.get,
    ],
)
def test_whatever_can_be_called_with_what_is_given_is_taken(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    two_queues().session(fake_plugin(lambda session: session.add_job_valid(function), monkeypatch))


def test_handlers_are_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def opening(session: PluginSession) -> None:
        session.add_handlers(lambda job, tasks, rows: None, lambda job, tasks, rows: None)  # type: ignore[arg-type]

    assert refused(opening, monkeypatch).startswith("plugin fake: Allocate: function ")


def test_a_function_that_a_flag_switches_off_is_checked_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    off = configuration({"fake": dict.fromkeys(FLAGS, False)})
    fake_plugin(lambda session: session.add_filter(lambda cls, job: []), monkeypatch)  # type: ignore[arg-type, misc]
    with pytest.raises(RegistrationError):
        two_queues().session(off)
    fake_plugin(lambda session: session.add_filter(lambda cls: []), monkeypatch)
    assert not any(two_queues().session(off).functions(JOB_VALID))


# --- victims ---
@pytest.mark.parametrize(("by_demand", "asked"), [(False, ["default/g0", "default/g1"]), (True, ["default/g0"])])
def test_victims_are_asked_for_again_for_an_equal_task_unless_the_plugin_answers_by_demand(
    by_demand: bool, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    preemptors: list[str] = []

    def victims(preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        preemptors.append(preemptor.job)
        return []

    fake_plugin(lambda session: session.add_preemptable(victims, by_demand=by_demand), monkeypatch)
    off = {"enablePreemptable": False}
    tier = {"gang": off, "priority": off, "fake": {}}
    World(
        node("n", "2c"),
        [group("low"), pod("l", "2c", "low", on="n", priority=1, preemptable=True)],
        *([group(f"g{i}"), pod(f"p{i}", "2c", f"g{i}", priority=9)] for i in range(2)),
    ).run(configuration(tier, actions="enqueue, allocate, preempt"))
    assert preemptors == asked


# --- classes ---
@pytest.mark.parametrize("name", [None, "", 3])
def test_a_plugin_without_a_name_is_not_registered(name: object) -> None:
    with pytest.raises(ValueError, match="not the name of a plugin"):
        registry.register_plugin(type("Nameless", (), {"name": name}))


def test_a_refusal_of_arguments_that_raises_refuses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusal(arguments: Arguments) -> str:
        raise KeyError("limit")

    monkeypatch.setitem(registry._plugins, "fake", type("Fake", (), {"name": "fake", "refusal": staticmethod(refusal)}))
    assert registry.refusal("fake", {}) == "its refusal() raised KeyError: 'limit'"
