"""The action shuffle evicts the Pods that plugins name, except Pods that the system needs."""

from collections.abc import Callable, Sequence
from typing import ClassVar

import pytest

from scheduler.api.task import Task
from scheduler.framework import registry
from scheduler.framework.arguments import Arguments
from scheduler.framework.plugin_session import PluginSession
from tests.builders import World, configuration, group, node, pod, pods, queue


def names(function: Callable[[Sequence[Task]], list[Task]]) -> None:
    """A plugin ``namer`` that names victims."""

    class Namer:
        name: ClassVar[str] = "namer"

        def __init__(self, arguments: Arguments) -> None:
            del arguments

        def open(self, session: PluginSession) -> None:
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


def two_queues(here: str = "n1") -> World:
    """The queue low has no more than it deserves, high has two cpus more; ``here``: the node of its Pods."""
    queues = [queue("low", deserved="2c"), queue("high", deserved="1c")]
    preemptable = {"volcano.sh/preemptable": "true"}
    groups = [group(name, name, 0, phase="Running") for name in ("low", "high")]
    low = pods("low", 2, "1c", "low", on="n1", annotations=preemptable)
    high = pods("high", 3, "1c", "high", on=here, annotations=preemptable)
    return World(node("n1", "9c"), node("n2", "9c"), queues, groups, low, high)


QUOTA = configuration(["capacity"], ["namer"], actions="shuffle")


def test_a_queue_keeps_what_it_deserves_while_another_one_can_give_on_the_node() -> None:
    names(list)
    world = two_queues().run(QUOTA)
    assert world.evicted == {"high-0", "high-1", "high-2"}
    assert two_queues().run(configuration(["namer"], actions="shuffle")).evicted > {"low-0", "low-1"}


def test_plugins_name_others_instead_of_tasks_that_stay() -> None:
    names(lambda candidates: list(candidates[:1]))
    assert two_queues().run(QUOTA).evicted == {"high-0"}


def test_a_queue_loses_what_it_deserves_where_no_other_queue_can_give() -> None:
    names(list)
    assert two_queues(here="n2").run(QUOTA).evicted == {"low-0", "low-1", "high-0", "high-1", "high-2"}


@pytest.mark.parametrize("quota", ["capacity", "proportion", "capacity-card"])
def test_pods_of_a_queue_that_does_not_exist_are_evicted_like_others(quota: str) -> None:
    names(list)
    world = World(
        node("n1", "9c"), queue("a"), group("g", "gone", 0, phase="Running"), pods("p", 2, "1c", "g", on="n1")
    )
    world.run(configuration([quota], ["namer"], actions="shuffle"))
    assert world.evicted == {"p-0", "p-1"}


def test_without_a_plugin_that_names_victims_no_task_is_evicted() -> None:
    assert world().run(configuration(["gang"], actions="shuffle")).evicted == set()
