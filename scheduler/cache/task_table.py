"""All tasks, and the indices that every change of one has to reach."""

from collections.abc import Collection
from dataclasses import replace

from scheduler.api.task import Task
from scheduler.cache.device_claims import DeviceClaims
from scheduler.cache.job_table import JobTable
from scheduler.cache.node_table import NodeTable
from scheduler.cache.outstanding import Outstanding
from scheduler.cache.pod_tasks import holds_node
from scheduler.cache.shared import Shared
from scheduler.cache.version import Version


class TaskTable:
    """By ``namespace/name``: the tasks of every Pod that is in a job or on a node."""

    def __init__(
        self, version: Version, nodes: NodeTable, jobs: JobTable, device_claims: DeviceClaims, outstanding: Outstanding
    ) -> None:
        self._version = version
        self._nodes = nodes
        self._jobs = jobs
        self._device_claims = device_claims
        self._outstanding = outstanding
        self._tasks: dict[str, Task] = {}
        self._strangers: Shared[Task] = Shared()
        """Those on nodes that belong to no job."""
        self._borrowed = False
        """The tasks are those of another table as well: none is changed in place."""

    def borrow(self) -> None:
        """This is a copy whose tasks the original has as well."""
        self._borrowed = True

    def get(self, key: str) -> Task | None:
        return self._tasks.get(key)

    def current(self, task: Task) -> Task | None:
        """The present version of a task, or None if its Pod is gone (or another of the same name is there)."""
        current = self._tasks.get(task.key)
        return current if current is not None and current.uid == task.uid else None

    def __contains__(self, key: str) -> bool:
        return key in self._tasks

    def keys(self) -> list[str]:
        return list(self._tasks)

    def values(self) -> list[Task]:
        return list(self._tasks.values())

    def strangers(self) -> Collection[Task]:
        """The tasks on nodes that belong to no job. Not changed under a reader."""
        return self._strangers.read().values()

    def swap(self, old: Task | None, new: Task | None) -> None:
        """Replace a task by its new version (or add, or drop it) in every index."""
        self._device_claims.swap(old, new)
        self._outstanding.swap(old, new)
        before = old if old is not None and holds_node(old) else None
        after = new if new is not None and holds_node(new) else None
        self._nodes.swap(before, after)
        if before is not None and not before.job:
            self._strangers.pop(before.key)
        if after is not None and not after.job:
            self._strangers[after.key] = after
        if old is not None and old.job and (new is None or new.job != old.job or new.uid != old.uid):
            self._jobs.leave(old)
        if new is not None:
            self._tasks[new.key] = new
            if new.job:
                self._jobs.join(new)
        elif old is not None:
            del self._tasks[old.key]
        self._version.grow()

    def inform(self, task: Task, message: str, nominated: str) -> None:
        """The Pod of a task that waits says why. ``nominated``: the node that is made free for it; "": as before."""
        nominated = nominated or task.nominated
        if self._borrowed:
            self.swap(task, replace(task, message=message, nominated=nominated))
        else:
            task.message, task.nominated = message, nominated

    def drop(self, key: str) -> None:
        """A Pod is gone, or does not matter any more."""
        task = self._tasks.get(key)
        if task is not None:
            self.swap(task, None)
