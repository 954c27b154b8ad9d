"""What a plugin may register with a session, one method per extension point, and how each function is checked.

A function is given what its answer may depend on, and nothing else. Answers to ``add_filter`` and ``add_score`` are
kept for each class of tasks, so these functions are given the class alone; ``per_queue`` and ``per_job`` add to what
they are given and, by the same step, to the key under which the answer is kept. A function that takes anything else is
refused when it is registered (``signatures``). The extension points themselves are described in ``extension``.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Protocol, TypeVar, overload

from scheduler.api.hypernode import HyperNode
from scheduler.api.job import Job, SubJob
from scheduler.api.node import Column, Rows
from scheduler.api.preparation import Preparation
from scheduler.api.queue import Queue
from scheduler.api.reasons import Refusal
from scheduler.api.task import Task, TaskClass
from scheduler.framework import extension as points
from scheduler.framework.answers import Answers
from scheduler.framework.columns import Filter, Score
from scheduler.framework.combining import Function
from scheduler.framework.configuration import PluginOption
from scheduler.framework.eviction_candidates import Bound
from scheduler.framework.extension import EvictionContext, ExtensionPoint, Vote
from scheduler.framework.failures import RegistrationError
from scheduler.framework.figures import Figures
from scheduler.framework.signatures import check

H = TypeVar("H", bound=Hashable)
Part = Callable[[Job], Hashable]
"""What of a job answers depend on besides the class of its tasks."""
Victims = Callable[[Task, Sequence[Task]], Sequence[Task] | None]


class AllocateHandler(Protocol):
    def __call__(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool, /) -> None:
        """Tasks of one class took their nodes. May raise AllocationError."""


class DeallocateHandler(Protocol):
    def __call__(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], /) -> None:
        """Tasks of one class lost their nodes, or a placement was undone."""


class Registration(Answers):
    """The part of a session that plugins use while they are opened."""

    queues: dict[str, Queue]

    def __init__(self, tiers: int) -> None:
        """``tiers``: how many there are in the configuration."""
        super().__init__(tiers)
        self._parts: list[Part] = []
        """What views are kept by, besides the class."""
        self._part_sources: list[tuple[str, str]] = []
        """Plugin and extension point of each part."""
        self._queue_parts: dict[Any, Part] = {}
        self._situations: list[Callable[[TaskClass], object]] = []
        self._situation_plugins: list[str] = []
        self._allocate: list[AllocateHandler] = []
        self._deallocate: list[DeallocateHandler] = []
        self._tier = 0
        self._option = PluginOption("")

    @contextmanager
    def registering(self, option: PluginOption, tier: int) -> Iterator[None]:
        """What is registered meanwhile belongs to this plugin of this tier."""
        self._option, self._tier = option, tier
        try:
            yield
        finally:
            self._option = PluginOption("")

    def option(self, flag: str) -> bool:
        """Whether a flag is on for the plugin being opened (``enableHierarchy``)."""
        return self._option.enabled(flag)

    # --- nodes ---
    @overload
    def add_filter(self, function: Callable[[TaskClass], Sequence[Filter]]) -> None: ...
    @overload
    def add_filter(
        self, function: Callable[[TaskClass, Queue], Sequence[Filter]], *, per_queue: Literal[True]
    ) -> None: ...
    @overload
    def add_filter(
        self, function: Callable[[TaskClass, H], Sequence[Filter]], *, per_queue: Callable[[Queue], H]
    ) -> None: ...
    @overload
    def add_filter(self, function: Callable[[TaskClass, Job], Sequence[Filter]], *, per_job: Literal[True]) -> None: ...
    @overload
    def add_filter(
        self, function: Callable[[TaskClass, H], Sequence[Filter]], *, per_job: Callable[[Job], H]
    ) -> None: ...
    def add_filter(self, function: Function, *, per_queue: Any = None, per_job: Any = None) -> None:
        """The conditions on the nodes for tasks of a class: ``function(cls)`` returns Filters. It is called once per
        class.

        ``per_queue=True``: ``function(cls, queue)``, called once per class and queue. ``per_queue=key``, a function of
        the queue whose values are hashable: ``function(cls, key(queue))``, called once per class and value, so that
        queues of one value share the answer. ``per_job`` is the same with the job instead of the queue. A function with
        ``per_queue`` is not called for jobs whose queue does not exist.
        """
        self._add_of_class(points.PREDICATE, function, per_queue, per_job)

    @overload
    def add_score(self, function: Callable[[TaskClass], Sequence[Score]]) -> None: ...
    @overload
    def add_score(
        self, function: Callable[[TaskClass, Queue], Sequence[Score]], *, per_queue: Literal[True]
    ) -> None: ...
    @overload
    def add_score(
        self, function: Callable[[TaskClass, H], Sequence[Score]], *, per_queue: Callable[[Queue], H]
    ) -> None: ...
    @overload
    def add_score(self, function: Callable[[TaskClass, Job], Sequence[Score]], *, per_job: Literal[True]) -> None: ...
    @overload
    def add_score(
        self, function: Callable[[TaskClass, H], Sequence[Score]], *, per_job: Callable[[Job], H]
    ) -> None: ...
    def add_score(self, function: Function, *, per_queue: Any = None, per_job: Any = None) -> None:
        """How good the nodes are for tasks of a class: ``function(cls)`` returns Scores. ``per_queue`` and ``per_job``
        as for ``add_filter``."""
        self._add_of_class(points.NODE_ORDER, function, per_queue, per_job)

    def add_best_node(self, choose: Callable[[TaskClass, Rows, Column], int | None]) -> None:
        """Which of the candidates is taken; None: the one with the best score."""
        self.register(points.BEST_NODE, choose)

    def add_hyper_node_order(self, scores: Callable[[SubJob, Sequence[HyperNode]], Column]) -> None:
        """How good each HyperNode is for a sub-job."""
        self.register(points.HYPER_NODE_ORDER, scores)

    def add_hyper_node_gradient(
        self, gradients: Callable[[Job | SubJob, HyperNode, bool], list[list[HyperNode]] | None]
    ) -> None:
        """Which HyperNodes a job or sub-job may use, the closest degree first (see ``Answers.gradients``)."""
        self.register(points.HYPER_NODE_GRADIENT, gradients)

    # --- orders: of two keys the smaller comes first ---
    def add_job_order(self, key: Callable[[Job], Any], *, moving: bool = False) -> None:
        """``moving``: the key of one job changes when another is given something."""
        self._add_order(points.JOB_ORDER, key, moving)

    def add_queue_order(self, key: Callable[[Queue], Any], *, moving: bool = False) -> None:
        """``moving``: the key of one queue changes when another is given something."""
        self._add_order(points.QUEUE_ORDER, key, moving)

    def add_victim_queue_order(self, key: Callable[[Queue, Queue], Any]) -> None:
        """Key of (a queue, the queue of the preemptor): the smaller loses tasks first."""
        self.register(points.VICTIM_QUEUE_ORDER, key)

    def add_task_order(self, key: Callable[[Task], Any]) -> None:
        """Tasks within their job."""
        self.register(points.TASK_ORDER, key)

    def add_sub_job_order(self, key: Callable[[SubJob], Any]) -> None:
        """Sub-jobs within their job."""
        self.register(points.SUB_JOB_ORDER, key)

    # --- jobs ---
    def add_job_valid(self, check: Callable[[Job], Refusal | None]) -> None:
        """A Refusal where the job cannot be scheduled as it is."""
        self.register(points.JOB_VALID, check)

    def add_job_ready(self, missing: Callable[[Job], int]) -> None:
        """0 if the job may start, else a lower bound of how many more tasks have to be placed."""
        self.register(points.JOB_READY, missing)

    def add_job_pipelined(self, vote: Callable[[Job], Vote]) -> None:
        """Whether the job would be ready once releasing resources are free."""
        self.register(points.JOB_PIPELINED, vote)

    def add_job_starving(self, test: Callable[[Job], bool]) -> None:
        """Whether the job may take resources from others."""
        self.register(points.JOB_STARVING, test)

    def add_sub_job_ready(self, missing: Callable[[SubJob], int]) -> None:
        """As ``add_job_ready``, for one sub-group."""
        self.register(points.SUB_JOB_READY, missing)

    def add_sub_job_pipelined(self, vote: Callable[[SubJob], Vote]) -> None:
        """As ``add_job_pipelined``, for one sub-group."""
        self.register(points.SUB_JOB_PIPELINED, vote)

    def add_job_enqueueable(self, vote: Callable[[Job], Vote]) -> None:
        """Whether the PodGroup may enter its queue."""
        self.register(points.JOB_ENQUEUEABLE, vote)

    def add_job_enqueued(self, note: Callable[[Job], object]) -> None:
        """The PodGroup has entered its queue."""
        self.register(points.JOB_ENQUEUED, note)

    def add_ungated(self, note: Callable[[Job, Sequence[Task]], object]) -> None:
        """The scheduling gate of queue admission is removed from tasks of one class."""
        self.register(points.UNGATED, note)

    # --- quotas ---
    def add_overused(self, test: Callable[[Queue], Refusal | None]) -> None:
        """A Refusal where the queue is passed over for the rest of the session."""
        self.register(points.OVERUSED, test)

    def add_allocatable(self, room: Callable[[Queue, Job, TaskClass], int]) -> None:
        """How many more tasks of a class the queue may be given; where it is 0, ``refuse`` the job with a reason. Tasks
        that terminate may count as gone."""
        self.register(points.ALLOCATABLE, room)

    def add_allocatable_now(self, room: Callable[[Queue, Job, TaskClass], int]) -> None:
        """How many of these may be bound while tasks terminate; the others can be pipelined."""
        self.register(points.ALLOCATABLE_NOW, room)

    def add_preemptive(self, test: Callable[[Queue, Sequence[Task]], bool]) -> None:
        """Whether the queue may take what these tasks need from other queues."""
        self.register(points.PREEMPTIVE, test)

    def add_handlers(self, allocate: AllocateHandler, deallocate: DeallocateHandler) -> None:
        """Called with every placement, and with every one that is undone or evicted: for plugins that keep books."""
        check(self._option.name, "Allocate", allocate, ("Job", "Sequence[Task]", "Sequence[int]", "bool"))
        check(self._option.name, "Deallocate", deallocate, ("Job", "Sequence[Task]", "Sequence[int]"))
        self._allocate.append(allocate)
        self._deallocate.append(deallocate)
        self._sources += [(self._option.name, "Allocate", allocate), (self._option.name, "Deallocate", deallocate)]

    # --- evictions ---
    def add_preemptable(self, victims: Victims, *, bound: Bound | None = None, by_demand: bool = False) -> None:
        """The candidates on one node that may be evicted for a task of the same queue; None: no opinion.

        ``bound`` is the same as a column over all candidates of the cluster (see ``eviction_candidates``): where it is
        False, the function refuses the task in any case. ``by_demand``: of the preemptor and its job the answer depends
        on the class, the queue, the priorities, the amounts and on which candidates are its own, and on nothing else;
        then a search that found no victims is not repeated for tasks that are equal in these.
        """
        self._add_victims(points.PREEMPTABLE, victims, bound, by_demand)

    def add_reclaimable(self, victims: Victims, *, bound: Bound | None = None, by_demand: bool = False) -> None:
        """As ``add_preemptable``, for a task of another queue."""
        self._add_victims(points.RECLAIMABLE, victims, bound, by_demand)

    def add_unified_evictable(
        self, evictable: Callable[[EvictionContext, Sequence[Task]], Sequence[Task]], *, bound: Bound | None = None
    ) -> None:
        """The candidates that gangpreempt and gangreclaim may evict. ``bound``: as above."""
        self._add_victims(points.UNIFIED_EVICTABLE, evictable, bound, by_demand=True)

    def add_victim_tasks(self, victims: Callable[[Sequence[Task]], Sequence[Task] | None]) -> None:
        """The tasks that shuffle evicts."""
        self.register(points.VICTIM_TASKS, victims)

    def add_victim_limit(self, allowed: Callable[[Sequence[Task]], Sequence[Task]]) -> None:
        """Those of shuffle's victims that may go."""
        self.register(points.VICTIM_LIMIT, allowed)

    def add_veto(self, point: ExtensionPoint, spared: Callable[[Any, Task], bool]) -> None:
        """``spared(preemptor, task)``: the task is no victim at this point, whatever plugins and tiers say. Which flags
        switch a veto off is the plugin's business."""
        check(self._option.name, f"veto of {point.name}", spared, ("Task | EvictionContext", "Task"))
        self.insert_veto(point, spared)
        self._sources.append((self._option.name, point.name, spared))

    # --- bindings and reports ---
    def add_bind_annotations(self, annotations: Callable[[Task, int], Mapping[str, str]]) -> None:
        """What is written onto the Pod in the binding call; given the task and the row of its node."""
        self.register(points.BIND_ANNOTATIONS, annotations)

    def add_cards(self, cards: Callable[[Job, TaskClass, Sequence[int]], Mapping[int, Mapping[str, str]]]) -> None:
        """Row -> resource -> the card that the queue is charged for."""
        self.register(points.CARDS, cards)

    def add_preparations(self, preparations: Callable[[Task, int], Iterable[Preparation]]) -> None:
        """What the binding of a task to a row has to wait for."""
        self.register(points.PREPARATIONS, preparations)

    def add_queue_usage(self, usage: Callable[[Queue], Mapping[str, tuple[float, float]]]) -> None:
        """Name -> (used, limit), for reports."""
        self.register(points.QUEUE_USAGE, usage)

    def add_held_amounts(self, held: Callable[[], Iterable[tuple[Task, Mapping[str, int]]]]) -> None:
        """Tasks that hold other amounts than they request, for ``status.allocated`` of queues."""
        self.register(points.HELD_AMOUNTS, held)

    def add_figures(self, figures: Callable[[], Figures]) -> None:
        """Shares and limits, for metrics."""
        self.register(points.FIGURES, figures)

    def add_close(self, close: Callable[[], object]) -> None:
        """The actions are done; statuses are computed after this."""
        self.register(points.CLOSE, close)

    def add_situation(self, situation: Callable[[TaskClass], object]) -> None:
        """``situation(cls)``: what matters of the claims of a class at this moment. Classes that differ in nothing else
        and are in the same situation share their filters and scores; a class that enters another is asked again."""
        check(self._option.name, "Situation", situation, ("TaskClass",))
        self._situations.append(situation)
        self._situation_plugins.append(self._option.name)
        self._sources.append((self._option.name, "Situation", situation))

    # --- how it is done ---
    def register(self, point: ExtensionPoint, function: Function) -> bool:
        """Register a function of the plugin being opened, unless its flags switch the point off; whether it was done.
        Raises RegistrationError if the function does not take what the point gives. The methods above say which types
        are meant; plugins use these."""
        check(self._option.name, point.name, function, point.takes)
        if not self._option.enabled(point.flag):
            return False
        self._add(point, function, function)
        return True

    def _add(self, point: ExtensionPoint, function: Function, source: Function) -> None:
        """``source``: what the plugin gave, of which ``function`` is made."""
        self.insert(point, self._tier, function)
        self._owners[function] = self._option.name
        self._sources.append((self._option.name, point.name, source))

    def _add_order(self, point: ExtensionPoint, key: Function, moving: bool) -> None:
        if self.register(point, key) and moving:
            self._moving.add(point)

    def _add_victims(self, point: ExtensionPoint, victims: Function, bound: Bound | None, by_demand: bool) -> None:
        if not self.register(point, victims):
            return
        if bound is not None:
            check(self._option.name, f"bound of {point.name}", bound, (point.takes[0], "EvictionCandidates"))
            self._bounds[victims] = bound
            self._sources.append((self._option.name, f"bound of {point.name}", bound))
        if not by_demand:
            self._by_task.add(point)

    def _add_of_class(self, point: ExtensionPoint, function: Function, per_queue: Any, per_job: Any) -> None:
        """A function whose answer is kept per class, and per value of what else it is given."""
        plugin = self._option.name
        if per_queue is not None and per_job is not None:
            raise RegistrationError(plugin, point.name, "per_queue and per_job were both given; a job has its queue")
        more: tuple[str, ...] = ()
        for key, kind in ((per_queue, "Queue"), (per_job, "Job")):
            if key is True:
                more = (kind,)
            elif key is not None:
                check(plugin, f"{point.name} key", key, (kind,))
                more = ("value of the key",)
        check(plugin, point.name, function, (*point.takes, *more), per_class=True)
        if not self._option.enabled(point.flag):
            return
        queues = self.queues
        if per_queue is not None:
            given = self._queue_part(per_queue)
            self._add_part(_queue_name if per_queue is True else given, point, per_queue)
            self._add(point, lambda cls, job: function(cls, given(job)) if job.queue in queues else (), function)
        elif per_job is True:
            self._add_part(_job_key, point, per_job)
            self._add(point, function, function)
        elif per_job is not None:
            self._add_part(per_job, point, per_job)
            self._add(point, lambda cls, job: function(cls, per_job(job)), function)
        else:
            self._add(point, lambda cls, job: function(cls), function)

    def _queue_part(self, per_queue: Any) -> Part:
        """What a job's queue adds; None where it does not exist. There is one part for one key, so that a filter and a
        score with the same key are kept under one."""
        part = self._queue_parts.get(per_queue)
        if part is None:
            queues = self.queues
            if per_queue is True:
                part = lambda job: queues.get(job.queue)  # noqa: E731
            else:
                part = lambda job: per_queue(queues[job.queue]) if job.queue in queues else None  # noqa: E731
            self._queue_parts[per_queue] = part
        return part

    def _add_part(self, part: Part, point: ExtensionPoint, source: Any) -> None:
        if part not in self._parts:
            self._parts.append(part)
            self._part_sources.append((self._option.name, point.name))
            if source is not True:
                self._sources.append((self._option.name, f"{point.name} key", source))

    def _unhashable(self, job: Job, cls: TaskClass) -> RegistrationError:
        """Names the function whose value for a job and a class cannot be part of a key."""
        for part, (plugin, point) in zip(self._parts, self._part_sources, strict=True):
            try:
                hash(part(job))
            except TypeError as error:
                return RegistrationError(plugin, point, f"per_queue or per_job returned what is no key: {error}")
        for situation, plugin in zip(self._situations, self._situation_plugins, strict=True):
            try:
                hash(situation(cls))
            except TypeError as error:
                return RegistrationError(plugin, "Situation", f"returned what is no key: {error}")
        raise AssertionError("all parts of the key are hashable")


def _queue_name(job: Job) -> str:
    return job.queue


def _job_key(job: Job) -> str:
    return job.key
