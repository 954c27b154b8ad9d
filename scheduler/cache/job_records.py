"""The jobs' side of the cache: PodGroups, their tasks, and the Job views that snapshots hand out."""

import copy
from collections.abc import Callable, Mapping

from scheduler.api.decisions import PodGroupStatusUpdate
from scheduler.api.job import Job
from scheduler.api.resource import Dimensions, Vector
from scheduler.api.scheduling import PodGroup, PodGroupCondition
from scheduler.api.task import ALLOCATED_STATUSES, Task, TaskStatus
from scheduler.cache.admissions import Admission, as_admitted
from scheduler.cache.sub_groups import minimum_of, sub_jobs_of


class JobRecord:
    """One PodGroup (or Pods that name one not seen yet) as the cache keeps it."""

    __slots__ = (
        "admission",
        "annotations",
        "conditions",
        "counts",
        "creation",
        "group",
        "key",
        "min_resources",
        "phase",
        "queue",
        "tasks",
        "view",
    )

    def __init__(self, key: str) -> None:
        self.key = key
        self.group: PodGroup | None = None
        self.queue = ""
        self.creation = 0.0
        self.min_resources: Vector | None = None
        self.phase = ""
        self.annotations: Mapping[str, str] = {}
        """Without the record of its admission."""
        self.admission = Admission()
        self.conditions: tuple[PodGroupCondition, ...] = ()
        self.counts = (0, 0, 0)
        self.tasks: dict[str, Task] = {}
        """uid -> task."""
        self.view: Job | None = None
        """The Job last handed out; None when the record changed since."""

    def copy(self) -> "JobRecord":
        """An independent copy, of which no Job was handed out yet."""
        other = copy.copy(self)
        other.admission, other.tasks, other.view = copy.copy(self.admission), self.tasks.copy(), None
        return other

    @property
    def forgotten(self) -> bool:
        """Nothing is known of the job any more."""
        return self.group is None and not self.tasks


def status_of(record: JobRecord) -> PodGroupStatusUpdate | None:
    """The status that is assumed of a record's PodGroup; None without one."""
    if record.group is None:
        return None
    meta, (running, succeeded, failed) = record.group.metadata, record.counts
    return PodGroupStatusUpdate(
        meta.namespace, meta.name, meta.uid, record.phase, record.conditions, running, succeeded, failed
    )


def view_of(
    record: JobRecord, dimensions: Dimensions, priority: Callable[[str], int], *, guarded: bool = False
) -> Job | None:
    """The Job of a record for a snapshot: the last one if it still holds, else a new one; None without a PodGroup.

    ``priority`` gives the value of a priority class name; ``guarded``: only what the scheduler admitted is admitted.
    """
    group = record.group
    if group is None:
        return None
    view = record.view
    if view is not None and not view.changed and len(view.allocated) == dimensions.width:
        _clear(view)
        return view
    record.view = _build(record, group, dimensions, priority)
    if guarded:
        as_admitted(record.view, record.admission, dimensions)
    return record.view


def _clear(view: Job) -> None:
    """Forget what the last session noted on a view."""
    if view.fit_errors:
        view.fit_errors = {}
    if view.refusals:
        view.refusals = []
    if view.new_conditions:
        view.new_conditions = []
    if view.transaction:
        view.transaction = {}


def _build(record: JobRecord, group: PodGroup, dimensions: Dimensions, priority: Callable[[str], int]) -> Job:
    spec, meta = group.spec, group.metadata
    by_status: dict[TaskStatus, dict[str, Task]] = {}
    allocated, pending = dimensions.zeros(), dimensions.zeros()
    gated: Vector | None = None
    best_effort = 0
    for uid, task in record.tasks.items():
        by_status.setdefault(task.status, {})[uid] = task
        if task.status in ALLOCATED_STATUSES:
            allocated += task.cls.request
        elif task.status is TaskStatus.PENDING:
            pending += task.cls.request
            best_effort += task.cls.best_effort
            if task.gated and not task.cls.at_queue_gate:
                gated = task.cls.request.copy() if gated is None else gated + task.cls.request
    if record.min_resources is not None:
        record.min_resources = dimensions.fit(record.min_resources)
    sub_jobs = sub_jobs_of(record.key, spec, record.tasks.values())
    return Job(
        key=record.key,
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        queue=record.queue,
        priority=priority(spec.priority_class_name),
        creation=record.creation,
        min_member=spec.min_member,
        role_minimum=spec.min_task_member or {},
        min_resources=record.min_resources,
        labels=meta.labels or {},
        annotations=record.annotations,
        phase=record.phase,
        conditions=record.conditions,
        counts=record.counts,
        stored_phase=record.phase,
        by_status=by_status,
        allocated=allocated,
        pending=pending,
        pipelined=dimensions.zeros(),
        gated=gated,
        pending_best_effort=best_effort,
        most_reserved=record.min_resources,
        min_resource_list=spec.min_resources,
        topology=spec.network_topology,
        sub_jobs=sub_jobs,
        sub_job_of={uid: sub_job for sub_job in sub_jobs.values() for uid in sub_job.tasks},
        sub_group_minimum=minimum_of(spec),
    )
