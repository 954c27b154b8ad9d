"""All tasks, the indices that follow every change of a task, and the writes of tasks that are in flight."""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec.structs import replace as copy_with

from scheduler.api.decisions import Bind
from scheduler.api.selectors import Label
from scheduler.api.task import Task, TaskStatus
from scheduler.cache.job_table import JobTable
from scheduler.cache.node_table import NodeTable
from scheduler.cache.pod_tasks import PodPosition, holds_node
from scheduler.cache.task_classes import DeviceClaims
from scheduler.cache.tasks_without_queue import TasksWithoutQueueTable
from scheduler.cache.versioning import SnapshotDict, Version

_LABELS: Final = 4096
"""Number of labels of a namespace up to which none are dropped."""


class InFlightWrites:
    """Evictions and preparations that are assumed and not confirmed by the watch yet, by uid of the task.

    A binding in flight needs no entry: its task has the status Binding.
    """

    def __init__(self) -> None:
        self._evicting: dict[str, TaskStatus] = {}
        """Status of the Pod as last watched."""
        self._preparing: dict[str, Bind] = {}
        """Bindings whose preparations (writes of other objects) have not finished."""

    def add_eviction(self, task: Task) -> None:
        self._evicting[task.uid] = task.status

    def cancel_eviction(self, uid: str) -> TaskStatus | None:
        """Removes a failed eviction. Returns the status of the Pod as last watched, or None if it was not evicted."""
        return self._evicting.pop(uid, None)

    def is_evicting(self, uid: str) -> bool:
        return uid in self._evicting

    def add_preparation(self, bind: Bind) -> None:
        self._preparing[bind.task.uid] = bind

    def preparing(self) -> tuple[Bind, ...]:
        """The bindings whose preparations have not finished."""
        return tuple(self._preparing.values())

    def replace(self, old: Task | None, new: Task | None) -> None:
        """Drops entries that ended: ``new`` replaces the task ``old``. None: the task was added or removed."""
        if old is None:
            return
        if old.uid in self._preparing and (new is None or new.status is not TaskStatus.BINDING):
            del self._preparing[old.uid]
        if new is None:
            self._evicting.pop(old.uid, None)

    def assumed_state(self, watched: PodPosition, old: Task | None) -> PodPosition:
        """The state of a Pod: a write in flight counts as done until the watch shows its result or a later state.

        ``watched``: the state that the watch shows. ``old``: the task of the Pod so far.
        """
        if old is not None and old.status is TaskStatus.BINDING and watched.status is TaskStatus.PENDING:
            return PodPosition(old.status, old.node, old.annotations)
        if old is not None and old.uid in self._evicting:
            if watched.status in (TaskStatus.BOUND, TaskStatus.RUNNING):
                self._evicting[old.uid] = watched.status
                return watched._replace(status=TaskStatus.RELEASING)
            del self._evicting[old.uid]
        return watched


class Labels:
    """The labels of the tasks of one namespace, and some that they had before."""

    def __init__(self) -> None:
        self._found: set[Label] = set()
        self._limit = _LABELS
        """Number of labels at which the labels of former tasks are dropped."""

    def add(self, labels: Mapping[str, str], tasks: Collection[Task]) -> None:
        """``tasks``: all tasks of the namespace."""
        self._found.update(labels.items())
        if len(self._found) > self._limit:
            self._found = {label for task in tasks for label in task.labels.items()}
            self._limit = max(_LABELS, 2 * len(self._found))

    def include(self, labels: Collection[Label]) -> bool:
        """Whether all of these are among them."""
        return self._found.issuperset(labels)


