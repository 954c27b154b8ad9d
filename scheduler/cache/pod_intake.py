"""Pods taken in as tasks, and sorted into classes anew when what sets classes apart has changed."""

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from scheduler.api.binding_record import BindingRecord, read_binding_record
from scheduler.api.names import BINDING_RECORD, TASK_PRIORITY
from scheduler.api.objects import Pod
from scheduler.api.quantity import QuantityError
from scheduler.api.signing import SigningKey
from scheduler.api.task import PodClaim, Task, TaskClass, TaskStatus
from scheduler.cache.classes import ClassTable
from scheduler.cache.device_claims import DeviceClaims
from scheduler.cache.metadata import uid_of
from scheduler.cache.outstanding import Outstanding
from scheduler.cache.pod_tasks import Place, alike, claims_made, earlier_devices, pod_priority, task_of, task_priority
from scheduler.cache.selection_table import SelectionTable
from scheduler.cache.set_aside import SetAside
from scheduler.cache.task_table import TaskTable

FEW_CLASSES: Final = 4096


class PodIntake:
    """Feeds the tasks of a cache from Pods."""

    def __init__(
        self,
        scheduler_names: Collection[str],
        tasks: TaskTable,
        classes: ClassTable,
        selections: SelectionTable,
        device_claims: DeviceClaims,
        outstanding: Outstanding,
        aside: SetAside,
    ) -> None:
        self._names = frozenset(scheduler_names)
        self._tasks = tasks
        self._classes = classes
        self._selections = selections
        self._device_claims = device_claims
        self._outstanding = outstanding
        self._aside = aside
        self.key: SigningKey | None = None
        """By which records are verified; None: none is believed."""
        self._label_keys = len(classes.label_keys)
        """Number of label keys by which all tasks are sorted into classes."""
        self._most_classes = FEW_CLASSES
        """Number of classes beyond which those without tasks are looked for and forgotten."""

    # --- Pods ---
    def upsert(self, pod: Pod) -> None:
        """Take a Pod. Those of other schedulers matter once they are on a node."""
        meta = pod.metadata
        key = f"{meta.namespace}/{meta.name}"
        ours = pod.spec.scheduler_name in self._names
        if not ours and not pod.spec.node_name:
            self._tasks.drop(key)
            return
        old = self._tasks.get(key)
        if old is not None and old.uid != uid_of(meta):
            self._tasks.drop(key)
            old = None
        try:
            cls = self._class(pod, old)
        except QuantityError as error:
            self._aside.add("spec.containers[].resources", str(error))
            return
        place = self._outstanding.place(pod, old)
        record, earlier = self._remembered(pod, old, place) if place.node else (None, ())
        task = task_of(pod, ours, cls, place, self._priority(pod), record, earlier)
        if old is not None and alike(old, task):
            old.resource_version, old.message = task.resource_version, task.message
            return
        self._tasks.swap(old, task)

    def _class(self, pod: Pod, old: Task | None) -> TaskClass:
        """The class of a Pod. Raises QuantityError if its requests are malformed."""
        device_claims: tuple[PodClaim, ...] = ()
        if pod.spec.resource_claims and not pod.spec.node_name:
            if old is not None and old.status is TaskStatus.BINDING:
                device_claims = old.cls.device_claims  # what becomes of them is its own doing
            else:
                meta = pod.metadata
                device_claims = self._device_claims.of(pod.spec, meta.namespace, meta.uid, claims_made(pod))
        return self._classes.of(pod, device_claims)

    def _priority(self, pod: Pod) -> int:
        try:
            return task_priority(pod)
        except ValueError as error:
            self._aside.add(f"metadata.annotations[{TASK_PRIORITY}]", str(error))
            return pod_priority(pod)

    def _remembered(
        self, pod: Pod, old: Task | None, place: Place
    ) -> tuple[BindingRecord | None, tuple[tuple[str, str], ...]]:
        """Of a Pod on a node: ``Task.record``, remembered or by what the scheduler signed, and ``Task.earlier``."""
        if old is None or old.node != place.node:
            return self._signed(pod, place.node), ()
        earlier = old.earlier if old.annotations == place.devices else earlier_devices(old, place)
        return old.record or self._signed(pod, place.node), earlier

    def _signed(self, pod: Pod, node: str) -> BindingRecord | None:
        text = (pod.metadata.annotations or {}).get(BINDING_RECORD)
        if text is None or self.key is None:
            return None
        record = read_binding_record(text, pod.metadata.uid, self.key)
        return record if record is not None and record.node == node else None

    def remember(
        self, key: str, uid: str, record: BindingRecord | None, earlier: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """What is known of a Pod by a signature that is not at hand, or by what it was before, as in a replay."""
        task = self._tasks.get(key)
        if task is not None and task.uid == uid and (task.record, task.earlier) != (record, earlier):
            self._tasks.swap(task, replace(task, record=record, earlier=earlier))

    # --- classes anew ---
    def split_by(self, label_keys: Collection[str]) -> None:
        """Pods that differ in one of these labels are in different classes from the next ``classify_again`` on."""
        self._classes.label_keys.update(label_keys)

    def classify_again(self) -> None:
        """Sort tasks into classes anew where other labels matter than when they were taken in: a selector has named a
        key for the first time, or whom Services and workloads select has changed. To be called before a snapshot."""
        everybody = len(self._classes.label_keys) != self._label_keys
        self._label_keys = len(self._classes.label_keys)
        changed = self._selections.take_changes()
        for task in self._tasks.values() if everybody or changed else ():
            labels = changed.get(task.namespace, set())
            if everybody or labels is None or not labels.isdisjoint(task.labels.items()):
                self._move(task, self._classes.again(task.cls, task.labels, task.cls.device_claims))

    def claim_again(self, claim: str) -> None:
        """A ResourceClaim, by its key, has changed: the waiting Pod that has it may be in another class now."""
        for key in self._device_claims.users(claim):
            task = self._tasks.get(key)
            if task is not None and task.status is TaskStatus.PENDING:
                self._move(task, self.class_by_demands(task))

    def class_by_demands(self, task: Task) -> TaskClass:
        """The class of a waiting task as its ResourceClaims are now."""
        if not task.cls.spec.resource_claims:
            return task.cls
        claims = self._device_claims.of(task.cls.spec, task.namespace, task.uid, task.device_claims)
        return self._classes.again(task.cls, task.labels, claims)

    def _move(self, task: Task, cls: TaskClass) -> None:
        if cls is not task.cls:
            self._tasks.swap(task, replace(task, cls=cls))

    def forget_classes(self) -> None:
        """Forget the classes that no task is of, if there may be many."""
        if len(self._classes) > self._most_classes:
            used = {task.cls.id for task in self._tasks.values()}
            self._classes.keep(used)
            self._most_classes = max(FEW_CLASSES, 2 * len(used))
