"""shuffle: what plugins name is evicted, but for what the system needs."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from scheduler.api.task import Task
from scheduler.framework import registry
from scheduler.framework.arguments import Arguments
from scheduler.framework.session import Session
from tests.builders import World, configuration, group, node, pod, pods


def names(function: Callable[[Sequence[Task]], list[Task]]) -> None:
    """A plugin ``namer`` that names victims."""

    class Namer:
        name: ClassVar[str] = "namer"

        def __init__(self, arguments: Arguments) -> None:
            del arguments

        def open(self, session: Session) -> None:
            session.add_victim_tasks(function)

    registry.register_plugin(Namer)


def world() -> World:
    critical = pod("critical", "1c", "a", on="n1", priorityClassName="system-node-critical")
    bound = pod("bound", "1c", "a", on="n1", phase="Pending")
    return World(node("n1", "9c"), group("a"), pods("p", 3, "1c", "a", on="n1"), critical, bound)


def test_running_pods_that_a_plugin_names_are_evicted() -> None:
    names(lambda candidates: [task for task in candidates if task.name != "p-1"])
    ran = world().run(configuration(["namer"], actions="shuffle"))
    assert ran.evicted == {"p-0", "p-2", "critical"}
    assert set(ran.events("Evict")) == {"Pod is evicted, because of shuffle"}


def test_system_critical_pods_stay_under_conformance() -> None:
    names(list)
    assert world().run(configuration(["namer", "conformance"], actions="shuffle")).evicted == {"p-0", "p-1", "p-2"}


def test_without_a_plugin_that_names_victims_no_task_is_evicted() -> None:
    assert world().run(configuration(["gang"], actions="shuffle")).evicted == set()
