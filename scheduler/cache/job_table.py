"""The jobs' side of the cache: PodGroups taken in, the tasks that belong to them, and Job views out."""

from collections.abc import Callable, Iterable

from scheduler.api.decisions import PodGroupStatusUpdate
from scheduler.api.job import Job
from scheduler.api.quantity import QuantityError
from scheduler.api.resource import Dimensions
from scheduler.api.scheduling import PodGroup
from scheduler.api.signing import SigningKey
from scheduler.api.task import Task
from scheduler.cache.admissions import Admission, Admitted, proven, without_record
from scheduler.cache.job_records import JobRecord, status_of, view_of
from scheduler.cache.metadata import seconds
from scheduler.cache.pod_tasks import holds_node
from scheduler.cache.set_aside import SetAside
from scheduler.cache.sub_groups import problems_of
from scheduler.cache.version import Version


class JobTable:
    """All jobs, by ``namespace/name`` of their PodGroups, whether these are known yet or not."""

    def __init__(
        self,
        dimensions: Dimensions,
        version: Version,
        aside: SetAside,
        priority: Callable[[str], int],
        default_queue: str,
    ) -> None:
        """``priority`` gives the value of a priority class name; ``default_queue`` has the jobs that name none."""
        self._dimensions = dimensions
        self._version = version
        self._aside = aside
        self._priority = priority
        self._default_queue = default_queue
        self._guarded = False
        """Only those PodGroups are admitted that are known to be."""
        self._records: dict[str, JobRecord] = {}
        self._borrowed: set[str] = set()
        """Keys of records that another table has as well: they are copied before they are changed."""

    def borrow(self) -> None:
        """This is a copy whose records the original has as well."""
        self._borrowed = set(self._records)

    # --- PodGroups ---
    def upsert(self, group: PodGroup) -> None:
        """Take a PodGroup object."""
        meta, spec, status = group.metadata, group.spec, group.status
        try:
            minimum = None if spec.min_resources is None else self._dimensions.vector(spec.min_resources)
        except QuantityError as error:
            self._aside.add("spec.minResources", str(error))
            return
        if spec.min_member < 0:
            self._aside.add("spec.minMember", f"{spec.min_member} is below 0")
            return
        least = min((spec.min_task_member or {}).values(), default=0)
        if least < 0:
            self._aside.add("spec.minTaskMember", f"{least} is below 0")
            return
        for field, problem in problems_of(spec):
            self._aside.add(field, problem)
        record = self._record(f"{meta.namespace}/{meta.name}")
        conditions = tuple(status.conditions or ())
        counts = (status.running, status.succeeded, status.failed)
        old = record.group
        if old is not None and old.metadata.uid != meta.uid:
            record.admission = Admission()
        annotations, text = without_record(meta.annotations or {})
        altered = record.admission.see(text)
        if (
            old is not None
            and not altered
            and (old.spec, old.metadata.uid, old.metadata.labels, record.annotations)
            == (spec, meta.uid, meta.labels, annotations)
            and (record.phase, record.conditions, record.counts) == (status.phase, conditions, counts)
        ):
            return
        record.group = group
        record.annotations = annotations
        record.queue = spec.queue or self._default_queue
        record.creation = seconds(meta.creation_timestamp)
        record.min_resources = minimum
        record.phase, record.conditions, record.counts = status.phase, conditions, counts
        record.view = None
        self._version.grow()

    def delete(self, key: str) -> None:
        """A PodGroup is gone; its tasks stay."""
        record = self._known(key)
        if record is None or record.group is None:
            return
        record.group = None
        record.admission = Admission()
        record.phase, record.conditions, record.counts = "", (), (0, 0, 0)
        record.view = None
        if record.forgotten:
            del self._records[key]
        self._version.grow()

    def keys(self) -> list[str]:
        """Those of which the PodGroup is known."""
        return [key for key, record in self._records.items() if record.group is not None]

    def uid(self, key: str) -> str:
        """The uid of a PodGroup; "" if there is none."""
        record = self._records.get(key)
        return record.group.metadata.uid if record is not None and record.group is not None else ""

    # --- statuses ---
    def assume(self, update: PodGroupStatusUpdate) -> None:
        """A PodGroup's status is taken as written, if it is still the same PodGroup."""
        record = self._known(f"{update.namespace}/{update.name}")
        if record is not None and record.group is not None and record.group.metadata.uid == update.uid:
            record.phase, record.conditions = update.phase, update.conditions
            record.counts = (update.running, update.succeeded, update.failed)
            record.admission.assume(update)
            record.view = None
            self._version.grow()

    def statuses(self) -> list[PodGroupStatusUpdate]:
        """The statuses of all PodGroups, as last written or heard."""
        return [status for r in self._records.values() if (status := status_of(r)) is not None]

    # --- admissions ---
    def known_admissions(self, key: SigningKey, now: float) -> list[Admitted]:
        """Those that are proven by what PodGroups carry."""
        groups = [(record.group, record) for record in self._records.values() if record.group is not None]
        found = (proven(group, record.queue, record.admission.text, key, now) for group, record in groups)
        return [admitted for admitted in found if admitted is not None]

    def guard(self, admitted: Iterable[Admitted]) -> None:
        """From now on only those PodGroups are admitted that were so, and those that sessions admit."""
        self._guarded = True
        for known in admitted:
            record = self._known(known.key)
            if record is not None and record.group is not None and record.group.metadata.uid == known.uid:
                record.admission.take(known)
        self.forget_views()

    def admissions(self) -> list[Admitted] | None:
        """All that are known; None: every phase counts."""
        if not self._guarded:
            return None
        known = (
            r.admission.admitted(key, r.group.metadata.uid) for key, r in self._records.items() if r.group is not None
        )
        return [admitted for admitted in known if admitted is not None]

    # --- tasks ---
    def join(self, task: Task) -> None:
        """A task of a job, or a new version of it."""
        record = self._record(task.job)
        record.tasks[task.uid] = task
        record.view = None

    def leave(self, task: Task) -> None:
        """A task is in its job no more."""
        record = self._record(task.job)
        record.tasks.pop(task.uid, None)
        record.view = None
        if record.forgotten:
            del self._records[task.job]

    def _known(self, key: str) -> JobRecord | None:
        """The record of a job, if there is one, which may be changed."""
        record = self._records.get(key)
        if record is not None and key in self._borrowed:
            self._borrowed.discard(key)
            record = self._records[key] = record.copy()
        return record

    def _record(self, key: str) -> JobRecord:
        record = self._known(key)
        if record is None:
            record = self._records[key] = JobRecord(key)
        return record

    # --- views ---
    def forget_views(self) -> None:
        """Something that all views are made with has changed."""
        for key in list(self._borrowed):
            self._known(key)
        for record in self._records.values():
            record.view = None
        self._version.grow()

    def count_again(self) -> None:
        """Work out all amounts anew, now that other resources are counted."""
        self.forget_views()
        for record in self._records.values():
            if record.group is not None and record.min_resources is not None:
                record.min_resources = self._dimensions.vector(record.group.spec.min_resources)

    def views(self) -> tuple[dict[str, Job], list[Task]]:
        """The jobs, and the tasks on nodes whose PodGroup is not known."""
        jobs: dict[str, Job] = {}
        strangers: list[Task] = []
        for key, record in self._records.items():
            view = view_of(record, self._dimensions, self._priority, guarded=self._guarded)
            if view is not None:
                jobs[key] = view
            else:
                strangers += [task for task in record.tasks.values() if holds_node(task)]
        return jobs, strangers
