"""Copies of a simulated cluster, to try changes without affecting the original.

A copy has its own containers, and its own versions of mutable objects. Immutable objects are shared: manifests (a new
version is a new dictionary), decoded objects, task classes, facts of nodes. Copying a cluster of 20,000 Pods takes some
tens of milliseconds; loading it again would take two seconds. If the original does not change any more (``branch``),
most of it is copied only when the copy changes it, and the copy takes some milliseconds.
"""

import copy
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from enum import Enum
from functools import partial
from operator import attrgetter
from types import MethodType
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from scheduler.api.job import Job
from scheduler.api.node import NodeFacts, Nodes
from scheduler.api.resource import Dimensions
from scheduler.api.snapshot import Memory, PlacedClass
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.cache.job_records import JobRecord
from scheduler.cache.job_table import JobTable
from scheduler.cache.task_table import TaskTable
from scheduler.cluster.memory.index import Index
from scheduler.controllers.worklist import ReconcileQueue
from scheduler.framework.cycle import Outcome


class CopyOnAccess(dict[Hashable, dict[Any, Any]]):
    """Shares the inner dictionaries of the original; each is copied on first access, after which it may be changed.

    The original and its contents must not change while the copy is in use. Keeps the order of the original. Not
    thread-safe.
    """

    def __init__(self, original: dict[Any, dict[Any, Any]], copied: Callable[[dict[Any, Any]], dict[Any, Any]]) -> None:
        super().__init__(original)
        self._copied = copied
        self._shared = set(original)

    def __getitem__(self, key: Hashable) -> dict[Any, Any]:
        inner = super().__getitem__(key)
        if key in self._shared:
            inner = self._copied(inner)
            self[key] = inner
        return inner

    def __setitem__(self, key: Hashable, inner: dict[Any, Any]) -> None:
        self._shared.discard(key)
        super().__setitem__(key, inner)

    def __delitem__(self, key: Hashable) -> None:
        super().__delitem__(key)
        self._shared.discard(key)

    def get(self, key: Hashable, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def setdefault(self, key: Hashable, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: Hashable, *default: Any) -> Any:
        if key not in self and default:
            return default[0]
        inner = self[key]
        del self[key]
        return inner

    def values(self) -> Iterator[dict[Any, Any]]:  # type: ignore[override]
        return (self[key] for key in list(self))

    def items(self) -> Iterator[tuple[Hashable, dict[Any, Any]]]:  # type: ignore[override]
        return ((key, self[key]) for key in list(self))


T = TypeVar("T")
_PLAIN: Final[frozenset[type]] = frozenset({str, int, float, bool, type(None), tuple, np.ndarray})
"""Types whose values are shared without inspection. Tuples contain manifests with their kinds, keys and conditions."""
_SHARED: Final = (tuple, Enum, msgspec.Struct, NodeFacts, TaskClass, PlacedClass, Outcome, Dimensions, Memory)
"""Immutable types; Dimensions, which only grow: the index that one copy assigns to a resource is valid for all; and
Memory: what a trial has found out need not be found out again."""
_CONTAINERS: Final[tuple[type, ...]] = (dict, OrderedDict, CopyOnAccess, list, set, MethodType, partial)
_TASKS: Final = {Task}
_COPIED: Final = {Task, JobRecord}
"""Structs that are changed in place."""
_COPIED_BY_TABLES: Final = {Task, JobRecord, Job, type(None)}
"""Types whose values a borrowing table copies, or drops, before it changes them."""
_DICTIONARIES: Final = {dict}
_FIELDS: Final = attrgetter(*Job.__struct_fields__)
_CHANGING: Final = (
    "by_status", "_placed", "_nominated", "_fit_errors", "_transaction", "sub_jobs", "sub_job_of",
)  # fmt: skip
"""Containers of a Job that a session changes in place."""
_NO_ATTRIBUTE: Final = object()


def fork(root: T, shared: Iterable[object] = ()) -> T:
    """Returns an independent copy of an object and of all objects that it refers to, except the ``shared`` ones."""
    copied: T = _Copier(shared).copy(root)
    return copied


def branch(root: T, shared: Iterable[object] = ()) -> T:
    """Returns a copy of an original that does not change while the copy is in use.

    Sessions of the original and of its branches must not overlap, since they share unchanged jobs.
    """
    copied: T = _Copier(shared, lazy=True).copy(root)
    return copied


class _Copier:
    def __init__(self, shared: Iterable[object], *, lazy: bool = False) -> None:
        self._lazy = lazy
        self._copies: dict[int, Any] = {id(value): value for value in shared}
        """Id of an original -> its copy, so that objects with several references are copied once."""
        self._shared: set[type] = set(_PLAIN)
        """Types known to be shared."""
        self._copied: set[type] = set(_CONTAINERS)
        self._slots: dict[type, tuple[str, ...]] = {}

    def copy(self, value: Any) -> Any:
        kind = type(value)
        if kind in self._shared or self._is_shared(kind):
            return value
        made = self._copies.get(id(value), _NO_ATTRIBUTE)
        if made is not _NO_ATTRIBUTE:
            return made
        if kind is Task:
            return self._task(value) if value.status is TaskStatus.PENDING and not self._lazy else value
        if kind is dict or kind is OrderedDict or kind is CopyOnAccess:
            return self._dictionary(value)
        if kind is list:
            return self._remember(value, [self.copy(item) for item in value])
        if kind is set:
            return self._remember(value, set(value))
        if kind is MethodType:
            return self._remember(value, MethodType(value.__func__, self.copy(value.__self__)))
        if kind is partial:
            return self._remember(value, partial(self.copy(value.func), *map(self.copy, value.args)))
        if kind is Job:
            return self._job(value)
        if kind is JobRecord:
            return self._record(value)
        if kind is ReconcileQueue:
            return self._remember(value, value.fork(self.copy))
        if kind is Index:
            return self._remember(value, value.fork(self._dictionary))
        if kind is Nodes:
            return self._remember(value, value.copy())
        if self._lazy and (kind is JobTable or kind is TaskTable):
            made = self._object(value, kind)
            if kind is JobTable:
                value.lend()
            made.borrow()
            return made
        return self._object(value, kind)

    def _task(self, task: Task) -> Task:
        """Returns a copy of a pending task, whose message and nominated node are set in place. Other tasks are
        immutable and shared."""
        made: Task = self._copies.get(id(task)) or self._remember(task, copy.copy(task))
        return made

    def _job(self, job: Job) -> Job:
        """Copies a job by its constructor, which is faster than attribute by attribute."""
        made: Job = self._remember(job, Job(*_FIELDS(job)))
        for name in _CHANGING:
            old = getattr(job, name)
            setattr(made, name, self.copy(old) if old else type(old)())
        return made

    def _record(self, record: JobRecord) -> JobRecord:
        made: JobRecord = self._remember(record, record.copy())
        made.tasks, made.view = self.copy(record.tasks), self.copy(record.view)
        return made

    def _remember(self, value: Any, made: Any) -> Any:
        self._copies[id(value)] = made
        return made

    def _dictionary(self, value: dict[Any, Any]) -> Any:
        kinds = set(map(type, value.values()))
        if kinds <= self._shared or all(map(self._is_shared, kinds)) or (self._lazy and kinds <= _COPIED_BY_TABLES):
            made = value.copy()
        elif kinds == _DICTIONARIES and self._lazy:
            made = CopyOnAccess(value, self._dictionary)
        elif kinds == _TASKS:
            pending = TaskStatus.PENDING
            made = {key: task if task.status is not pending else self._task(task) for key, task in value.items()}
        elif kinds == _DICTIONARIES:
            known = self._copies
            made = {key: known.get(id(inner)) or self._dictionary(inner) for key, inner in value.items()}
        else:
            # Registered first, since its values may refer to it.
            made = self._remember(value, OrderedDict() if type(value) is OrderedDict else {})
            made.update(zip(value, map(self.copy, value.values()), strict=True))
            return made
        return self._remember(value, made)

    def _object(self, value: Any, kind: type) -> Any:
        made = self._remember(value, object.__new__(kind))
        shared = self._shared
        for name in self._slots.get(kind) or self._slots_of(kind):
            old = getattr(value, name, _NO_ATTRIBUTE)
            if type(old) in shared:
                setattr(made, name, old)
            elif old is not _NO_ATTRIBUTE:
                setattr(made, name, self.copy(old))
        if hasattr(value, "__dict__"):
            vars(made).update({name: self.copy(old) for name, old in vars(value).items()})
        return made

    def _slots_of(self, kind: type) -> tuple[str, ...]:
        names = self._slots[kind] = tuple(name for base in kind.__mro__ for name in _slots(base))
        return names

    def _is_shared(self, kind: type) -> bool:
        if kind in self._shared:
            return True
        if kind in self._copied:
            return False
        frozen = getattr(getattr(kind, "__dataclass_params__", None), "frozen", False)
        shared = (
            not kind.__module__.startswith("scheduler.")
            or frozen
            or (issubclass(kind, _SHARED) and kind not in _COPIED)
        )
        (self._shared if shared else self._copied).add(kind)
        return shared


def _slots(base: type) -> tuple[str, ...]:
    slots = base.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
