"""Decisions of sessions, assumed to be carried out until the watch confirms them or a write fails."""

from msgspec.structs import replace

from scheduler.api.decisions import Bind, Decisions, Evict, PodsUnschedulable
from scheduler.api.names import HCCL_RANK_INDEX, PREDICATE_TIME, SUPER_POD_RANK
from scheduler.api.signed_records import device_annotations
from scheduler.api.task import Task, TaskStatus, predicate_time_of
from scheduler.cache.job_table import JobTable
from scheduler.cache.pod_tasks import holds_node
from scheduler.cache.queue_table import QueueTable
from scheduler.cache.task_table import InFlightWrites, TaskTable
from scheduler.cache.task_updater import TaskUpdater


class Assumptions:
    """Applies assumed decisions, and reverts failed ones."""

    def __init__(
        self, tasks: TaskTable, pods: TaskUpdater, jobs: JobTable, queues: QueueTable, in_flight: InFlightWrites
    ) -> None:
        self._tasks = tasks
        self._pods = pods
        self._jobs = jobs
        self._queues = queues
        self._in_flight = in_flight

    def assume(self, decisions: Decisions) -> None:
        """Applies decisions. Those for objects that were deleted or have changed since the snapshot are ignored."""
        for bind in decisions.binds:
            self._bind(bind)
        for eviction in decisions.evictions:
            self._evict(eviction)
        for group in decisions.pod_groups:
            self._jobs.assume(group)
        for update in decisions.pods:
            for each in update.tasks:
                task = self._tasks.current(each)
                if task is not None:
                    self._tasks.set_message(task, update.message, update.nominated)
        for queue in decisions.queues:
            self._queues.assume(queue)

    def _bind(self, bind: Bind) -> None:
        task = self._tasks.current(bind.task)
        if task is not None and task.status is TaskStatus.PENDING:
            devices = device_annotations(bind.annotations)
            bound = replace(
                task,
                status=TaskStatus.BINDING,
                node=bind.node,
                annotations=devices,
                record=bind.record,
                rank=bind.annotations.get(HCCL_RANK_INDEX, task.rank),
                predicate_time=predicate_time_of(bind.annotations) or task.predicate_time,
                super_pod_rank=bind.annotations.get(SUPER_POD_RANK, task.super_pod_rank),
            )
            self._tasks.replace(task, bound)
            if bind.preparations:
                self._in_flight.add_preparation(bind)

    def _evict(self, eviction: Evict) -> None:
        task = self._tasks.current(eviction.task)
        if task is not None and holds_node(task) and task.status is not TaskStatus.RELEASING:
            self._in_flight.add_eviction(task)
            self._tasks.replace(task, replace(task, status=TaskStatus.RELEASING))

    def bind_failed(self, bind: Bind) -> None:
        """Reverts a failed binding: the task is pending again and frees its resources."""
        task = self._tasks.current(bind.task)
        if task is not None and task.status is TaskStatus.BINDING and task.node == bind.node:
            cls = self._pods.class_with_present_claims(task)
            pending = replace(
                task,
                status=TaskStatus.PENDING,
                node="",
                annotations={},
                cls=cls,
                record=None,
                rank=bind.task.rank,
                predicate_time=bind.task.predicate_time,
                super_pod_rank=bind.task.super_pod_rank,
            )
            self._tasks.replace(task, pending)

    def evict_failed(self, eviction: Evict) -> None:
        """Reverts a failed eviction: the task stays on its node."""
        task = self._tasks.current(eviction.task)
        status = self._in_flight.cancel_eviction(task.uid) if task is not None else None
        if task is not None and status is not None:
            self._tasks.replace(task, replace(task, status=status))

    def is_binding(self, bind: Bind) -> bool:
        """Whether a binding is assumed and neither confirmed nor failed yet."""
        task = self._tasks.current(bind.task)
        return task is not None and task.status is TaskStatus.BINDING and task.node == bind.node

    def assumed_decisions(self) -> Decisions:
        """The present assumptions, confirmed by the watch or not, as decisions that would lead to them."""
        tasks = self._tasks.values()
        return Decisions(
            binds=[_bind_of(task) for task in tasks if task.status is TaskStatus.BINDING],
            evictions=[Evict(t, "") for t in tasks if self._in_flight.is_evicting(t.uid)],
            pod_groups=self._jobs.statuses(),
            pods=[PodsUnschedulable((t,), "", t.message, t.nominated) for t in tasks if t.message or t.nominated],
            queues=self._queues.allocations(),
        )


def _bind_of(task: Task) -> Bind:
    """The binding that leads to an assumed task."""
    others = {
        HCCL_RANK_INDEX: task.rank,
        PREDICATE_TIME: task.predicate_time,
        SUPER_POD_RANK: task.super_pod_rank,
    }
    annotations = task.annotations | {key: value for key, value in others.items() if value}
    return Bind(task, task.node, annotations, record=task.record)
