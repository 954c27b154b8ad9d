"""An exception in a plugin names the plugin, the extension point and the object; its cycle decides nothing."""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest

from scheduler.api.job import Job
from scheduler.api.node import Rows
from scheduler.api.queue import Queue
from scheduler.api.reasons import Refusal
from scheduler.api.task import Task, TaskClass
from scheduler.framework import registry
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import Counts, Scope
from scheduler.framework.extension import Vote
from scheduler.framework.failures import PluginError
from scheduler.framework.session import Session
from tests.builders import World, configuration, group, node, pod, queue
from tests.unit.framework.fake_plugin import Opening, fake_plugin


def boom(*_: object) -> Any:
    raise KeyError("boom")


class Broken:
    """A Filter that raises."""

    scope = Scope.NODE
    unresolvable = False

    def room(self, rows: Rows) -> Counts:
        raise KeyError("boom")

    def reasons(self, rows: Rows) -> list[tuple[str, int]]:
        return []


class BrokenScore:
    scope = Scope.STATIC

    def values(self, rows: Rows, ahead: Counts | None) -> np.ndarray[Any, Any]:
        raise KeyError("boom")


def error_of(opening: Opening, monkeypatch: pytest.MonkeyPatch) -> PluginError:
    """What a cycle raises with a plugin that registers so; the job is ``default/g`` in queue ``q``, with Pod ``p``."""
    conf = fake_plugin(opening, monkeypatch)
    world = World(node("n1"), node("n2"), queue("q"), group("g", "q", asks="1c"), pod("p", "1c", "g"))
    with pytest.raises(PluginError) as raised:
        world.run(conf)
    assert isinstance(raised.value.__cause__, KeyError)
    return raised.value


def _valid(job: Job) -> None:
    raise KeyError("boom")


def _room(queue: Queue, job: Job, cls: TaskClass) -> int:
    raise KeyError("boom")


def _enqueueable(job: Job) -> Vote:
    raise KeyError("boom")


def _filters(cls: TaskClass) -> list[Any]:
    raise KeyError("boom")


def _overused(queue: Queue) -> None:
    raise KeyError("boom")


def _annotations(task: Task, row: int) -> dict[str, str]:
    raise KeyError("boom")


def _task_key(task: Task) -> int:
    raise KeyError("boom")


def _allocate(job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
    raise KeyError("boom")


@pytest.mark.parametrize(
    ("opening", "expected", "kind"),
    [
        (lambda s: s.add_job_valid(_valid), "JobValid (about job default/g)", "PodGroup"),
        (lambda s: s.add_job_valid(partial(boom, 1)), "JobValid (about job default/g)", "PodGroup"),
        (lambda s: s.add_job_enqueueable(_enqueueable), "JobEnqueueable (about job default/g)", "PodGroup"),
        (lambda s: s.add_allocatable(_room), "Allocatable (about Pod default/p, job default/g)", "Pod"),
        (lambda s: s.add_overused(_overused), "Overused (about queue q)", "Queue"),
        (lambda s: s.add_filter(_filters), "Filter (about Pod default/p, job default/g)", "Pod"),
        (lambda s: s.add_filter(lambda cls, queue: boom(), per_queue=True), "Filter (about Pod default/p", "Pod"),
        (lambda s: s.add_filter(lambda cls, key: [], per_job=boom), "Filter key (about Pod default/p", "Pod"),
        (lambda s: s.add_filter(lambda cls: [Broken()]), "Filter (Broken.room) (about Pod default/p", "Pod"),
        (lambda s: s.add_score(lambda cls: [BrokenScore()]), "Score (BrokenScore.values) (about Pod", "Pod"),
        (lambda s: s.add_task_order(_task_key), "TaskOrder (about Pod default/p, job default/g)", "Pod"),
        (
            lambda s: s.add_bind_annotations(_annotations),
            "BindAnnotations (about Pod default/p, job default/g, node",
            "Pod",
        ),
        (lambda s: s.add_handlers(_allocate, boom), "Allocate (about Pod default/p, job default/g", "Pod"),
        (lambda s: s.add_close(boom), "Close: KeyError", None),
        (boom, "open: KeyError", None),
    ],
)
def test_an_exception_names_plugin_point_and_object(
    opening: Opening, expected: str, kind: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = error_of(opening, monkeypatch)
    assert str(error).startswith(f"plugin fake: {expected}")
    assert str(error).endswith("KeyError: 'boom'")
    assert (error.about.kind if error.about is not None else None) == kind


def test_of_two_points_of_one_function_the_one_that_was_asked_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def opening(session: Session) -> None:
        session.add_job_pipelined(_enqueueable)
        session.add_job_enqueueable(_enqueueable)

    assert error_of(opening, monkeypatch).point == "JobEnqueueable"


def test_of_two_plugins_the_one_that_raised_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Asking:
        """A plugin whose answer is made from that of others."""

        name: ClassVar[str] = "asking"

        def __init__(self, arguments: Arguments) -> None:
            del arguments

        def open(self, session: Session) -> None:
            def valid(job: Job) -> Refusal | None:
                session.task_key(next(iter(job.tasks())))
                return None

            session.add_job_valid(valid)

    monkeypatch.setitem(registry._plugins, "asking", Asking)
    world = World(node("n1"), group("g"), pod("p", "1c", "g"))

    class Fake(Asking):
        name: ClassVar[str] = "fake"

        def open(self, session: Session) -> None:
            session.add_task_order(_task_key)

    monkeypatch.setitem(registry._plugins, "fake", Fake)
    with pytest.raises(PluginError, match="plugin fake: TaskOrder"):
        world.run(configuration(["asking", "fake"]))


def test_an_exception_in_an_action_names_the_action(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        name: ClassVar[str] = "failing"

        def __init__(self, arguments: Arguments) -> None:
            del arguments

        def execute(self, session: Session) -> None:
            raise ValueError("no")

    monkeypatch.setitem(registry._actions, "failing", Failing)
    with pytest.raises(PluginError, match="action failing: execute: ValueError: no"):
        World(node("n")).run(configuration(["gang"], actions="failing"))
