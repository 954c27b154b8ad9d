"""Changes tasks: with watched Pods, with decisions of sessions, and when what splits classes has changed.

Decisions are assumed to be carried out until the watch confirms them or a write fails."""

from collections.abc import Collection
from typing import Final

import numpy as np
from msgspec.structs import replace

from scheduler.api.decisions import Bind, Evict
from scheduler.api.names import BINDING_RECORD, HCCL_RANK_INDEX, SUPER_POD_RANK, TASK_PRIORITY
from scheduler.api.objects import Pod
from scheduler.api.quantity import QuantityError
from scheduler.api.signed_records import BindingRecord, SigningKey, device_annotations, read_binding_record
from scheduler.api.task import PodClaim, Task, TaskClass, TaskStatus, predicate_time_of
from scheduler.cache.malformed_fields import MalformedFields
from scheduler.cache.named_labels import has_one
from scheduler.cache.pod_tasks import (
    PodPosition,
    earlier_devices,
    generated_claims,
    holds_node,
    is_equivalent,
    pod_priority,
    pod_state,
    task_index,
    task_of,
    task_priority,
    uid_of,
)
from scheduler.cache.task_classes import ClassTable
from scheduler.cache.task_table import TaskTable

MIN_CLASS_LIMIT: Final = 4096
"""Number of classes up to which unused ones are not dropped."""


