"""A session's decisions, taken as carried out until the watch confirms them or a failure takes them back."""

from dataclasses import replace

from scheduler.api.binding_record import device_annotations
from scheduler.api.decisions import Bind, Decisions, Evict, PodUnschedulable
from scheduler.api.task import TaskStatus
from scheduler.cache.job_table import JobTable
from scheduler.cache.outstanding import Outstanding
from scheduler.cache.pod_intake import PodIntake
from scheduler.cache.queue_table import QueueTable
from scheduler.cache.task_table import TaskTable


class Assumptions:
    """Makes tasks, jobs and queues what decisions say."""

    def __init__(
        self, tasks: TaskTable, pods: PodIntake, jobs: JobTable, queues: QueueTable, outstanding: Outstanding
    ) -> None:
        self._tasks = tasks
        self._pods = pods
        self._jobs = jobs
        self._queues = queues
        self._outstanding = outstanding

    def assume(self, decisions: Decisions) -> None:
        """Take decisions as carried out. What has vanished or changed meanwhile is passed over."""
        for bind in decisions.binds:
            self._bind(bind)
        for eviction in decisions.evictions:
            self._evict(eviction)
        for update in decisions.pod_groups:
            self._jobs.assume(update)
        for pod in decisions.pods:
            task = self._tasks.current(pod.task)
            if task is not None:
                self._tasks.inform(task, pod.message, pod.nominated)
        for told in decisions.queues:
            self._queues.assume(told)

    def _bind(self, bind: Bind) -> None:
        task = self._tasks.current(bind.task)
        if task is not None and task.status is TaskStatus.PENDING:
            held = device_annotations(bind.annotations)
            bound = task.copy()
            bound.status, bound.node, bound.annotations, bound.record = TaskStatus.BINDING, bind.node, held, bind.record
            self._tasks.swap(task, bound)
            if bind.preparations:
                self._outstanding.prepare(bind)

    def _evict(self, eviction: Evict) -> None:
        task = self._tasks.current(eviction.task)
        if task is not None and task.node and task.status is not TaskStatus.RELEASING:
            self._outstanding.evict(task)
            self._tasks.swap(task, replace(task, status=TaskStatus.RELEASING))

    def bind_failed(self, bind: Bind) -> None:
        """A binding did not come about: the task is pending again and gives its place back."""
        task = self._tasks.current(bind.task)
        if task is not None and task.status is TaskStatus.BINDING and task.node == bind.node:
            cls = self._pods.class_by_demands(task)
            freed = replace(task, status=TaskStatus.PENDING, node="", annotations={}, cls=cls, record=None)
            self._tasks.swap(task, freed)

    def evict_failed(self, eviction: Evict) -> None:
        """An eviction did not come about: the task stays where it is."""
        task = self._tasks.current(eviction.task)
        status = self._outstanding.spare(task.uid) if task is not None else None
        if task is not None and status is not None:
            self._tasks.swap(task, replace(task, status=status))

    def awaits(self, bind: Bind) -> bool:
        """Whether a binding is still to come about."""
        task = self._tasks.current(bind.task)
        return task is not None and task.status is TaskStatus.BINDING and task.node == bind.node

    def standing(self) -> Decisions:
        """What is assumed at present, seen by the watch or not, as decisions that would bring it about."""
        tasks = self._tasks.values()
        return Decisions(
            binds=[Bind(t, t.node, t.annotations, record=t.record) for t in tasks if t.status is TaskStatus.BINDING],
            evictions=[Evict(t, "") for t in tasks if self._outstanding.evicting(t.uid)],
            pod_groups=self._jobs.statuses(),
            pods=[PodUnschedulable(t, "", t.message, t.nominated) for t in tasks if t.message or t.nominated],
            queues=self._queues.allocations(),
        )
