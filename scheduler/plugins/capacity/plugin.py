"""The plugin: admission, allocation, order and reclaim of queues.

Jobs are admitted and tasks are placed up to the limit of their queue and of all its ancestors. Tasks are reclaimed from
queues that hold more than they deserve. If an ancestor has reached its limit while nodes are idle, placements below it
are refused, and only victims below this ancestor help: they are evicted first.
"""

from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from typing import Any, ClassVar

from scheduler.api.job import Job
from scheduler.api.names import EVENT_UNSCHEDULABLE, SCHEDULING_GATES_QUEUE_ADMISSION
from scheduler.api.queue import Queue
from scheduler.api.reasons import Malformed, Refusal
from scheduler.api.resource import exceeded
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.arguments import Arguments
from scheduler.framework.extension import ENABLE_HIERARCHY, Vote
from scheduler.framework.figures import Figures
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin
from scheduler.plugins.capacity.books import QueueBook, QueueTree, flat_books, queue_tree, tree_books
from scheduler.plugins.capacity.devices import DeviceQuota
from scheduler.plugins.capacity.reclaim import QueueReclaim
from scheduler.plugins.support.queue_accounting import (
    QUOTA_INSUFFICIENT,
    not_admitted,
    not_open,
    of_queue,
    overused,
    reservation,
)


@register_plugin
class Capacity:
    """Flag ``enableHierarchy`` (default false): use the hierarchy of queues. Argument ``ancestorReclaimLevel`` (default
    0; negative counts as 0): how many ancestors of a leaf queue are checked for reclaim. Arguments
    ``capacity.DynamicResourceAllocationEnable`` and ``capacity.DRAConsumableCapacityEnable`` (both default true):
    whether claimed devices, and amounts of their capacity, are limited."""

    name: ClassVar[str] = "capacity"

    def __init__(self, arguments: Arguments) -> None:
        self._level = max(arguments.integer("ancestorReclaimLevel", 0), 0)
        self._devices = arguments.boolean("capacity.DynamicResourceAllocationEnable", True)
        self._device_capacity = arguments.boolean("capacity.DRAConsumableCapacityEnable", True)

    def open(self, session: PluginSession) -> None:
        self._session = session
        if session.option(ENABLE_HIERARCHY):
            tree = self._tree = queue_tree(session.queues)
            self._report_faults(tree)
            self._books = tree_books(session, tree)
            self._ages = self._oldest_jobs_queues(tree)
            session.add_queue_order(self._tree_key)
            session.add_victim_queue_order(self._victim_key)
            session.add_job_valid(self._hierarchy_refusal)
            level = self._level
        else:
            self._tree = QueueTree()
            self._books = flat_books(session)
            session.add_queue_order(self._flat_key)
            level = 0
        self._reclaim = reclaim = QueueReclaim(session, self._books, level)
        session.add_job_enqueueable(self._enqueueable)
        session.add_job_enqueued(self._enqueued)
        session.add_allocatable(self._allocatable, by_demand=True)
        session.add_preemptive(self._preemptive, by_demand=True)
        session.add_reclaimable(
            reclaim.victims, bound=lambda task, candidates: reclaim.shares.giving(candidates), by_demand=True
        )
        session.add_unified_evictable(reclaim.evictable)
        session.add_keeps_deserved(reclaim.losses, bound=reclaim.possible_losses, most=reclaim.most_losses)
        session.add_deserved(lambda: {name: book.deserved for name, book in self._books.items()})
        session.add_figures(lambda: Figures(queues=self._books))
        session.add_handlers(partial(self._count, 1), partial(self._count, -1))
        if SCHEDULING_GATES_QUEUE_ADMISSION in session.configuration.features:
            Reservations(session, self._books).register()
        if self._devices and any(queue.device_limits for queue in session.queues.values()):
            DeviceQuota(session, self._path, by_capacity=self._device_capacity).register()

    def _path(self, name: str) -> list[str]:
        return [book.name for book in self._books[name].path]

    def _report_faults(self, tree: QueueTree) -> None:
        for name, fault in tree.faults.items():
            problem = Malformed("Queue", "", name, "spec.parent", fault, "the jobs of this queue wait")
            self._session.malformed_field(problem)

    # --- orders ---
    def _flat_key(self, queue: Queue) -> tuple[Any, ...]:
        book = self._books[queue.name]
        return (-queue.priority, book.share, book.best_effort)

    def _tree_key(self, queue: Queue) -> tuple[Any, ...]:
        """Orders leaf queues first, then by the shares of the ancestors that are siblings, then by the queues' own.
        Shares of queues with children are those at the opening of the session (as in Volcano)."""
        book = self._books[queue.name]
        side_by_side = [(above.opening_share, *self._age(above)) for above in reversed(book.path[1:-1])]
        has_children = bool(self._tree.children.get(queue.name))
        return (-queue.priority, has_children, *side_by_side, (book.share, *self._age(book)))

    def _age(self, book: QueueBook) -> tuple[bool, float, str]:
        queue = self._session.queues[book.name]
        return (book.best_effort, *self._ages.get(book.name, (queue.creation, queue.name)))

    def _oldest_jobs_queues(self, tree: QueueTree) -> dict[str, tuple[float, str]]:
        """Queue -> creation time and name of its oldest descendant (or itself) with jobs. It decides between queues
        with equal shares. Volcano compares the ages of two leaves, which is not a total order."""
        oldest: dict[str, tuple[float, str]] = {}
        for name in self._session.queues_with_jobs() & self._session.queues.keys():
            age = (self._session.queues[name].creation, name)
            for above in tree.path(name):
                oldest[above] = min(age, oldest.get(above, age))
        return oldest

    def _victim_key(self, queue: Queue, reclaimer: Queue) -> int:
        """Queues close to the preemptor's in the hierarchy lose tasks first."""
        mine = {above.name for above in self._books[reclaimer.name].path[1:]}
        return -sum(above.name in mine for above in self._books[queue.name].path[1:])

    # --- admission ---
    def _hierarchy_refusal(self, job: Job) -> Refusal | None:
        """Why no job of the queue can be scheduled at all, or None."""
        fault = self._tree.faults.get(job.queue)
        if fault is not None:
            message = f"queue {job.queue} is not in the hierarchy of queues, so its jobs wait: {fault}"
            return Refusal(EVENT_UNSCHEDULABLE, message)
        below = self._tree.children.get(job.queue)
        if below:
            names = ", ".join(below[:5]) + (", ..." if len(below) > 5 else "")
            message = f"queue {job.queue} has {len(below)} queues below it ({names}): only those without take jobs"
            return Refusal(EVENT_UNSCHEDULABLE, message)
        return None

    def _enqueueable(self, job: Job) -> Vote:
        refusal = self._admission_refusal(job)
        if refusal is None:
            return Vote.PERMIT
        self._session.refuse(job, refusal)
        return Vote.REJECT

    def _admission_refusal(self, job: Job) -> Refusal | None:
        refusal = self._hierarchy_refusal(job)
        if refusal is not None:
            return refusal
        queue = self._session.queues[job.queue]
        if not queue.open:
            return not_open(queue)
        asked = job.min_resources
        if asked is None:
            return None
        for book in self._books[job.queue].path:
            reserved = book.admission_usage()
            over = exceeded(asked + reserved, book.limit, asked)
            if over:
                return not_admitted(
                    self._session.dimensions,
                    QUOTA_INSUFFICIENT,
                    "insufficient",
                    over,
                    where=_queue_with_limit(book, queue),
                    of=of_queue(book.name),
                    asked=asked,
                    used_or_reserved=reserved,
                    limit=book.limit,
                )
        return None

    def _enqueued(self, job: Job) -> None:
        if job.min_resources is not None:
            amount = reservation(self._session, job, job.min_resources)
            for book in self._books[job.queue].path:
                book.inqueue = book.inqueue + amount

    # --- placing tasks ---
    def _allocatable(self, queue: Queue, job: Job, cls: TaskClass) -> int:
        if not queue.open:
            self._session.refuse(job, not_open(queue))
            return 0
        room, full = min(((book.room(cls), book) for book in self._books[queue.name].path), key=itemgetter(0))
        if room == 0:
            taken = full.taken(cls)
            refusal = overused(
                self._session.dimensions,
                f"{_queue_with_limit(full, queue)} has all it may have in use",
                exceeded(taken + cls.request, full.limit, cls.request),
                of_queue(full.name),
                asked=cls.request,
                used=taken,
                limit=full.limit,
            )
            self._session.refuse(job, refusal)
        return room

    # --- reclaim ---
    def _preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        request = self._session.dimensions.zeros()
        for task in tasks:
            request += task.cls.request
        return queue.open and self._reclaim.may_reclaim(self._books[queue.name], request)

    # --- books ---
    def _count(self, sign: int, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool = False) -> None:
        book = self._books.get(job.queue)
        if book is not None:  # None: the queue was deleted, but its tasks may still be evicted
            book.take(tasks[0].cls.request * (sign * len(tasks)))
            self._reclaim.changed(job.queue)


