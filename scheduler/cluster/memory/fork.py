"""A second copy of a simulated cluster, to try what would be without touching what is.

The copy has its own containers, and its own objects where they change. What never changes is shared: manifests (a new
version is a new dictionary), decoded objects, task classes, facts of nodes. A cluster of twenty thousand Pods is copied
in some tens of milliseconds; reading it again would take two seconds. Where the original is put aside for good
(``branch``), much of it is copied only when the copy changes it, and the copy takes some milliseconds.
"""

import copy
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import fields
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
from scheduler.api.snapshot import PlacedClass
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.cache.job_records import JobRecord
from scheduler.cache.job_table import JobTable
from scheduler.cache.task_table import TaskTable
from scheduler.cluster.memory.borrowing import Borrowing
from scheduler.cluster.memory.index import Index
from scheduler.controllers.worklist import Worklist
from scheduler.framework.cycle import Outcome

T = TypeVar("T")
_PLAIN: Final[frozenset[type]] = frozenset({str, int, float, bool, type(None), tuple, np.ndarray})
"""Types whose values are shared without a look. Tuples hold manifests beside their kinds, keys, and conditions."""
_SHARED: Final = (tuple, Enum, msgspec.Struct, NodeFacts, TaskClass, PlacedClass, Outcome, Dimensions)
"""Never changed, or only grow: the place that one copy gives to a resource is good for all."""
_CONTAINERS: Final[tuple[type, ...]] = (dict, OrderedDict, Borrowing, list, set, MethodType, partial)
_TASKS: Final = {Task}
_LENT: Final = {Task, JobRecord}
"""What tables that borrow it copy before they change it."""
_DICTIONARIES: Final = {dict}
_FIELDS: Final = attrgetter(*(field.name for field in fields(Job)))
_CHANGING: Final = (
    "by_status", "placed", "nominated", "fit_errors", "refusals", "new_conditions", "transaction", "sub_jobs",
    "sub_job_of",
)  # fmt: skip
"""Containers of a Job that a session changes in place."""
_NO_ATTRIBUTE: Final = object()


def fork(root: T, shared: Iterable[object] = ()) -> T:
    """An independent copy of an object of this program and of all it refers to but what is to be shared."""
    copied: T = _Copier(shared).copy(root)
    return copied


def branch(root: T, shared: Iterable[object] = ()) -> T:
    """The same of an original that is not changed as long as the copy is in use. Sessions of the original and of its
    branches must not overlap: jobs that nobody changes are the same for all."""
    copied: T = _Copier(shared, lazy=True).copy(root)
    return copied


class _Copier:
    def __init__(self, shared: Iterable[object], *, lazy: bool = False) -> None:
        self._lazy = lazy
        self._made: dict[int, Any] = {id(value): value for value in shared}
        """Id of an original -> its copy, so that what is one thing stays one thing."""
        self._shared: set[type] = set(_PLAIN)
        """Types found to be shared so far."""
        self._copied: set[type] = set(_CONTAINERS)
        self._slots: dict[type, tuple[str, ...]] = {}

    def copy(self, value: Any) -> Any:
        kind = type(value)
        if kind in self._shared or self._shares(kind):
            return value
        made = self._made.get(id(value), _NO_ATTRIBUTE)
        if made is not _NO_ATTRIBUTE:
            return made
        if kind is Task:
            return self._task(value) if value.status is TaskStatus.PENDING and not self._lazy else value
        if kind is dict or kind is OrderedDict or kind is Borrowing:
            return self._dictionary(value)
        if kind is list:
            return self._keep(value, [self.copy(item) for item in value])
        if kind is set:
            return self._keep(value, set(value))
        if kind is MethodType:
            return self._keep(value, MethodType(value.__func__, self.copy(value.__self__)))
        if kind is partial:
            return self._keep(value, partial(self.copy(value.func), *map(self.copy, value.args)))
        if kind is Job:
            return self._job(value)
        if kind is Worklist:
            return self._keep(value, value.fork(self.copy))
        if kind is Index:
            return self._keep(value, value.fork(self._dictionary))
        if kind is Nodes:
            return self._keep(value, value.copy())
        if self._lazy and (kind is JobTable or kind is TaskTable):
            made = self._object(value, kind)
            made.borrow()
            return made
        return self._object(value, kind)

    def _task(self, task: Task) -> Task:
        """A copy of a task that waits: it is told its message and nominated node in place. Any other is never
        changed, and shared."""
        made: Task = self._made.get(id(task)) or self._keep(task, copy.copy(task))
        return made

    def _job(self, job: Job) -> Job:
        """By its constructor, since there are many."""
        made: Job = self._keep(job, Job(*_FIELDS(job)))
        for name in _CHANGING:
            old = getattr(job, name)
            setattr(made, name, self.copy(old) if old else type(old)())
        return made

    def _keep(self, value: Any, made: Any) -> Any:
        self._made[id(value)] = made
        return made

    def _dictionary(self, value: dict[Any, Any]) -> Any:
        kinds = set(map(type, value.values()))
        if kinds <= self._shared or all(map(self._shares, kinds)) or (self._lazy and kinds <= _LENT):
            made = value.copy()
        elif kinds == _DICTIONARIES and self._lazy:
            made = Borrowing(value, self._dictionary)
        elif kinds == _TASKS:
            waits = TaskStatus.PENDING
            made = {key: task if task.status is not waits else self._task(task) for key, task in value.items()}
        elif kinds == _DICTIONARIES:
            known = self._made
            made = {key: known.get(id(inner)) or self._dictionary(inner) for key, inner in value.items()}
        else:
            # First, for it may be referred to from within.
            made = self._keep(value, OrderedDict() if type(value) is OrderedDict else {})
            made.update(zip(value, map(self.copy, value.values()), strict=True))
            return made
        return self._keep(value, made)

    def _object(self, value: Any, kind: type) -> Any:
        made = self._keep(value, object.__new__(kind))
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

    def _shares(self, kind: type) -> bool:
        if kind in self._shared:
            return True
        if kind in self._copied:
            return False
        frozen = getattr(getattr(kind, "__dataclass_params__", None), "frozen", False)
        shared = not kind.__module__.startswith("scheduler.") or frozen or issubclass(kind, _SHARED)
        (self._shared if shared else self._copied).add(kind)
        return shared


def _slots(base: type) -> tuple[str, ...]:
    slots = base.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
