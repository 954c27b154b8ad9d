"""The state of a waiting job in a session: the tasks that must be placed, and those that no node accepts."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Protocol, TypeVar

import numpy as np

from scheduler.api.job import Job
from scheduler.api.kinds import NODE, Kind
from scheduler.api.node import Rows
from scheduler.api.objects import KubeObject
from scheduler.api.reasons import Shortage
from scheduler.api.resource import Vector
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.remedies.adjustments import Raw
from scheduler.framework.remedies.gates import Gate, GateKind
from scheduler.framework.remedies.nodes import compared_resources, passing_nodes, room
from scheduler.framework.session import Session
from scheduler.framework.statement import AllocationError, Statement

T = TypeVar("T", bound=KubeObject)


class ClusterObjects(Protocol):
    """The objects of a cluster before any change."""

    def find(self, kind: Kind, namespace: str, name: str, /) -> Raw | None: ...

    def of(self, kind: Kind, /) -> Iterable[Raw]: ...

    def structs(self, kind: Kind[T], /) -> Iterable[T]: ...


class PlacementGoal(Protocol):
    """The goal of explain: the job starts, or one of its Pods gets a node."""

    @property
    def pod(self) -> str:
        """Key of the Pod; "": the goal is the job."""

    def needed(self, job: Job, /) -> int:
        """The number of tasks of the job that must have a node."""

    def wanted(self, job: Job, session: Session, /) -> list[Task]:
        """The pending tasks that must be placed to reach the goal."""


@dataclass(frozen=True)
class Evidence:
    """The input of functions that yield plans."""

    objects: ClusterObjects
    session: Session
    """A closed session, with its books at the end of the session."""
    job: Job
    goal: PlacementGoal
    gates: Sequence[Gate]

    @property
    def wanted(self) -> list[Task]:
        return self.goal.wanted(self.job, self.session)

    @property
    def need(self) -> Vector:
        """Returns the amounts that the job needs from its queue to reach the goal."""
        need: Vector = self.session.dimensions.zeros()
        for task in self.wanted:
            need = need + task.cls.request
        if self.job.min_resources is not None and self.job.waiting_for_queue:
            need = np.maximum(need, self.job.min_resources)
        return need

    @property
    def too_large_for_nodes(self) -> bool:
        """Returns whether too few of its Pods fit on an empty node to reach the goal. If so, freeing or redistributing
        existing resources does not help."""
        job, nodes = self.job, self.session.nodes
        if job.size < self.goal.needed(job):
            return False  # Pods that do not exist yet may be smaller
        pending = [task for task in job.of(TaskStatus.PENDING).values() if self.goal.pod in ("", task.key)]
        fits: dict[int, bool] = {}
        for cls in {task.cls.id: task.cls for task in pending}.values():
            dims = compared_resources(cls)
            there = (nodes.allocatable[dims] >= cls.request[dims][:, np.newaxis]).all(axis=0)
            fits[cls.id] = bool(there.any())
        needed = 1 if self.goal.pod else self.goal.needed(job) - job.ready_count - job.waiting_count
        return bool(pending) and sum(fits[task.cls.id] for task in pending) < needed

    def other_jobs_need(self, queues: Collection[str] | None = None) -> Vector:
        """Returns the amounts that other waiting jobs of ``queues`` (None: all queues) need. Earlier jobs in the queue
        use a part of the amount that a change adds."""
        need: Vector = self.session.dimensions.zeros()
        for other in self.session.jobs.values():
            if other is not self.job and (queues is None or other.queue in queues):
                announced = other.min_resources if other.waiting_for_queue else None
                need += other.pending if announced is None else np.maximum(other.pending, announced)
        return need

    @cached_property
    def rows(self) -> Rows:
        """The rows of nodes that exist without any change."""
        names, objects = self.session.nodes.names, self.objects
        there = (row for row, name in enumerate(names) if objects.find(NODE, "", name) is not None)
        return np.fromiter(there, dtype=np.intp)

    def room_by_row(self, cls: TaskClass, *without: type[object]) -> dict[int, int]:
        """Returns row -> how many Pods of a class have room there, for existing nodes that pass all filters except
        those of the types ``without``."""
        filters = [it for it in self.session.filters(cls, self.job) if not isinstance(it, without)]
        rows = np.intersect1d(np.flatnonzero(passing_nodes(self.session, filters)), self.rows)
        return {row: room(self.session.nodes.idle[:, row], cls) for row in rows.tolist()}

    def has_gate(self, *kinds: GateKind) -> bool:
        return any(gate.kind in kinds for gate in self.gates)

    def shortages(self, kind: str) -> list[Shortage]:
        """Returns the distinct shortages of a kind, such as Queue, ResourceQuota or HyperNode."""
        return list(dict.fromkeys(s for gate in self.gates for s in gate.shortages if s.kind == kind))

    def plugins(self) -> set[str]:
        """The names of the configured plugins."""
        return {option.name for tier in self.session.configuration.tiers for option in tier}

    def unused_name(self, kind: Kind, stem: str) -> str:
        """Returns a name, derived from ``stem``, that no object of a cluster-scoped kind has."""
        names = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
        return next(name for name in names if self.objects.find(kind, "", name) is None)

    @contextmanager
    def unplaced_tasks(self) -> Iterator[list[Task]]:
        """Places the wanted tasks one after the other, within the context; yields those that no node accepts."""
        session, job = self.session, self.job
        before = dict(job.transaction)
        statement = Statement(session)
        unplaced = []
        for task in self.wanted:
            rows = session.view(task.cls, job).choose(1)
            try:
                if rows:
                    statement.allocate(job, (task,), rows)
                    continue
            except AllocationError:
                pass
            unplaced.append(task)
        try:
            yield unplaced
        finally:
            statement.discard()
            job.transaction.clear()
            job.transaction.update(before)
