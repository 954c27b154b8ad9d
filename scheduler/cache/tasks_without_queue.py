"""The tasks on nodes that belong to no queue: Pods of other schedulers, and Pods whose PodGroup does not exist.

Groups of tasks and sums of amounts follow every change of a Pod, so that sessions need not walk the tasks.
"""

from collections.abc import Iterable

from scheduler.api.resource import Dimensions
from scheduler.api.snapshot import NamespaceAmounts, TaskGroup, TasksWithoutQueue
from scheduler.api.task import ALLOCATED_STATUSES, Task
from scheduler.cache.versioning import SnapshotDict


class TasksWithoutQueueTable:
    """The tasks, grouped by namespace, owner and class, and the amounts that they hold by namespace.

    Tasks with a binding record are not among them: the record names their queue.
    """

    def __init__(self, dimensions: Dimensions) -> None:
        self._dimensions = dimensions
        self._tasks: dict[str, dict[str, Task]] = {}
        """Key of a group -> uid -> task."""
        self._groups: SnapshotDict[TaskGroup] = SnapshotDict()
        """The groups as of the last ``read``."""
        self._stale: dict[str, None] = {}
        """Keys of the groups that have changed since."""
        self._amounts: SnapshotDict[NamespaceAmounts] = SnapshotDict()

    def add(self, task: Task) -> None:
        """Adds a task on a node."""
        if task.record is None:
            key = _key(task)
            self._tasks.setdefault(key, {})[task.uid] = task
            self._stale[key] = None
            self._count(task, 1)

    def remove(self, task: Task) -> None:
        """Removes a task that was added."""
        if task.record is None:
            key = _key(task)
            tasks = self._tasks[key]
            del tasks[task.uid]
            if not tasks:
                del self._tasks[key]
            self._stale[key] = None
            self._count(task, -1)

    def replace(self, old: Iterable[Task], new: Iterable[Task]) -> None:
        """Removes tasks that were added, and adds others."""
        for task in old:
            self.remove(task)
        for task in new:
            self.add(task)

    def _count(self, task: Task, sign: int) -> None:
        """Adds what a task holds, or removes it (``sign`` -1). Vectors are replaced, because snapshots have them."""
        if task.status not in ALLOCATED_STATUSES:
            return
        fit, amount = self._dimensions.fit, self._dimensions.fit(task.cls.request) * sign
        known = self._amounts.get(task.namespace)
        number = sign if known is None else known.number + sign
        if not number:
            self._amounts.pop(task.namespace)
            return
        allocated = amount if known is None else fit(known.allocated) + amount
        online = self._dimensions.nothing if known is None else fit(known.online)
        self._amounts[task.namespace] = NamespaceAmounts(
            number, allocated, online + amount if task.cls.online else online
        )

    def recount(self) -> None:
        """Computes the amounts again after the set of counted resources has changed."""
        self._amounts = SnapshotDict()
        for tasks in self._tasks.values():
            for task in tasks.values():
                self._count(task, 1)

    def read(self) -> TasksWithoutQueue:
        """The groups and amounts for a snapshot. They do not change afterwards; equal objects mean that nothing has
        changed."""
        for key in self._stale:
            tasks = self._tasks.get(key)
            if tasks is None:
                self._groups.pop(key)
            else:
                first = next(iter(tasks.values()))
                self._groups[key] = TaskGroup(first.namespace, first.owner, first.cls, tuple(tasks.values()))
        self._stale = {}
        return TasksWithoutQueue(self._groups.read(), self._amounts.read())


def _key(task: Task) -> str:
    """The key of the group of a task. A class belongs to one namespace."""
    return f"{task.cls.id} {task.owner}"