def _queue_with_limit(book: QueueBook, queue: Queue) -> str:
    """Names the queue with the limit, for messages about ``queue``."""
    return f"queue {book.name}" if book.name == queue.name else f"queue {book.name}, above {queue.name},"


class Reservations:
    """Room in queues that is reserved for tasks whose queue admission gate was removed, in one session.

    Such a task is pending, has the annotation and no gate; this is derived from the Pod, so it survives a restart. The
    task may wait long for new nodes. Until it is placed, no other task gets its room in its queue or in the ancestors.
    """

    def __init__(self, session: PluginSession, books: dict[str, QueueBook]) -> None:
        self._session = session
        self._books = books
        self._held: set[str] = set()
        """uids of the tasks that have a reservation."""

    def register(self) -> None:
        """Counts tasks that earlier sessions ungated, and registers the handlers of this session."""
        for job in self._session.active_jobs.values():
            waiting: dict[TaskClass, list[Task]] = {}
            for task in job.of(TaskStatus.PENDING).values():
                if task.cls.requests_queue_gate and not task.gated:
                    waiting.setdefault(task.cls, []).append(task)
            for tasks in waiting.values():
                self._reserve(job, tasks)
        self._session.add_ungated(self._reserve)
        self._session.add_handlers(self._allocated, self._deallocated)

    def _reserve(self, job: Job, tasks: Sequence[Task]) -> None:
        self._count(job, [task for task in tasks if task.uid not in self._held], 1)
        self._held.update(task.uid for task in tasks)

    def _allocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        placed = [task for task in tasks if task.uid in self._held]
        self._count(job, placed, -1)
        self._held.difference_update(task.uid for task in placed)

    def _deallocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Reserves again for a task whose placement is undone. An evicted task gets no reservation."""
        self._reserve(job, [t for t in tasks if t.cls.requests_queue_gate and t.status is TaskStatus.PENDING])

    def _count(self, job: Job, tasks: Sequence[Task], sign: int) -> None:
        book = self._books.get(job.queue)
        if book is None or not tasks:
            return
        amount = tasks[0].cls.request * (len(tasks) * sign)
        for above in book.path:
            above.reserved = above.reserved + amount
