"""Pending tasks are taken in runs of equal tasks."""

from collections.abc import Iterable
from typing import Any

from scheduler.actions.placement.placer import PendingTasks, waiting_tasks
from scheduler.api.task import Task
from tests.builders import World, configuration, group, node, pods


class Reads(list[Task]):
    """A sequence of tasks that records the positions that are read, also in slices."""

    def __init__(self, tasks: Iterable[Task], reads: list[int]) -> None:
        super().__init__(tasks)
        self._reads = reads

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return Reads(super().__getitem__(place), self._reads)
        self._reads.append(place)
        return super().__getitem__(place)


def tasks_of(*objects: Any) -> list[Task]:
    session = World(node("n"), group("g"), *objects).session(configuration(["gang"]))
    return sorted(waiting_tasks(session.jobs["default/g"]), key=lambda task: task.name)


def test_a_run_ends_where_the_class_changes() -> None:
    pending = PendingTasks(tasks_of(pods("a", 2, "1c", "g"), pods("b", 3, "2c", "g")))
    runs = []
    while pending:
        runs.append([task.name for task in pending.run()])
        pending.take(len(runs[-1]))
    assert runs == [["a-0", "a-1"], ["b-0", "b-1", "b-2"]]


def test_a_run_that_is_taken_task_by_task_is_compared_once() -> None:
    reads: list[int] = []
    tasks = tasks_of(pods("a", 20, "1c", "g"), pods("b", 2, "2c", "g"))
    pending, sizes = PendingTasks(Reads(tasks, reads)), []
    while pending:
        sizes.append(len(pending.run()))
        pending.take(1)
    assert sizes == [*range(20, 0, -1), 2, 1]
    assert len(reads) < 4 * len(tasks)


def test_a_copy_does_not_compare_a_known_run_again() -> None:
    reads: list[int] = []
    pending = PendingTasks(Reads(tasks_of(pods("a", 20, "1c", "g"), pods("b", 2, "2c", "g")), reads))
    pending.run()
    pending.take(1)
    reads.clear()
    assert (len(pending.copy().run()), reads) == (19, [])
    pending.take(19)
    assert [len(pending.copy().run()), len(pending.copy().remaining())] == [2, 2]
