"""A session: one scheduling cycle over one snapshot, with the configured plugins.

The session holds the snapshot, the functions that plugins registered (``registration``), the views of classes
(``views``), and the decisions made so far. It does no I/O and reads no clock. Requests of plugins to other programs go
through ``external_calls``.
"""

from collections import ChainMap
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import cached_property
from typing import Any, Final, TypeVar

from msgspec import structs

from scheduler.api.decisions import Bind, Decisions, EventRecord, Evict, ObjectRef, Ungate
from scheduler.api.hypernode import HyperNodes
from scheduler.api.job import Job
from scheduler.api.names import REASON_NOT_ALLOCATABLE
from scheduler.api.node import Mask
from scheduler.api.preparation import Preparation
from scheduler.api.queue import Queue
from scheduler.api.reasons import Malformed, Refusal
from scheduler.api.resource import Dimensions, Vector
from scheduler.api.selectors import FieldReporter
from scheduler.api.signed_records import NO_ANNOTATIONS, BindingRecord, device_annotations
from scheduler.api.snapshot import SettledJobs, Snapshot
from scheduler.api.task import ALLOCATED_STATUSES, Task, TaskClass, TaskStatus
from scheduler.framework.arguments import Arguments
from scheduler.framework.charged_namespaces import charged_pods
from scheduler.framework.combining import DeallocateHandler, Function
from scheduler.framework.configuration import Configuration
from scheduler.framework.eviction_candidates import EvictionCandidates
from scheduler.framework.extension import (
    ALLOCATABLE,
    BIND_ANNOTATIONS,
    CARDS,
    NODE_ASSIGNMENT,
    PREPARATIONS,
    UNGATED,
    ExtensionPoint,
)
from scheduler.framework.external_calls import NO_EXTERNAL_CALLS, ExternalCalls
from scheduler.framework.figures import QueueUsage
from scheduler.framework.plugin_session import Plugin, PluginSession
from scheduler.framework.statement import AllocationError, Placement, Statement
from scheduler.framework.topology import set_tier_limits
from scheduler.framework.views import Views

T = TypeVar("T")
NO_CARDS: Final[Mapping[str, str]] = {}


