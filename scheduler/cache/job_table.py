"""All jobs: watched PodGroups and their tasks in, Job views for snapshots out."""

from collections.abc import Callable, Collection, Iterable
from functools import cache, lru_cache
from sys import intern
from typing import NamedTuple

from scheduler.api.decisions import PodGroupStatusUpdate
from scheduler.api.job import Job
from scheduler.api.kinds import find_kind
from scheduler.api.names import CARD_ALTERNATIVE, CARD_GANGS, PODGROUP_PREFIX
from scheduler.api.objects import controller_of
from scheduler.api.quantity import QuantityError
from scheduler.api.resource import Dimensions, Vector
from scheduler.api.scheduling import PodGroup, PodGroupCondition
from scheduler.api.signed_records import SigningKey
from scheduler.api.snapshot import JobChanges, SettledJobs
from scheduler.api.task import Task
from scheduler.api.times import seconds_of
from scheduler.cache.admissions import Admission, Admitted, depends_on_admission, without_record
from scheduler.cache.job_records import (
    NOTHING,
    JobRecord,
    MinimumResources,
    SharedVectors,
    proven,
    status_of,
    topology_problems_of,
    view_of,
)
from scheduler.cache.job_views import JobViews
from scheduler.cache.malformed_fields import MalformedFields
from scheduler.cache.pod_tasks import holds_node
from scheduler.cache.tasks_without_queue import TasksWithoutQueueTable
from scheduler.cache.versioning import Version


class JobsOfSession(NamedTuple):
    """The jobs of a snapshot."""

    all: dict[str, Job]
    changes: JobChanges
    active: dict[str, Job]
    settled: dict[str, SettledJobs]
    touched: dict[Job, Vector]
    orphans: list[Task]
    """The tasks on nodes whose PodGroup does not exist, or is in a queue that another scheduler serves."""


