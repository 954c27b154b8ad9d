"""What a session showed about a job that waits: the Pods it would take to reach its goal, and which of them find no
node even if no queue stands in the way."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Protocol

import numpy as np

from scheduler.api.job import Job
from scheduler.api.kinds import NODE, Kind
from scheduler.api.node import Rows
from scheduler.api.reasons import Shortage
from scheduler.api.resource import Vector
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.remedies.adjustments import Raw
from scheduler.framework.remedies.gates import Gate, Held
from scheduler.framework.remedies.nodes import compared
from scheduler.framework.session import Session
from scheduler.framework.statement import AllocationError, Statement


class Objects(Protocol):
    """The objects of a cluster, as they are without any change."""

    def find(self, kind: Kind, namespace: str, name: str, /) -> Raw | None: ...

    def of(self, kind: Kind, /) -> Iterable[Raw]: ...

    def structs(self, kind: Kind, /) -> Iterable[object]: ...


class Goal(Protocol):
    """What is to be reached: the job starts, or one of its Pods gets a node."""

    @property
    def pod(self) -> str:
        """Key of the Pod; "": the job."""

    def least(self, job: Job, /) -> int:
        """How many tasks of the job have to have a node."""

    def wanted(self, job: Job, session: Session, /) -> list[Task]:
        """The tasks that it takes to reach it."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that plans are made from."""

    objects: Objects
    session: Session
    """Closed; its books are those of the end of the session."""
    job: Job
    goal: Goal
    gates: Sequence[Gate]

    @property
    def wanted(self) -> list[Task]:
        return self.goal.wanted(self.job, self.session)

    @property
    def need(self) -> Vector:
        """What the job would take of its queue to reach its goal."""
        need: Vector = self.session.dimensions.zeros()
        for task in self.wanted:
            need = need + task.cls.request
        if self.job.min_resources is not None and self.job.waiting_for_queue:
            need = np.maximum(need, self.job.min_resources)
        return need

    @property
    def too_large(self) -> bool:
        """Whether so many of its Pods ask for more than any node has that the others are too few for the goal: nothing
        that only frees what is there, or shares it out otherwise, is of use."""
        job, nodes = self.job, self.session.nodes
        if job.size < self.goal.least(job):
            return False  # the Pods that are still to come may be smaller
        pending = [task for task in job.of(TaskStatus.PENDING).values() if self.goal.pod in ("", task.key)]
        fits: dict[int, bool] = {}
        for cls in {task.cls.id: task.cls for task in pending}.values():
            dims = compared(cls)
            there = (nodes.allocatable[dims] >= cls.request[dims][:, np.newaxis]).all(axis=0)
            fits[cls.id] = bool(there.any())
        needed = 1 if self.goal.pod else self.goal.least(job) - job.ready_count - job.waiting_count
        return bool(pending) and sum(fits[task.cls.id] for task in pending) < needed

    def others_need(self, queues: Collection[str] | None = None) -> Vector:
        """What other jobs wait for, of the queues given or of all: those whose turn comes first take their part of what
        is added."""
        need: Vector = self.session.dimensions.zeros()
        for other in self.session.jobs.values():
            if other is not self.job and (queues is None or other.queue in queues):
                announced = other.min_resources if other.waiting_for_queue else None
                need += other.pending if announced is None else np.maximum(other.pending, announced)
        return need

    @property
    def rows(self) -> Rows:
        """The nodes of the session that are there without any change."""
        names, objects = self.session.nodes.names, self.objects
        there = (row for row, name in enumerate(names) if objects.find(NODE, "", name) is not None)
        return np.fromiter(there, dtype=np.intp)

    def held(self, *gates: Held) -> bool:
        return any(gate.held in gates for gate in self.gates)

    def shortages(self, kind: str) -> list[Shortage]:
        """Of queues, quotas or the cluster, each once."""
        return list(dict.fromkeys(s for gate in self.gates for s in gate.shortages if s.kind == kind))

    def plugins(self) -> set[str]:
        """The plugins that are configured."""
        return {option.name for tier in self.session.configuration.tiers for option in tier}

    def unused(self, kind: Kind, stem: str) -> str:
        """A name like the one given that no object of a kind without namespaces has."""
        names = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
        return next(name for name in names if self.objects.find(kind, "", name) is None)

    @contextmanager
    def crowded(self) -> Iterator[list[Task]]:
        """With as many of the wanted tasks placed as find a node, one after the other: those that find none."""
        session, job = self.session, self.job
        given = dict(job.transaction)
        statement = Statement(session)
        left = []
        for task in self.wanted:
            rows = session.view(task.cls, job).choose(1)
            try:
                if rows:
                    statement.allocate(job, (task,), rows)
                    continue
            except AllocationError:
                pass
            left.append(task)
        try:
            yield left
        finally:
            statement.discard()
            job.transaction.clear()
            job.transaction.update(given)
