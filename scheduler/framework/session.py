"""A session: one cycle of deciding, over one snapshot, with the configured plugins.

The session holds the snapshot, what plugins registered (``answers``), and the decisions made so far. Nothing in it does
I/O or reads a clock; what plugins ask other programs goes through ``outside``.
"""

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cached_property, partial
from typing import Any, Final, Protocol, TypeVar

from msgspec import structs

from scheduler.api.binding_record import BindingRecord, device_annotations
from scheduler.api.decisions import Bind, Decisions, EventPost, ObjectRef, Ungate
from scheduler.api.hypernode import HyperNodes
from scheduler.api.job import Job
from scheduler.api.node import Nodes
from scheduler.api.queue import Queue
from scheduler.api.reasons import Malformed, Refusal
from scheduler.api.resource import Dimensions, Vector
from scheduler.api.snapshot import Snapshot
from scheduler.api.subjob import SubJob
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework import registry
from scheduler.framework.answers import Answers
from scheduler.framework.arguments import Arguments
from scheduler.framework.classview import ClassView
from scheduler.framework.combining import Function
from scheduler.framework.configuration import Configuration, PluginOption
from scheduler.framework.extension import BEST_NODE, BIND_ANNOTATIONS, CARDS, PREPARATIONS, UNGATED, ExtensionPoint
from scheduler.framework.outside import NOBODY, Outside
from scheduler.framework.statement import Statement
from scheduler.framework.tenants import Bound, Tenants
from scheduler.framework.topology import set_tier_limits

T = TypeVar("T")
Placement = tuple[Job, Sequence[Task], Sequence[int]]
"""Tasks of one job and their rows."""
NO_CARDS: Final[Mapping[str, str]] = {}


class AllocateHandler(Protocol):
    def __call__(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        """Tasks of one class took their nodes. May raise AllocationError."""


class DeallocateHandler(Protocol):
    def __call__(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Tasks of one class lost their nodes, or a placement was undone."""


class Session(Answers):
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
        super().__init__(len(configuration.tiers))
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
        self._variants: list[Callable[[Job], object]] = []
        self._situations: list[Callable[[TaskClass], object]] = []
        self._allocate: list[AllocateHandler] = []
        self._deallocate: list[DeallocateHandler] = []
        self._views: dict[tuple[object, ...], ClassView] = {}
        self.shared: dict[object, Any] = {}
        """What plugins compute once for all of them, by key."""
        self._extended: dict[int, bool] = {}
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
                self.plugins.append(plugin)
                plugin.open(self)
                unknown = [f"argument {key} is not known; it is ignored" for key in arguments.unknown]
                self.problems += [f"plugin {option.name}: {problem}" for problem in arguments.problems + unknown]
                self.open_seconds[option.name] = self._stopwatch() - begun

    def release(self) -> None:
        """Give up the snapshot and the plugins; the session is of no use after that. It, its plugins and their columns
        refer to each other, so without this they stay in memory until the collector of cycles comes, in a long-running
        role for hundreds of sessions."""
        for field in fields(self.snapshot):
            delattr(self.snapshot, field.name)
        for it in (*self.plugins, *self._views.values(), self):
            getattr(it, "__dict__", {}).clear()  # a plugin may have slots instead

    def once(self, make: Callable[["Session"], T]) -> T:
        """What ``make`` comes to, made when first asked for and shared by all plugins of the session."""
        if make not in self.shared:
            self.shared[make] = make(self)
        made: T = self.shared[make]
        return made

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

    # --- for actions ---
    @cached_property
    def tenants(self) -> Tenants:
        """The tasks that hold nodes, from the first time they are asked for."""
        tenants = Tenants(self.jobs, self.nodes)
        self.add_handlers(tenants.allocated, tenants.deallocated)
        return tenants

    def ungate(self, job: Job, tasks: Sequence[Task]) -> None:
        """Take the scheduling gate of queue admission off tasks of one class; a later session places them."""
        self.decisions.ungates += map(Ungate, tasks)
        self.ask(UNGATED, job, tasks)

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

    def _is_extended(self, cls: TaskClass) -> bool:
        """Whether tasks of a class ask for extended resources."""
        known = self._extended.get(cls.id)
        if known is None:
            known = self._extended[cls.id] = self.dimensions.has_extended(cls.request)
        return known

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
            extended = self._is_extended(tasks[0].cls)
            charged = self._charged(job, tasks[0].cls, rows)
            for task, row in zip(tasks, rows, strict=True):
                annotations: dict[str, str] = {}
                for annotate in annotators:
                    annotations.update(annotate(task, row))
                preparations = tuple(p for prepare in preparers for p in prepare(task, row))
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
        """Row -> the cards there that the job's queue is charged for; without the rows where it is charged nothing."""
        functions = self._functions.flat(CARDS)
        if not functions:
            return {}
        answers = [cards(job, cls, list(dict.fromkeys(rows))) for cards in functions]
        return answers[0] if len(answers) == 1 else ChainMap(*answers)