class TaskTable:
    """The tasks of all Pods that are in a job or on a node."""

    def __init__(
        self,
        version: Version,
        nodes: NodeTable,
        jobs: JobTable,
        device_claims: DeviceClaims,
        in_flight: InFlightWrites,
        without_queue: TasksWithoutQueueTable,
    ) -> None:
        self.version = version
        self._nodes = nodes
        self.jobs = jobs
        self.device_claims = device_claims
        self.in_flight = in_flight
        self._without_queue = without_queue
        self._tasks: dict[str, dict[str, Task]] = {}
        """Namespace -> name -> task."""
        self._labels: dict[str, Labels] = {}
        """Namespace -> labels of its tasks."""
        self._without_job: SnapshotDict[Task] = SnapshotDict()
        """Tasks on nodes that belong to no job."""
        self._borrowed = False
        """Another table has the same tasks, so none is changed in place."""

    def borrow(self) -> None:
        """Declares this table a copy that has its tasks in common with the original."""
        self._borrowed = True

    def get(self, namespace: str, name: str) -> Task | None:
        tasks = self._tasks.get(namespace)
        return None if tasks is None else tasks.get(name)

    def by_key(self, key: str) -> Task | None:
        """The task of a Pod, by ``namespace/name``."""
        namespace, _, name = key.partition("/")
        return self.get(namespace, name)

    def current(self, task: Task) -> Task | None:
        """The present version of a task, or None if its Pod was deleted (and perhaps replaced under its name)."""
        current = self.get(task.namespace, task.name)
        return current if current is not None and current.uid == task.uid else None

    def values(self) -> list[Task]:
        return [task for tasks in self._tasks.values() for task in tasks.values()]

    def may_have(self, namespace: str, labels: Collection[Label]) -> bool:
        """Whether a task of a namespace may have all of these labels. Labels of former tasks count for some time."""
        known = self._labels.get(namespace)
        return known is not None and known.include(labels)

    def with_labels(self, namespace: str, labels: AbstractSet[Label] | None) -> list[Task]:
        """The tasks of a namespace that have one of these labels; None: all of its tasks."""
        tasks = self._tasks.get(namespace)
        if tasks is None:
            return []
        if labels is None:
            return list(tasks.values())
        return [task for task in tasks.values() if not labels.isdisjoint(task.labels.items())]

    def without_job(self) -> Collection[Task]:
        """The tasks on nodes that belong to no job. The cache does not change the collection afterwards."""
        return self._without_job.read().values()

    def replace(self, old: Task | None, new: Task | None) -> None:
        """Replaces a task by its new version in all indices. ``old`` is None for a new task, ``new`` for a removed
        one."""
        if old is not None or (new is not None and new.device_claims):
            self.device_claims.replace(old, new)
            self.in_flight.replace(old, new)
        before = old if old is not None and holds_node(old) else None
        after = new if new is not None and holds_node(new) else None
        self._nodes.replace(before, after)
        if before is not None and not before.job:
            self._without_job.pop(before.key)
            self._without_queue.remove(before)
        if after is not None and not after.job:
            self._without_job[after.key] = after
            self._without_queue.add(after)
        if old is not None and old.job and (new is None or new.job != old.job or new.uid != old.uid):
            self.jobs.remove_task(old)
        if new is not None:
            tasks = self._tasks.get(new.namespace)
            if tasks is None:
                tasks = self._tasks[new.namespace] = {}
                self._labels[new.namespace] = Labels()
            tasks[new.name] = new
            if new.labels and (old is None or old.labels is not new.labels):
                self._labels[new.namespace].add(new.labels, tasks.values())
            if new.job:
                self.jobs.add_task(new)
        elif old is not None:
            tasks = self._tasks[old.namespace]
            del tasks[old.name]
            if not tasks:
                del self._tasks[old.namespace], self._labels[old.namespace]
        self.version.increment()

    def set_message(self, task: Task, message: str, nominated: str) -> None:
        """Sets why a pending task is not scheduled. ``nominated``: its nominated node; "": unchanged."""
        nominated = nominated or task.nominated
        if self._borrowed:
            self.replace(task, copy_with(task, message=message, nominated=nominated))
        else:
            task.message, task.nominated = message, nominated
            self.jobs.messages_changed(task.job)