class TaskUpdater:
    """Updates the tasks of a cache."""

    def __init__(
        self, scheduler_names: Collection[str], tasks: TaskTable, classes: ClassTable, malformed: MalformedFields
    ) -> None:
        self._names = frozenset(scheduler_names)
        self._tasks = tasks
        self._jobs = tasks.jobs
        self._device_claims = tasks.device_claims
        self._in_flight = tasks.in_flight
        self._version = tasks.version
        self._classes = classes
        self._selections = classes.selections
        self._malformed = malformed
        self.key: SigningKey | None = None
        """Verifies binding records; without a key no record counts."""
        self._class_limit = MIN_CLASS_LIMIT
        """Number of classes above which ``drop_unused_classes`` drops unused ones."""

    # --- Pods ---
    def upsert(self, pod: Pod) -> None:
        """Stores the task of a Pod. Pods of other schedulers matter only once they are on a node."""
        meta = pod.metadata
        ours = pod.spec.scheduler_name in self._names
        if not ours and not pod.spec.node_name:
            self._remove(self._tasks.get(meta.namespace, meta.name))
            return
        old = self._tasks.get(meta.namespace, meta.name)
        if old is not None and old.uid != uid_of(meta):
            self._remove(old)
            old = None
        try:
            cls = self._class(pod, old)
        except QuantityError as error:
            self._malformed.add("spec.containers[].resources", str(error))
            return
        state = self._in_flight.assumed_state(pod_state(pod), old)
        record, earlier = self._known_devices(pod, old, state) if state.node else (None, ())
        task = task_of(pod, ours, cls, state, self._priority(pod), record, earlier, task_index(pod.spec))
        if old is not None and state.status is TaskStatus.BINDING:
            task.rank, task.predicate_time = old.rank, old.predicate_time
            task.super_pod_rank = old.super_pod_rank
        if old is not None and is_equivalent(old, task):
            old.resource_version = task.resource_version
            if old.message != task.message:
                old.message = task.message
                self._jobs.messages_changed(old.job)
            return
        self._tasks.replace(old, task)
        if task.status is TaskStatus.PENDING:
            if self._jobs.is_complete(task.job):
                self._version.arrived()
        elif old is not None and holds_node(old) and (not holds_node(task) or _holds_less(task.cls, old.cls)):
            self._version.opened()

    def delete(self, key: str) -> None:
        """Removes the task of a deleted Pod, by ``namespace/name``."""
        namespace, _, name = key.partition("/")
        self._remove(self._tasks.get(namespace, name))

    def _remove(self, task: Task | None) -> None:
        if task is not None:
            self._tasks.replace(task, None)
            if holds_node(task):
                self._version.opened()

    def _class(self, pod: Pod, old: Task | None) -> TaskClass:
        """Returns the class of a Pod. Raises QuantityError if its requests are malformed."""
        device_claims: tuple[PodClaim, ...] = ()
        if pod.spec.resource_claims and not pod.spec.node_name:
            if old is not None and old.status is TaskStatus.BINDING:
                device_claims = old.cls.device_claims  # the binding in flight changes its claims
            else:
                meta = pod.metadata
                device_claims = self._device_claims.of(pod.spec, meta.namespace, meta.uid, generated_claims(pod))
        return self._classes.of(pod, device_claims, self._malformed.add)

    def _priority(self, pod: Pod) -> int:
        try:
            return task_priority(pod)
        except ValueError as error:
            self._malformed.add(f"metadata.annotations[{TASK_PRIORITY}]", str(error))
            return pod_priority(pod)

    def _known_devices(
        self, pod: Pod, old: Task | None, state: PodPosition
    ) -> tuple[BindingRecord | None, tuple[tuple[str, str], ...]]:
        """``Task.record`` (of the previous version, or from a signed annotation) and ``Task.earlier`` of a Pod on a
        node."""
        if old is None or old.node != state.node:
            return self._signed_record(pod, state.node), ()
        earlier = old.earlier if old.annotations == state.devices else earlier_devices(old, state)
        return old.record or self._signed_record(pod, state.node), earlier

    def _signed_record(self, pod: Pod, node: str) -> BindingRecord | None:
        text = (pod.metadata.annotations or {}).get(BINDING_RECORD)
        if text is None or self.key is None:
            return None
        record = read_binding_record(text, pod.metadata.uid, self.key)
        return record if record is not None and record.node == node else None

    def restore_record(
        self, key: str, uid: str, record: BindingRecord | None, earlier: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """Sets ``Task.record`` and ``Task.earlier`` of a Pod where its annotations do not prove them, as in a
        replay."""
        task = self._tasks.by_key(key)
        if task is not None and task.uid == uid and (task.record, task.earlier) != (record, earlier):
            self._tasks.replace(task, replace(task, record=record, earlier=earlier))

    # --- assumed decisions ---
    def assume_binding(self, bind: Bind) -> None:
        """Treats a binding as carried out, unless the Pod was deleted or has changed."""
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

    def assume_eviction(self, eviction: Evict) -> None:
        """Treats an eviction as begun, unless the Pod was deleted or is terminating."""
        task = self._tasks.current(eviction.task)
        if task is not None and holds_node(task) and task.status is not TaskStatus.RELEASING:
            self._in_flight.add_eviction(task)
            self._tasks.replace(task, replace(task, status=TaskStatus.RELEASING))

    def bind_failed(self, bind: Bind) -> None:
        """Reverts a failed binding: the task is pending again and frees its resources."""
        task = self._tasks.current(bind.task)
        if task is not None and task.status is TaskStatus.BINDING and task.node == bind.node:
            cls = self.class_with_present_claims(task)
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

    # --- classes ---
    def add_label_keys(self, label_keys: Collection[str]) -> None:
        """Makes the next ``reclassify`` put Pods that differ in one of these labels into different classes."""
        self._classes.labels.read(label_keys)

    def add_annotation_keys(self, annotation_keys: Collection[str]) -> bool:
        """Puts Pods stored from now on that differ in one of these annotations into different classes. Returns whether
        Pods stored before have to be stored again, because one of the keys is new."""
        new = sorted(set(annotation_keys) - set(self._classes.annotation_keys))
        self._classes.add_annotation_keys(new)
        return bool(new)

    def reclassify(self) -> None:
        """Updates the classes of tasks whose relevant labels have changed: a selector has named a label for the first
        time, or selectors of Services or workloads have changed. Must be called before a snapshot."""
        affected: list[Task] = []
        if self._classes.labels.new:
            new = self._classes.labels.take_new()
            everywhere = new.pop(None, {})
            for task in self._tasks.values():
                here = new.get(task.namespace)
                if has_one(task.labels, everywhere) or (here is not None and has_one(task.labels, here)):
                    affected.append(task)
        for namespace, labels in self._selections.take_changes().items():
            affected += self._tasks.with_labels(namespace, labels)
        for task in dict.fromkeys(affected):
            self._set_class(task, self._classes.reclassify(task.cls, task.labels, task.cls.device_claims))

    def claim_changed(self, claim: str) -> None:
        """Updates the classes of waiting Pods after their ResourceClaim has changed. ``claim``: its key."""
        for key in self._device_claims.users(claim):
            task = self._tasks.by_key(key)
            if task is not None and task.status is TaskStatus.PENDING:
                self._set_class(task, self.class_with_present_claims(task))

    def class_with_present_claims(self, task: Task) -> TaskClass:
        """The class of a waiting task with its ResourceClaims in their present state."""
        if not task.cls.spec.resource_claims:
            return task.cls
        claims = self._device_claims.of(task.cls.spec, task.namespace, task.uid, task.device_claims)
        return self._classes.reclassify(task.cls, task.labels, claims)

    def _set_class(self, task: Task, cls: TaskClass) -> None:
        if cls is not task.cls:
            self._tasks.replace(task, replace(task, cls=cls))

    def drop_unused_classes(self) -> None:
        """Drops the classes without tasks, if there are many classes."""
        if len(self._classes) > self._class_limit:
            used = {task.cls.id for task in self._tasks.values()}
            self._classes.retain(used)
            self._class_limit = max(MIN_CLASS_LIMIT, 2 * len(used))


def _holds_less(cls: TaskClass, before: TaskClass) -> bool:
    """Whether a task of a class holds less of a resource than one of another class, as after a resize."""
    if cls is before:
        return False
    width = max(len(cls.request), len(before.request))
    now, then = (np.pad(each.request, (0, width - len(each.request))) for each in (cls, before))
    return bool((now < then).any())