class Session(Views):
    """One scheduling cycle, as actions see it. Plugins see the ``plugin_session``."""

    def __init__(
        self,
        snapshot: Snapshot,
        configuration: Configuration,
        *,
        nodes_limit: int = 0,
        external_calls: ExternalCalls = NO_EXTERNAL_CALLS,
    ) -> None:
        """``nodes_limit``: how many feasible nodes to consider per task; 0: all. ``external_calls``: carries out
        requests of plugins to other programs. ``cycle.open_plugins`` opens the plugins."""
        super().__init__(len(configuration.tiers), snapshot.nodes, nodes_limit)
        self.snapshot = snapshot
        self._external_calls = external_calls
        self.configuration = configuration
        self.read_time = False
        """Whether anything has read ``now``. If not, a session of an equal snapshot decides the same at any time."""
        self.used_external_calls = False
        """Whether a plugin has used ``external_calls``."""
        self.dimensions: Dimensions = snapshot.dimensions
        self.jobs: dict[str, Job] = snapshot.jobs
        self.active_jobs: dict[str, Job] = snapshot.active_jobs.copy()
        """The jobs that wait or are to be written, and those that the session has changed. The others are settled: they
        matter as victims and in ``settled_jobs``."""
        self.settled_jobs: Mapping[str, SettledJobs] = snapshot.settled_jobs
        """Queue -> sums over its settled jobs when the session was opened."""
        self.touched: dict[Job, Vector] = {}
        """Settled job that the session has changed -> its allocated amounts before."""
        self.queues: dict[str, Queue] = snapshot.queues
        self.hyper_nodes: HyperNodes = snapshot.hyper_nodes
        self.decisions = Decisions()
        divided = [job for job in self.active_jobs.values() if job.sub_jobs]
        self.malformed: list[Malformed] = list(set_tier_limits(divided, self.hyper_nodes)) if divided else []
        self.problems: list[str] = []
        """Invalid arguments of the configuration, equal in all its sessions, and failed requests to other programs."""
        self.plugins: list[Plugin] = []
        self.opened_with: dict[str, Arguments] = {}
        """Plugin -> the arguments that it was given, and has read."""
        self.open_seconds: dict[str, float] = {}
        """Plugin -> seconds that ``open`` took."""
        self.shared: dict[object, Any] = {}
        """Values that plugins share, by key."""
        self._extended: dict[int, bool] = {}
        self._malformed_of_classes: set[tuple[int, str, str]] = set()
        """Class id, field and key of the job, or "", of the fields of Pods that were set aside."""
        self.plugin_session = PluginSession(self)

    @property
    def now(self) -> float:
        """Unix time of the session, in seconds. A session reads no other clock."""
        self.read_time = True
        return self.snapshot.now

    @property
    def external_calls(self) -> ExternalCalls:
        """Carries out requests to other programs, whose answers may depend on time, too."""
        self.read_time = self.used_external_calls = True
        return self._external_calls

    def release(self) -> None:
        """Drops the snapshot and the plugins; the session cannot be used afterwards. The session, its plugins and their
        columns refer to each other, so without this call they would stay in memory until the cyclic garbage collector
        runs: in a long-running role, for hundreds of sessions."""
        for field in fields(self.snapshot):
            delattr(self.snapshot, field.name)
        for it in (*self.plugins, *self._views.values(), self.plugin_session, self):
            getattr(it, "__dict__", {}).clear()  # a plugin may have slots instead

    def once(self, make: Callable[["Session"], T]) -> T:
        """Returns the result of ``make``, which is called once in a session."""
        if make not in self.shared:
            self.shared[make] = make(self)
        made: T = self.shared[make]
        return made

    def memo(
        self,
        key: Hashable,
        version: tuple[object, ...],
        compute: Callable[[T | None], T],
        constants: Hashable = (),
    ) -> T:
        """Returns a value that is kept across sessions, as ``Memory.memo``. The key names the plugin and the value:
        ``("tdm", "zones")``, or is the type of the value."""
        return self.snapshot.memory.memo(key, version, compute, constants)

    @cached_property
    def total(self) -> Vector:
        """The sum of allocatable amounts over all nodes."""
        total: Vector = self.nodes.allocatable.sum(axis=1)
        return total

    def arguments(self, plugin: str) -> Arguments:
        """Returns the arguments of a plugin in the configuration."""
        options = (option for tier in self.configuration.tiers for option in tier)
        return Arguments(next((option.arguments for option in options if option.name == plugin), {}))

    # --- for plugins and actions ---
    def malformed_field(self, malformed: Malformed) -> None:
        """Records that a field was set aside: in a Warning Event and a metric."""
        if not isinstance(malformed, Malformed):
            raise TypeError(f"{malformed!r:.66} is not a Malformed")
        self.malformed.append(malformed)

    def malformed_pod(self, cls: TaskClass, field: str, problem: str) -> None:
        """Records that a field of the Pods of a class was set aside, once in a session. The Warning Event is on one of
        the Pods: while filters and scores are created for a job, on a Pod of that job."""
        viewing = self._viewing.key if self._viewing is not None else ""
        if (cls.id, field, viewing) in self._malformed_of_classes:
            return
        self._malformed_of_classes.add((cls.id, field, viewing))
        jobs = [self._viewing] if self._viewing is not None else self.jobs.values()
        name = next((task.name for job in jobs for task in job.tasks() if task.cls is cls), None)
        if name is None:
            name = self._viewing.name if self._viewing is not None else ""
        self.malformed_field(Malformed("Pod", cls.namespace, name, field, problem))

    def field_reporter(self, cls: TaskClass, prefix: str = "spec: ") -> FieldReporter:
        """Returns a reporter for invalid fields of the Pods of a class. Equal reports become one ``malformed_pod``.
        ``prefix`` is put before the name of the field."""
        reported: set[tuple[str, str]] = set()

        def report(field: str, problem: str) -> None:
            if (field, problem) not in reported:
                reported.add((field, problem))
                self.malformed_pod(cls, f"{prefix}{field}", problem)

        return report

    def usage_by_queue(self) -> dict[str, dict[str, QueueUsage]]:
        """Returns ``queue_usage`` of the queues that have any."""
        by_queue = ((name, self.queue_usage(queue)) for name, queue in self.queues.items())
        return {name: usage for name, usage in by_queue if usage}

    def event(self, about: ObjectRef, type_: str, reason: str, message: str) -> None:
        self.decisions.events.append(EventRecord(about, type_, reason, message))

    def refuse(self, job: Job, refusal: Refusal, *, restates: Refusal | None = None) -> None:
        """Records that the job as a whole is refused for now: in its conditions and, if the refusal is new, in an Event
        on its PodGroup. ``restates``: an earlier refusal by a plugin that this one repeats in other words."""
        del restates
        if not isinstance(refusal, Refusal):
            raise TypeError(f"{refusal!r:.66} is not a Refusal")
        self.touch(job)
        job.refusals += (refusal,)

    def refuse_without_reason(self, point: ExtensionPoint, queue: Queue, job: Job, cls: TaskClass) -> None:
        """Records which plugin has no room for tasks of a class, if no plugin has recorded why. ``point``: ALLOCATABLE
        or ALLOCATABLE_NOW, whose answer was 0."""
        noted = job.fit_errors.get(cls.id)
        if job.refusals or (noted is not None and noted.note):
            return
        functions = self.all_functions(point)
        function = next((each for each in functions if self.call(point, each, queue, job, cls) <= 0), None)
        if function is None or job.refusals:
            return
        plugin, when = self.plugin_of(function), "" if point is ALLOCATABLE else " while others terminate"
        text = f"plugin {plugin} allows no more of these Pods in queue {queue.name}{when}, and gives no reason"
        self.refuse(job, Refusal(REASON_NOT_ALLOCATABLE, text))

    def touch(self, job: Job) -> None:
        """Declares that the caller changes a job. Statements and ``refuse`` call it."""
        if job.key not in self.active_jobs:
            self.active_jobs[job.key] = job
            self.touched[job] = job.allocated
            self.snapshot.touched.setdefault(job, job.allocated)

    @contextmanager
    def with_trial_job(self, job: Job) -> Iterator[None]:
        """Within the context, plugins know a job that exists only for a trial, under a key that no PodGroup has. Its
        placements must be discarded."""
        self.jobs[job.key] = self.active_jobs[job.key] = job
        try:
            yield
        finally:
            del self.jobs[job.key], self.active_jobs[job.key]

    def queues_with_jobs(self) -> set[str]:
        """Returns the names of the queues that have jobs, or are charged for Pods without a queue, also of those that
        do not exist."""
        charged = self.once(charged_pods).amounts
        return {job.queue for job in self.active_jobs.values()} | self.settled_jobs.keys() | charged.keys()

    # --- for actions ---
    @cached_property
    def eviction_candidates(self) -> EvictionCandidates:
        """The tasks that hold nodes; created at the first use."""
        eviction_candidates = EvictionCandidates(self.jobs, self.nodes)
        self.allocate_handlers.append(eviction_candidates.allocated)
        self.deallocate_handlers.append(eviction_candidates.deallocated)
        return eviction_candidates

    def bounded(self, scope: Mask, point: ExtensionPoint, function: Function, preemptor: object) -> Mask:
        """Returns the candidates of a mask that the bound of a victim function does not exclude; all if it has none."""
        bound, candidates = self.bounds.get(function), self.eviction_candidates
        if bound is None:
            return scope
        try:
            return scope & bound(preemptor, candidates)
        except Exception as error:  # the code of others may raise anything
            self._fail(f"bound of {point.name}", function, error, preemptor)

    def is_traced(self, job: Job) -> bool:
        """Returns whether answers about the job are recorded, so that none of its questions may be left out."""
        del job
        return False

    def ungate(self, job: Job, tasks: Sequence[Task]) -> None:
        """Removes the scheduling gate of queue admission from tasks of one class. A later session places them."""
        self.decisions.ungates += map(Ungate, tasks)
        self.ask(UNGATED, job, tasks)

    def assigned(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> Sequence[int]:
        """Returns the rows of the nodes chosen for tasks of one class, in the order in which the tasks get them."""
        if len(rows) < 2 or not self.functions(NODE_ASSIGNMENT):
            return rows
        try:
            for function in self.all_functions(NODE_ASSIGNMENT):
                order: Any = function(job, tasks, rows)
                if order is None:
                    continue
                if not isinstance(order, Sequence) or sorted(order) != sorted(rows):
                    self._wrong_answer(function, order, f"the rows {rows} in another order, or None")
                found: Sequence[int] = order
                return found
        except Exception as error:  # the code of others may raise anything
            self._fail(NODE_ASSIGNMENT, function, error, job, tasks)
        return rows

    def statement(self) -> Statement:
        return Statement(self)

    def delete(self, evictions: Iterable[Evict]) -> None:
        """Deletes tasks for another reason than room for others. Tasks on a node of the session are evicted by a
        statement; the session does not count the others. Tasks that the session has evicted already are left out."""
        statement = self.statement()
        for eviction in evictions:
            task = eviction.task
            job = self.jobs.get(task.job)
            if job is not None and task.uid not in job.by_status.get(task.status, ()):
                continue
            if job is not None and task.status in ALLOCATED_STATUSES and task.node in self.nodes.index:
                statement.evict(job, task, eviction.reason, grace_period=eviction.grace_period)
            else:
                self.decisions.evictions.append(eviction)
        if statement:
            statement.commit()

    def row_of(self, job: Job, task: Task) -> int:
        """Returns the row of the node of a task. Raises KeyError if it has no known node."""
        row = job.placed.get(task.uid)
        return self.nodes.index[task.node] if row is None else row

    def status_of(self, job: Job, task: Task) -> TaskStatus:
        """Returns the task's status in this session. Raises KeyError if the job has no such task."""
        for status, tasks in job.by_status.items():
            if task.uid in tasks:
                return status
        raise KeyError(task.key)

    # --- for statements ---
    def notify_allocate(
        self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool, *, may_refuse: bool = True
    ) -> None:
        """Calls the handlers. If one raises an exception, those called before it are called to undo. ``may_refuse``:
        whether an AllocationError is raised as such; False: an eviction is undone."""
        called: list[DeallocateHandler] = []
        for allocate, deallocate in zip(self.allocate_handlers, self.deallocate_handlers, strict=True):
            try:
                allocate(job, tasks, rows, pipelined)
            except Exception as error:  # the code of others may raise anything
                self.notify_deallocate(job, tasks, rows, called)
                if may_refuse and isinstance(error, AllocationError):
                    raise
                self._fail("Allocate", allocate, error, job, tasks, node=self._only_node(rows))
            called.append(deallocate)

    def notify_deallocate(
        self,
        job: Job,
        tasks: Sequence[Task],
        rows: Sequence[int],
        handlers: Sequence[DeallocateHandler] | None = None,
    ) -> None:
        """Calls the handlers, the last one first. ``handlers``: only these; None: all."""
        try:
            for deallocate in reversed(self.deallocate_handlers if handlers is None else handlers):
                deallocate(job, tasks, rows)
        except Exception as error:  # the code of others may raise anything
            self._fail("Deallocate", deallocate, error, job, tasks, node=self._only_node(rows))

    def _only_node(self, rows: Sequence[int]) -> str:
        """Returns the name of the node of the rows; "": there are several."""
        return self.nodes.names[rows[0]] if len(rows) == 1 else ""

    def _is_extended(self, cls: TaskClass) -> bool:
        """Returns whether tasks of a class request extended resources."""
        known = self._extended.get(cls.id)
        if known is None:
            known = self._extended[cls.id] = self.dimensions.has_extended(cls.request)
        return known

    def bind(self, placements: Iterable[Placement]) -> None:
        """Makes placements final: the tasks become Binding and are added to the decisions. If one needs preparations,
        all wait for them."""
        names, binds = self.nodes.names, self.decisions.binds
        annotators, preparers = self.all_functions(BIND_ANNOTATIONS), self.all_functions(PREPARATIONS)
        first = len(binds)
        prepared = False
        for job, tasks, rows in placements:
            allocated = job.by_status[TaskStatus.ALLOCATED]
            binding = job.by_status.setdefault(TaskStatus.BINDING, {})
            extended = self._is_extended(tasks[0].cls)
            charged = self._charged(job, tasks[0].cls, rows)
            for task, row in zip(tasks, rows, strict=True):
                annotations = NO_ANNOTATIONS
                try:
                    for annotate in annotators:
                        more = annotate(task, row)
                        if more:
                            annotations = {**annotations, **more}
                except Exception as error:  # the code of others may raise anything
                    self._fail(BIND_ANNOTATIONS, annotate, error, task, job, node=names[row])
                preparations: tuple[Preparation, ...] = ()
                try:
                    for prepare in preparers:
                        preparations += tuple(prepare(task, row))
                except Exception as error:  # the code of others may raise anything
                    self._fail(PREPARATIONS, prepare, error, task, job, node=names[row])
                prepared = prepared or bool(preparations)
                del allocated[task.uid]
                binding[task.uid] = task
                devices = device_annotations(annotations) if annotations else annotations
                record = None
                if extended or devices or row in charged:
                    record = BindingRecord(names[row], job.queue, devices, charged.get(row, NO_CARDS))
                binds.append(Bind(task, names[row], annotations, preparations, record=record))
            if not allocated:
                del job.by_status[TaskStatus.ALLOCATED]
        if prepared:
            binds[first:] = [structs.replace(bind, together=first + 1) for bind in binds[first:]]

    def _charged(self, job: Job, cls: TaskClass, rows: Iterable[int]) -> Mapping[int, Mapping[str, str]]:
        """Returns row -> the cards that the job's queue is charged for there; without rows where it is charged for
        none."""
        functions = self.all_functions(CARDS)
        if not functions:
            return {}
        answers = [self.call(CARDS, cards, job, cls, list(dict.fromkeys(rows))) for cards in functions]
        return answers[0] if len(answers) == 1 else ChainMap(*answers)
