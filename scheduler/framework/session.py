"""A session: one cycle of deciding, over one snapshot, with the configured plugins.

The session holds the snapshot, the functions that plugins registered, and the decisions made so far. Nothing in it does
I/O or reads a clock; what plugins ask other programs goes through ``outside``. How answers of several plugins combine
is told by their extension point.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np

from scheduler.api.decisions import Bind, Decisions, EventPost, ObjectRef, Ungate
from scheduler.api.hypernode import HyperNode, HyperNodes
from scheduler.api.job import Job
from scheduler.api.names import SCHEDULING_API_VERSION
from scheduler.api.node import Column, Nodes
from scheduler.api.queue import Queue
from scheduler.api.reasons import Malformed, Refusal
from scheduler.api.resource import Dimensions, Vector
from scheduler.api.snapshot import Snapshot
from scheduler.api.subjob import SubJob
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework import registry
from scheduler.framework.arguments import Arguments
from scheduler.framework.classview import ClassView
from scheduler.framework.columns import Filter, Score
from scheduler.framework.combining import Function, Functions
from scheduler.framework.configuration import Configuration, PluginOption
from scheduler.framework.extension import (
    ALLOCATABLE,
    BEST_NODE,
    BIND_ANNOTATIONS,
    FIGURES,
    HYPER_NODE_GRADIENT,
    HYPER_NODE_ORDER,
    JOB_ENQUEUEABLE,
    JOB_ENQUEUED,
    JOB_ORDER,
    JOB_PIPELINED,
    JOB_READY,
    JOB_STARVING,
    JOB_VALID,
    NODE_ORDER,
    OVERUSED,
    PREDICATE,
    PREEMPTABLE,
    PREEMPTIVE,
    PREPARATIONS,
    QUEUE_ORDER,
    RECLAIMABLE,
    SUB_JOB_ORDER,
    SUB_JOB_PIPELINED,
    SUB_JOB_READY,
    TASK_ORDER,
    UNGATED,
    VICTIM_LIMIT,
    VICTIM_QUEUE_ORDER,
    VICTIM_TASKS,
    ExtensionPoint,
)
from scheduler.framework.figures import Figures
from scheduler.framework.outside import NOBODY, Outside
from scheduler.framework.statement import Statement
from scheduler.framework.tenants import Bound, Tenants
from scheduler.framework.topology import set_tier_limits

Placement = tuple[Job, Sequence[Task], Sequence[int]]
"""Tasks of one job and their rows."""


class AllocateHandler(Protocol):
    def __call__(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        """Tasks of one class took their nodes. May raise AllocationError."""


class DeallocateHandler(Protocol):
    def __call__(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Tasks of one class lost their nodes, or a placement was undone."""


