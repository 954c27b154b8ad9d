"""PluginFunctions of plugins are found by extension point."""

import sys
from typing import ClassVar

import pytest

from scheduler.api.job import Job
from scheduler.api.queue import Queue
from scheduler.api.task import TaskClass
from scheduler.framework import registry
from scheduler.framework.arguments import Arguments
from scheduler.framework.combining import PluginFunctions
from scheduler.framework.extension import JOB_ORDER
from scheduler.framework.plugin_session import PluginSession
from tests.builders import World, configuration, group, node, pod


def test_a_function_that_is_added_after_a_point_was_asked_is_asked_as_well() -> None:
    functions = PluginFunctions(2)
    functions.insert(JOB_ORDER, 1, lambda job: "second", "fake")
    assert functions.ask(JOB_ORDER, None) == ("second",)
    functions.insert(JOB_ORDER, 0, lambda job: "first", "fake")
    assert functions.ask(JOB_ORDER, None) == ("first", "second")


def test_the_question_of_an_action_reaches_a_plugin_in_two_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    callers: list[list[str]] = []

    class Asked:
        name: ClassVar[str] = "asked"

        def __init__(self, arguments: Arguments) -> None:
            del arguments

        def open(self, session: PluginSession) -> None:
            session.add_allocatable(self._room)

        def _room(self, queue: Queue, job: Job, cls: TaskClass) -> int:
            frame, names = sys._getframe(1), []
            while "/actions/" not in frame.f_code.co_filename:
                names.append(frame.f_code.co_name)
                assert frame.f_back is not None
                frame = frame.f_back
            callers.append(names)
            return 9

    monkeypatch.setitem(registry._plugins, "asked", Asked)
    World(node("n"), group("g"), pod("p", "1c", "g")).run(configuration(["gang", "asked"]))
    assert callers == [["ask", "allocatable"]]