class JobTable:
    """The records of jobs, by ``namespace/name`` of their PodGroups, with or without a watched PodGroup."""

    def __init__(
        self,
        dimensions: Dimensions,
        version: Version,
        malformed: MalformedFields,
        priority: Callable[[str], int],
        default_queue: str,
        without_queue: TasksWithoutQueueTable,
    ) -> None:
        """``priority`` returns the value of a PriorityClass by name. Jobs without a queue are in ``default_queue``."""
        self._dimensions = dimensions
        self._version = version
        self._malformed = malformed
        self._priority = priority
        self._default_queue = default_queue
        self._enforce_admissions = False
        """Whether only PodGroups with a known admission are admitted."""
        self._records: dict[str, JobRecord] = {}
        self._borrowed: set[str] = set()
        """Keys of records that another table has, too. The table copies a record before it changes it."""
        self._minimums = MinimumResources(dimensions)
        self._views = JobViews()
        self._stale: dict[str, None] | None = None
        """Keys of the jobs that have changed since the last snapshot. None: all views have to be built, as before the
        first snapshot."""
        self._orphans: dict[str, list[Task]] = {}
        """Key of a PodGroup that does not exist, or that another scheduler serves -> its tasks on nodes."""
        self._without_queue = without_queue
        self._without_group: dict[str, list[Task]] = {}
        """Key of a PodGroup that does not exist -> its tasks that are in ``without_queue``."""
        self._served: Callable[[str], bool] | None = None
        """Whether the scheduler serves a queue; None: it serves all."""
        self._width = 0
        """Width of the vectors in the views."""
        self._shares_views = False
        """Sessions of another table may change the views."""

    def lend(self) -> None:
        """Declares that a copy of this table has the same records and views."""
        self._shares_views = True

    def borrow(self) -> None:
        """Declares this table a copy that has its records and views in common with the original."""
        self._borrowed = set(self._records)
        self._shares_views = True

    # --- PodGroups ---
    def upsert(self, group: PodGroup) -> None:
        """Stores a PodGroup, unless one of its amounts is malformed."""
        meta, spec, status = group.metadata, group.spec, group.status
        minimum = None
        try:
            if spec.min_resources is not None:
                spec.min_resources, minimum = self._minimums.of(spec.min_resources)
        except QuantityError as error:
            self._malformed.add("spec.minResources", str(error))
            return
        if spec.min_member < 0:
            self._malformed.add("spec.minMember", f"{spec.min_member} is below 0")
            return
        if spec.min_task_member and (least := min(spec.min_task_member.values())) < 0:
            self._malformed.add("spec.minTaskMember", f"{least} is below 0")
            return
        if spec.network_topology is not None or spec.sub_group_policy:
            for field, problem in topology_problems_of(spec):
                self._malformed.add(field, problem)
        record = self._record(f"{meta.namespace}/{meta.name}")
        conditions = tuple(status.conditions or ())
        counts = _counts(status.running, status.succeeded, status.failed)
        old = record.spec
        if old is not None and record.uid != meta.uid:
            record.admission = Admission()
        annotations, text = without_record(meta.annotations or NOTHING)
        if CARD_GANGS in annotations:  # it is long, and equal jobs have equal ones
            annotations = {**annotations, CARD_GANGS: intern(annotations[CARD_GANGS])}
        record_changed = record.admission.observe(text)
        arrived = old is None or (
            (old, record.uid, record.labels, record.annotations, record.phase)
            != (spec, meta.uid, meta.labels, annotations, status.phase)
        )
        if not arrived and not record_changed and (record.conditions, record.counts) == (conditions, counts):
            return
        # One that only confirms what sessions know already, because it was derived, is no arrival.
        confirms = old is not None and not record.uid and (old, record.annotations) == (spec, annotations)
        # A cluster can have hundreds of thousands of PodGroups: what many have in common is in memory once.
        spec.queue, spec.priority_class_name = intern(spec.queue), intern(spec.priority_class_name)
        for condition in conditions:
            _share_texts(condition)
        record.spec = spec
        record.namespace, record.name, record.uid = intern(meta.namespace), meta.name, meta.uid
        record.labels, record.annotations = meta.labels, annotations
        owner = controller_of(group) if meta.owner_references else None
        record.owner_uid = owner.uid if owner is not None else ""
        record.owner_kind = find_kind(owner.api_version, owner.kind) if owner is not None else None
        record.queue = spec.queue or self._default_queue
        record.creation = seconds_of(meta.creation_timestamp)
        record.min_resources = minimum
        record.phase, record.conditions, record.counts = intern(status.phase), conditions, counts
        self._drop_view(record)
        self._version.increment()
        # A PodGroup that controllers make for existing Pods is of no use before the Pods name it.
        if arrived and not confirms and (not meta.name.startswith(PODGROUP_PREFIX) or self.is_complete(record.key)):
            self._version.arrived()

    def delete(self, key: str) -> None:
        """Removes a deleted PodGroup. Its tasks remain."""
        record = self._existing(key)
        if record is None or record.spec is None:
            return
        record.spec, record.uid = None, ""
        record.admission = Admission()
        record.phase, record.conditions, record.counts = "", (), (0, 0, 0)
        self._drop_view(record)
        if record.is_empty:
            del self._records[key]
        self._version.changed()

    def is_complete(self, key: str) -> bool:
        """Whether a PodGroup exists and has at least minMember Pods, whatever their statuses."""
        record = self._records.get(key)
        return record is not None and record.spec is not None and len(record.tasks) >= record.spec.min_member

    def uid(self, key: str) -> str:
        """The uid of a PodGroup, or ""."""
        record = self._records.get(key)
        return record.uid if record is not None else ""

    # --- statuses ---
    def assume(self, update: PodGroupStatusUpdate) -> None:
        """Treats a status as written, if the PodGroup still has the same uid."""
        record = self._existing(f"{update.namespace}/{update.name}")
        if record is not None and record.spec is not None and record.uid == update.uid:
            record.phase, record.conditions = update.phase, update.conditions
            record.counts = _counts(update.running, update.succeeded, update.failed)
            record.admission.assume(update)
            if update.alternative not in ("", record.annotations.get(CARD_ALTERNATIVE)):
                record.annotations = {**record.annotations, CARD_ALTERNATIVE: update.alternative}
            self._drop_view(record)
            self._version.increment()

    def statuses(self) -> list[PodGroupStatusUpdate]:
        """The statuses of all PodGroups, as last written or watched."""
        return [status for r in self._records.values() if (status := status_of(r)) is not None]

    # --- admissions ---
    def proven_admissions(self, key: SigningKey, now: float) -> list[Admitted]:
        """The admissions that signed records on PodGroups prove."""
        found = (proven(record, key, now) for record in self._records.values())
        return [admitted for admitted in found if admitted is not None]

    def enforce_admissions(self, admitted: Iterable[Admitted]) -> None:
        """Counts only PodGroups in ``admitted``, and those that sessions admit, as admitted from now on."""
        self._enforce_admissions = True
        for known in admitted:
            record = self._existing(known.key)
            if record is not None and record.spec is not None and record.uid == known.uid:
                record.admission.restore(known)
        self.drop_views(lambda record: record.view is not None and depends_on_admission(record.view, record.admission))

    def admissions(self) -> list[Admitted] | None:
        """All known admissions; None: admissions are not enforced, and the phase of each PodGroup counts."""
        if not self._enforce_admissions:
            return None
        known = (r.admission.admitted(key, r.uid) for key, r in self._records.items() if r.spec is not None)
        return [admitted for admitted in known if admitted is not None]

    # --- tasks ---
    def add_task(self, task: Task) -> None:
        """Adds a task to its job, or replaces it by a new version."""
        record = self._record(task.job)
        record.tasks[task.uid] = task
        self._drop_view(record)

    def messages_changed(self, key: str) -> None:
        """Notes that the message of a task of a job was changed in place."""
        record = self._existing(key)
        if record is not None:
            self._drop_view(record)

    def remove_task(self, task: Task) -> None:
        """Removes a task from its job."""
        record = self._record(task.job)
        record.tasks.pop(task.uid, None)
        if task.rank:
            record.remember_node(task)
        self._drop_view(record)
        if record.is_empty:
            del self._records[task.job]

    def _existing(self, key: str) -> JobRecord | None:
        """The record of a job, which the caller may change, or None."""
        record = self._records.get(key)
        if record is not None and key in self._borrowed:
            self._borrowed.discard(key)
            record = self._records[key] = record.copy()
        return record

    def _record(self, key: str) -> JobRecord:
        record = self._existing(key) if self._borrowed else self._records.get(key)
        if record is None:
            record = self._records[key] = JobRecord(key, {}, NOTHING, NOTHING)
        return record

    # --- views ---
    def serve(self, served: Callable[[str], bool]) -> None:
        """Leaves the jobs of other queues out of snapshots from now on; their tasks on nodes count as tasks without a
        job."""
        self._served = served
        if self._stale is not None:
            self._stale.update(dict.fromkeys(self._records))
        self._version.increment()

    def drop_views(self, condition: Callable[[JobRecord], bool] = lambda record: True) -> None:
        """Drops the views of all jobs, or of those that fulfil a condition, after a change of what they depend on."""
        for key in list(self._borrowed):
            self._existing(key)
        for record in filter(condition, self._records.values()):
            self._drop_view(record)
        self._version.increment()

    def update_priorities(self) -> None:
        """Drops the views of the jobs whose priority has changed with a PriorityClass."""
        priority = cache(self._priority)
        for key, record in list(self._records.items()):
            if record.spec is None or record.view is None:
                continue
            if record.view.priority != priority(record.spec.priority_class_name):
                self._drop_view(self._record(key))
        self._version.increment()

    def recount(self) -> None:
        """Computes all amounts again after the set of counted resources has changed."""
        self.drop_views()
        self._minimums.clear()
        for record in self._records.values():
            if record.spec is not None and record.spec.min_resources is not None:
                _, record.min_resources = self._minimums.of(record.spec.min_resources)

    def _drop_view(self, record: JobRecord) -> None:
        record.view = None
        if self._stale is not None:
            self._views.drop(record.key)
            self._stale[record.key] = None

    def compact(self) -> None:
        """Forgets jobs that came and went since the last snapshot."""
        if self._stale:
            known = (self._records, self._views, self._orphans)
            self._stale = {key: None for key in self._stale if any(key in table for table in known)}

    def views(self, queues: Collection[str]) -> JobsOfSession:
        """Returns the jobs for a snapshot. ``queues``: the names of all queues."""
        if self._stale is None or self._shares_views or self._width != self._dimensions.width:
            self._views.clear()
            self._orphans.clear()
            for key in list(self._without_group):
                self._replace_without_group(key, [])
            self._stale = dict.fromkeys(self._records)
            self._width = self._dimensions.width
        else:
            self._stale.update(dict.fromkeys(self._views.changed_by_sessions()))
        if self._stale:
            priority, vectors = cache(self._priority), SharedVectors(self._dimensions.nothing)
            for key in self._stale:
                self._update_view(key, priority, vectors)
            self._stale = {}
        active, settled = self._views.of_queues(queues)
        orphans = [task for tasks in self._orphans.values() for task in tasks]
        return JobsOfSession(*self._views.all(), active, settled, self._views.touched, orphans)

    def _update_view(self, key: str, priority: Callable[[str], int], vectors: SharedVectors) -> None:
        record = self._records.get(key)
        if self._orphans:
            self._orphans.pop(key, None)
            self._replace_without_group(key, [])
        if record is None:
            self._views.replace(key, None)
            return
        if self._served is None or self._served(record.queue):
            view = view_of(record, self._dimensions, priority, vectors, enforce_admissions=self._enforce_admissions)
        else:
            view = None
        self._views.replace(key, view)
        if view is None:
            orphans = [task for task in record.tasks.values() if holds_node(task)]
            if orphans:
                self._orphans[key] = orphans
                self._replace_without_group(key, orphans if record.spec is None else [])

    def _replace_without_group(self, key: str, tasks: list[Task]) -> None:
        """Replaces the tasks on nodes whose PodGroup does not exist."""
        old = self._without_group.pop(key, [])
        if tasks:
            self._without_group[key] = tasks
        if old or tasks:
            self._without_queue.replace(old, tasks)


@lru_cache(maxsize=4096)
def _counts(running: int, succeeded: int, failed: int) -> tuple[int, int, int]:
    """The counts of a PodGroup, which it shares with others."""
    return running, succeeded, failed


def _share_texts(condition: PodGroupCondition) -> None:
    """Interns the texts that conditions of PodGroups have in common."""
    condition.type, condition.status = intern(condition.type), intern(condition.status)
    condition.reason, condition.message = intern(condition.reason), intern(condition.message)
    if condition.last_transition_time is not None:
        condition.last_transition_time = intern(condition.last_transition_time)