class Session:
    """One cycle of deciding."""

    def __init__(
        self,
        snapshot: Snapshot,
        configuration: Configuration,
        *,
        nodes_limit: int = 0,
        stopwatch: Callable[[], float] = lambda: 0.0,
        outside: Outside = NOBODY,
    ) -> None:
        """``nodes_limit``: how many feasible nodes to look at per task, 0 for all. ``stopwatch``: seconds since any
        moment, for ``open_seconds`` alone. ``outside``: answers plugins that ask other programs."""
        self.snapshot = snapshot
        self.outside = outside
        self.configuration = configuration
        self.now = snapshot.now
        self.dimensions: Dimensions = snapshot.dimensions
        self.nodes: Nodes = snapshot.nodes
        self.jobs: dict[str, Job] = snapshot.jobs
        self.queues: dict[str, Queue] = snapshot.queues
        self.hyper_nodes: HyperNodes = snapshot.hyper_nodes
        self.placing: SubJob | None = None
        """The sub-job of which tasks are being placed: scores look at where the rest of it is."""
        self.decisions = Decisions()
        self.malformed: list[Malformed] = list(set_tier_limits(self.jobs.values(), self.hyper_nodes))
        self.problems: list[str] = []
        """What is wrong with the arguments of the configuration, which is the same for all its sessions, and what other
        programs failed to answer."""
        self.nodes_limit = nodes_limit
        self.plugins: list[registry.Plugin] = []
        self.open_seconds: dict[str, float] = {}
        """Plugin -> how long it took to open."""
        self._stopwatch = stopwatch
        self._functions = Functions(len(configuration.tiers))
        self._variants: list[Callable[[Job], object]] = []
        self._situations: list[Callable[[TaskClass], object]] = []
        self._bounds: dict[Function, Bound] = {}
        self._moving: set[ExtensionPoint] = set()
        self._allocate: list[AllocateHandler] = []
        self._deallocate: list[DeallocateHandler] = []
        self._views: dict[tuple[object, ...], ClassView] = {}
        self.shared: dict[object, Any] = {}
        """What plugins compute once for all of them, by key."""
        self._tier = 0
        self._option = PluginOption("")
        self._open()

    def _open(self) -> None:
        for number, tier in enumerate(self.configuration.tiers):
            self._tier = number
            for option in tier:
                factory = registry.plugin(option.name)
                if factory is None:
                    continue
                self._option = option
                begun = self._stopwatch()
                arguments = Arguments(option.arguments)
                plugin = factory(arguments)
                self.problems += [f"plugin {option.name}: {problem}" for problem in arguments.problems]
                self.plugins.append(plugin)
                plugin.open(self)
                self.open_seconds[option.name] = self._stopwatch() - begun

    @cached_property
    def total(self) -> Vector:
        """Sum of allocatable over all nodes."""
        total: Vector = self.nodes.allocatable.sum(axis=1)
        return total

    # --- for plugins: registration ---
    def add(
        self,
        point: ExtensionPoint,
        function: Function,
        variant: Callable[[Job], object] | None = None,
        bound: Bound | None = None,
        *,
        moving: bool = False,
    ) -> None:
        """Register a function of the plugin being opened. It is left out if the plugin's flags switch it off.

        PREDICATE and NODE_ORDER functions are asked once per class, and once more for each value of ``variant(job)``:
        a plugin that answers by queue gives ``lambda job: job.queue``, one that answers by job its key. ``bound`` says
        for whole columns whom a victim function refuses in any case (see ``tenants``). ``moving``: the key of one job
        or queue changes when another gets something.
        """
        if not self._option.enabled(point.flag):
            return
        self._functions.add(point, self._tier, function)
        if variant is not None:
            self._variants.append(variant)
        if bound is not None:
            self._bounds[function] = bound
        if moving:
            self._moving.add(point)

    def add_situation(self, situation: Callable[[TaskClass], object]) -> None:
        """``situation(cls)``: what matters of the claims of a class at this moment. Classes that differ in nothing else
        and are in the same situation share their filters and scores; a class that comes into another is asked anew."""
        self._situations.append(situation)

    def add_veto(self, point: ExtensionPoint, spared: Callable[[Task | None, Task], bool]) -> None:
        """``spared(claimant, task)``: the task is no victim at this point, whatever plugins and tiers say. Which flags
        switch a veto off is the plugin's business."""
        self._functions.add_veto(point, spared)

    def add_handlers(self, allocate: AllocateHandler, deallocate: DeallocateHandler) -> None:
        """Be told of every placement and of every one undone."""
        self._allocate.append(allocate)
        self._deallocate.append(deallocate)

    def option(self, flag: str) -> bool:
        """Whether a flag is on for the plugin being opened (``enableHierarchy``)."""
        return self._option.enabled(flag)

    def malformed_field(self, malformed: Malformed) -> None:
        """A field was set aside; it is told in a Warning Event and counted."""
        self.malformed.append(malformed)

    def event(self, about: ObjectRef, type_: str, reason: str, message: str) -> None:
        self.decisions.events.append(EventPost(about, type_, reason, message))

    @staticmethod
    def refuse(job: Job, refusal: Refusal) -> None:
        """The job as a whole is refused for now: told in its conditions, and in an Event on its PodGroup when new."""
        job.refusals.append(refusal)

    # --- what plugins registered ---
    def functions(self, point: ExtensionPoint) -> list[list[Function]]:
        """The functions registered at a point, tier by tier."""
        return self._functions.at(point)

    def ask(self, point: ExtensionPoint, *arguments: Any) -> Any:
        """What the plugins answer together at a point, by its combinator (see ``Functions.ask``)."""
        return self._functions.ask(point, *arguments)

    # --- for actions: orders ---
    def moves(self, point: ExtensionPoint) -> bool:
        """Whether keys of this order change when others than the one they are of get something."""
        return point in self._moving

    @cached_property
    def job_rank(self) -> Callable[[Job], tuple[Any, ...]]:
        """What the plugins say of a job's turn; jobs of one rank are told apart by age alone."""
        functions = self._functions.flat(JOB_ORDER)
        return lambda job: tuple(f(job) for f in functions)

    @cached_property
    def job_key(self) -> Callable[[Job], tuple[Any, ...]]:
        rank = self.job_rank
        return lambda job: (*rank(job), job.creation, job.key)

    @cached_property
    def queue_key(self) -> Callable[[Queue], tuple[Any, ...]]:
        functions = self._functions.flat(QUEUE_ORDER)
        return lambda queue: (*(f(queue) for f in functions), queue.creation, queue.name)

    @cached_property
    def victim_queue_key(self) -> Callable[[Queue, Queue], tuple[Any, ...]]:
        """(a victim's queue, the claimant's): the smaller loses tasks first; equal ones by reverse queue order."""
        functions = self._functions.flat(VICTIM_QUEUE_ORDER)
        return lambda queue, claimant: tuple(f(queue, claimant) for f in functions)

    @cached_property
    def task_key(self) -> Callable[[Task], tuple[Any, ...]]:
        functions = self._functions.flat(TASK_ORDER)
        return lambda task: (*(f(task) for f in functions), task.index, task.creation, task.uid)

    @cached_property
    def sub_job_key(self) -> Callable[[SubJob], tuple[Any, ...]]:
        functions = self._functions.flat(SUB_JOB_ORDER)
        return lambda sub_job: (*(f(sub_job) for f in functions), sub_job.index, sub_job.key)

    # --- for actions: questions ---
    def job_valid(self, job: Job) -> Refusal | None:
        refusal: Refusal | None = self.ask(JOB_VALID, job)
        return refusal

    def job_missing(self, job: Job) -> int:
        """0 if the job is ready, else a lower bound of the tasks still to be placed for it to be."""
        return max((function(job) for function in self._functions.flat(JOB_READY)), default=0)

    def job_ready(self, job: Job) -> bool:
        return self.job_missing(job) == 0

    def job_pipelined(self, job: Job) -> bool:
        return self._functions.vote(JOB_PIPELINED, job)

    def sub_job_missing(self, job: Job, sub_job: SubJob | None) -> int:
        """``job_missing`` of a sub-group; of the job, where it has none."""
        if sub_job is None or not job.grouped:
            return self.job_missing(job)
        return max((function(sub_job) for function in self._functions.flat(SUB_JOB_READY)), default=0)

    def sub_job_ready(self, job: Job, sub_job: SubJob | None) -> bool:
        return self.sub_job_missing(job, sub_job) == 0

    def sub_job_pipelined(self, job: Job, sub_job: SubJob | None) -> bool:
        """``job_pipelined`` of a sub-group; of the job, where it has none."""
        if sub_job is None or not job.grouped:
            return self.job_pipelined(job)
        return self._functions.vote(SUB_JOB_PIPELINED, sub_job)

    def job_starving(self, job: Job) -> bool:
        for tier in self.functions(JOB_STARVING):
            if tier:
                return all(function(job) for function in tier)
        return False

    def job_enqueueable(self, job: Job) -> bool:
        return self._functions.vote(JOB_ENQUEUEABLE, job)

    def job_enqueued(self, job: Job) -> None:
        self.ask(JOB_ENQUEUED, job)

    def overused(self, queue: Queue) -> Refusal | None:
        refusal: Refusal | None = self.ask(OVERUSED, queue)
        return refusal

    def allocatable(self, queue: Queue, job: Job, cls: TaskClass, wanted: int) -> int:
        """How many of ``wanted`` tasks of the class the queue may be given now."""
        for function in self._functions.flat(ALLOCATABLE):
            wanted = min(wanted, function(queue, job, cls))
            if wanted <= 0:
                return 0
        return wanted

    def ungate(self, job: Job, tasks: Sequence[Task]) -> None:
        """Take the scheduling gate of queue admission off tasks of one class; a later session places them."""
        self.decisions.ungates += map(Ungate, tasks)
        self.ask(UNGATED, job, tasks)

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        return bool(self.ask(PREEMPTIVE, queue, tasks))

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        return self._functions.victims(PREEMPTABLE, preemptor, candidates)

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> list[Task]:
        return self._functions.victims(RECLAIMABLE, reclaimer, candidates)

    def victim_tasks(self, candidates: Sequence[Task]) -> list[Task]:
        victims: list[Task] = self.ask(VICTIM_LIMIT, self._functions.union(VICTIM_TASKS, candidates))
        return victims

    def bound(self, function: Function) -> Bound | None:
        """The bound of a victim function; None: it may approve of anybody."""
        return self._bounds.get(function)

    @cached_property
    def tenants(self) -> Tenants:
        """The tasks that hold nodes, from the first time they are asked for."""
        tenants = Tenants(self.jobs, self.nodes)
        self.add_handlers(tenants.allocated, tenants.deallocated)
        return tenants

    # --- for actions: HyperNodes ---
    def gradients(self, target: Job | SubJob, within: HyperNode, evict: bool = False) -> list[list[HyperNode]]:
        """The HyperNodes within one that may take the tasks of a job or sub-job, those to be tried first in front: a
        list for each degree of closeness. ``evict``: tasks there may be evicted for it."""
        answer: list[list[HyperNode]] | None = self.ask(HYPER_NODE_GRADIENT, target, within, evict)
        return [[within]] if answer is None else answer

    def hyper_node_scores(self, sub_job: SubJob, hyper_nodes: Sequence[HyperNode]) -> Column:
        """How good each HyperNode is for a sub-job as a whole; the higher the better."""
        scores: Column = np.zeros(len(hyper_nodes)) + self.ask(HYPER_NODE_ORDER, sub_job, hyper_nodes)
        return scores

    # --- for actions: nodes ---
    def filters(self, cls: TaskClass, job: Job) -> list[Filter]:
        return [f for function in self._functions.flat(PREDICATE) for f in function(cls, job)]

    def scores(self, cls: TaskClass, job: Job) -> list[Score]:
        return [s for function in self._functions.flat(NODE_ORDER) for s in function(cls, job)]

    def view(self, cls: TaskClass, job: Job) -> ClassView:
        """The nodes as tasks of the class see them; kept for the session."""
        key: tuple[object, ...] = (cls.id, *(variant(job) for variant in self._variants))
        if cls.claims:
            key = (cls.alike, *key[1:], *(situation(cls) for situation in self._situations))
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = ClassView(
                self.nodes,
                cls,
                self.filters(cls, job),
                self.scores(cls, job),
                check_resources=not cls.best_effort,
                limit=self.nodes_limit,
                chooser=partial(self.ask, BEST_NODE, cls) if self.functions(BEST_NODE) else None,
            )
        return view

    def figures(self) -> list[Figures]:
        """What plugins have to tell of queues, jobs and namespaces; to be asked when the session is closed."""
        return [function() for function in self._functions.flat(FIGURES)]

    def statement(self) -> Statement:
        return Statement(self)

    def row_of(self, job: Job, task: Task) -> int:
        """The row of the node a task is on. Raises KeyError if it is on none that is known."""
        row = job.placed.get(task.uid)
        return self.nodes.index[task.node] if row is None else row

    def status_of(self, job: Job, task: Task) -> TaskStatus:
        """The task's status in this session. Raises KeyError if the job has no such task."""
        for status, tasks in job.by_status.items():
            if task.uid in tasks:
                return status
        raise KeyError(task.key)

    # --- for statements ---
    def notify_allocate(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        """Tell the handlers; if one raises AllocationError, those told before it are told of the undoing."""
        told: list[DeallocateHandler] = []
        for allocate, deallocate in zip(self._allocate, self._deallocate, strict=True):
            try:
                allocate(job, tasks, rows, pipelined)
            except Exception:
                for undo in reversed(told):
                    undo(job, tasks, rows)
                raise
            told.append(deallocate)

    def notify_deallocate(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        for deallocate in reversed(self._deallocate):
            deallocate(job, tasks, rows)

    def bind(self, placements: Iterable[Placement]) -> None:
        """Placements that are final: their tasks become Binding and go to the decisions. Where one has to be prepared,
        all wait for it."""
        names, binds = self.nodes.names, self.decisions.binds
        annotators, preparers = self._functions.flat(BIND_ANNOTATIONS), self._functions.flat(PREPARATIONS)
        first = len(binds)
        prepared = False
        for job, tasks, rows in placements:
            allocated = job.by_status[TaskStatus.ALLOCATED]
            binding = job.by_status.setdefault(TaskStatus.BINDING, {})
            for task, row in zip(tasks, rows, strict=True):
                annotations: dict[str, str] = {}
                for annotate in annotators:
                    annotations.update(annotate(task, row))
                preparations = tuple(p for prepare in preparers for p in prepare(task, row))
                prepared = prepared or bool(preparations)
                del allocated[task.uid]
                binding[task.uid] = task
                binds.append(Bind(task, names[row], annotations, preparations))
            if not allocated:
                del job.by_status[TaskStatus.ALLOCATED]
        if prepared:
            binds[first:] = [replace(bind, together=first + 1) for bind in binds[first:]]


def group_ref(job: Job) -> ObjectRef:
    """The job's PodGroup as the subject of an Event."""
    return ObjectRef(SCHEDULING_API_VERSION, "PodGroup", job.namespace, job.name, job.uid)


def pod_ref(task: Task) -> ObjectRef:
    """The task's Pod as the subject of an Event."""
    return ObjectRef("v1", "Pod", task.namespace, task.name, task.uid)
