"""The methods by which plugins register functions, one for each extension point, and the checks of these functions.

A function receives exactly what its answer may depend on. Answers to ``add_filter`` and ``add_score`` are kept for each
class of tasks, so these functions receive the class alone. ``per_queue`` and ``per_job`` add a parameter and, at the
same time, extend the key under which the answer is kept. A function with other parameters is refused (``signatures``).
``extension`` describes the extension points.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Protocol, TypeVar, overload

from scheduler.api.device_states import Device, DeviceFault
from scheduler.api.hypernode import HyperNode
from scheduler.api.job import Job
from scheduler.api.node import Column, Rows
from scheduler.api.preparation import Preparation
from scheduler.api.queue import Queue
from scheduler.api.reasons import Refusal
from scheduler.api.resource import Vector
from scheduler.api.sub_job import SubJob
from scheduler.api.task import Task, TaskClass
from scheduler.framework import extension as points
from scheduler.framework.answers import Answers
from scheduler.framework.columns import Filter, PinUse, Score
from scheduler.framework.combining import Function
from scheduler.framework.configuration import PluginOption
from scheduler.framework.eviction_candidates import Bound, Most
from scheduler.framework.extension import EvictionContext, ExtensionPoint, ReclaimContext, Vote
from scheduler.framework.failures import RegistrationError
from scheduler.framework.figures import Figures, QueueUsage
from scheduler.framework.signatures import check

H = TypeVar("H", bound=Hashable)
Part = Callable[[Job], Hashable]
"""Returns what an answer depends on besides the class: a value of the job."""
Victims = Callable[[Task, Sequence[Task]], Sequence[Task] | None]


class AllocateHandler(Protocol):
    def __call__(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool, /) -> None:
        """Is called when tasks of one class are placed. It may raise AllocationError."""


class DeallocateHandler(Protocol):
    def __call__(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], /) -> None:
        """Is called when tasks of one class are evicted, or a placement is undone."""


class Registration(Answers):
    """The part of a session that plugins use in ``open``."""

    queues: dict[str, Queue]

    def __init__(self, tiers: int) -> None:
        """``tiers``: the number of tiers in the configuration."""
        super().__init__(tiers)
        self._parts: list[Part] = []
        """The parts of a view's key besides the class."""
        self._part_points: list[ExtensionPoint] = []
        """The extension point of each part."""
        self._queue_parts: dict[Any, Part] = {}
        self._claim_states: list[Callable[[TaskClass], object]] = []
        self._pin_uses: set[PinUse] = set()
        """The ``pin`` of each function that returns Filters."""
        self._allocate: list[AllocateHandler] = []
        self._deallocate: list[DeallocateHandler] = []
        self._behind: list[tuple[ExtensionPoint, str, Function]] = []
        """Keys that are compared right behind those of another plugin."""
        self._tier = 0
        self._option = PluginOption("")

    @contextmanager
    def registering(self, option: PluginOption, tier: int) -> Iterator[None]:
        """Attributes functions that are registered within the block to this plugin of this tier."""
        self._option, self._tier = option, tier
        try:
            yield
        finally:
            self._option = PluginOption("")

    def option(self, flag: str) -> bool:
        """Returns whether a flag is on for the plugin that is being opened (``enableHierarchy``)."""
        return self._option.enabled(flag)

    # --- nodes ---
    @overload
    def add_filter(self, function: Callable[[TaskClass], Sequence[Filter]], *, pin: PinUse = PinUse.ASKED) -> None: ...
    @overload
    def add_filter(
        self,
        function: Callable[[TaskClass, Queue], Sequence[Filter]],
        *,
        per_queue: Literal[True],
        pin: PinUse = PinUse.ASKED,
    ) -> None: ...
    @overload
    def add_filter(
        self,
        function: Callable[[TaskClass, H], Sequence[Filter]],
        *,
        per_queue: Callable[[Queue], H],
        pin: PinUse = PinUse.ASKED,
    ) -> None: ...
    @overload
    def add_filter(
        self,
        function: Callable[[TaskClass, Job], Sequence[Filter]],
        *,
        per_job: Literal[True],
        pin: PinUse = PinUse.ASKED,
    ) -> None: ...
    @overload
    def add_filter(
        self,
        function: Callable[[TaskClass, H], Sequence[Filter]],
        *,
        per_job: Callable[[Job], H],
        pin: PinUse = PinUse.ASKED,
    ) -> None: ...
    def add_filter(
        self, function: Function, *, per_queue: Any = None, per_job: Any = None, pin: PinUse = PinUse.ASKED
    ) -> None:
        """Registers ``function(cls)``, which returns the Filters for tasks of a class. It is called once per class.

        ``per_queue=True``: ``function(cls, queue)``, called once per class and queue. ``per_queue=key``, where
        ``key(queue)`` is hashable: ``function(cls, key(queue))``, called once per class and value, so that queues with
        equal values share the answer. ``per_job`` is the same for the job. A function with ``per_queue`` is not called
        for jobs whose queue does not exist.

        ``pin``: if no function of the session is ASKED, most of the classes that differ only in the node to which they
        are pinned are placed without a call.
        """
        if self._add_of_class(points.FILTER, function, per_queue, per_job):
            self._pin_uses.add(pin)

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
        """Registers ``function(cls)``, which returns the Scores for tasks of a class. ``per_queue`` and ``per_job``: as
        for ``add_filter``."""
        self._add_of_class(points.SCORE, function, per_queue, per_job)

    def add_best_node(self, choose: Callable[[TaskClass, Rows, Column], int | None]) -> None:
        """Registers a function that chooses one of the candidates, or returns None for the one with the best score."""
        self.register(points.BEST_NODE, choose)

    def add_node_assignment(self, assign: Callable[[Job, Sequence[Task], Sequence[int]], Sequence[int] | None]) -> None:
        """Registers a function of tasks of one class and the rows of the nodes chosen for them, which returns the rows
        in another order (``tasks[i]`` gets the i-th), or None."""
        self.register(points.NODE_ASSIGNMENT, assign)

    def add_hyper_node_order(self, scores: Callable[[SubJob, Sequence[HyperNode]], Column]) -> None:
        """Registers a function that returns the score of each HyperNode for a sub-job."""
        self.register(points.HYPER_NODE_ORDER, scores)

    def add_hyper_node_gradient(
        self, gradients: Callable[[Job | SubJob, HyperNode, bool], list[list[HyperNode]] | None]
    ) -> None:
        """Registers a function that returns the HyperNodes that a job or sub-job may use, the nearest first (see
        ``Answers.gradients``)."""
        self.register(points.HYPER_NODE_GRADIENT, gradients)

    # --- orders: of two keys the smaller comes first ---
    def add_job_order(self, key: Callable[[Job], Any], *, moving: bool = False, behind: str = "") -> None:
        """Registers the key that orders jobs. ``moving``: a placement may also change the keys of other jobs.
        ``behind``: a plugin right behind whose key this one is compared, wherever the two stand in the configuration;
        if that plugin orders no jobs, this key is the first."""
        self._add_order(points.JOB_ORDER, key, moving, behind)

    def add_queue_order(self, key: Callable[[Queue], Any], *, moving: bool = False) -> None:
        """Registers the key that orders queues. ``moving``: a placement may also change the keys of other queues."""
        self._add_order(points.QUEUE_ORDER, key, moving)

    def add_victim_queue_order(self, key: Callable[[Queue, Queue], Any]) -> None:
        """Registers key(queue, queue of the preemptor): tasks of the smaller are evicted first."""
        self.register(points.VICTIM_QUEUE_ORDER, key)

    def add_task_order(self, key: Callable[[Task], Any], *, fixed: bool = False) -> None:
        """Registers the key that orders the tasks of a job. ``fixed``: the key of a task is the same in every session
        with the same configuration, so the order of a job that waits need not be computed in each."""
        if self.register(points.TASK_ORDER, key) and not fixed:
            self._task_order_is_fixed = False

    def add_sub_job_order(self, key: Callable[[SubJob], Any]) -> None:
        """Registers the key that orders the sub-jobs of a job."""
        self.register(points.SUB_JOB_ORDER, key)

    # --- jobs ---
    def add_job_valid(self, check: Callable[[Job], Refusal | None]) -> None:
        """Registers a function that returns a Refusal if the job cannot be scheduled as it is."""
        self.register(points.JOB_VALID, check)

    def add_job_ready(self, missing: Callable[[Job], int], *, by_demand: bool = False) -> None:
        """Registers a function that returns 0 if the job may start, else a lower bound of the number of tasks that must
        still be placed. ``by_demand``: as for ``add_job_pipelined``; while none of its tasks is placed, the answer may
        depend on the job itself."""
        self._add_by_demand(points.JOB_READY, missing, by_demand)

    def add_job_pipelined(self, vote: Callable[[Job], Vote], *, by_demand: bool = False) -> None:
        """Registers a function that votes whether the job would be ready once releasing resources are free.

        ``by_demand``: the answer depends only on these properties of the job: queue, priority, minimums, labels,
        annotations, and the number, statuses, roles and classes of its tasks. If all functions that an action asks
        say so, it does not repeat a search that failed for jobs with equal properties.
        """
        self._add_by_demand(points.JOB_PIPELINED, vote, by_demand)

    def add_job_starving(self, test: Callable[[Job], bool], *, by_demand: bool = False) -> None:
        """Registers a function that says whether the job may take resources from others. ``by_demand``: as for
        ``add_job_pipelined``."""
        self._add_by_demand(points.JOB_STARVING, test, by_demand)

    def add_sub_job_ready(self, missing: Callable[[SubJob], int]) -> None:
        """Registers a function that returns for one sub-job what that of ``add_job_ready`` returns for a job."""
        self.register(points.SUB_JOB_READY, missing)

    def add_sub_job_pipelined(self, vote: Callable[[SubJob], Vote]) -> None:
        """Registers a function that votes whether the sub-job would be ready once releasing resources are free."""
        self.register(points.SUB_JOB_PIPELINED, vote)

    def add_job_enqueueable(self, vote: Callable[[Job], Vote]) -> None:
        """Registers a function that votes whether the PodGroup may enter its queue."""
        self.register(points.JOB_ENQUEUEABLE, vote)

    def add_job_enqueued(self, note: Callable[[Job], object]) -> None:
        """Registers a function that is called when a PodGroup has entered its queue."""
        self.register(points.JOB_ENQUEUED, note)

    def add_ungated(self, note: Callable[[Job, Sequence[Task]], object]) -> None:
        """Registers a function that is called when the scheduling gate of queue admission is removed from tasks of one
        class."""
        self.register(points.UNGATED, note)

    # --- quotas ---
    def add_overused(self, test: Callable[[Queue], Refusal | None]) -> None:
        """Registers a function that returns a Refusal if the queue is skipped for the rest of the session."""
        self.register(points.OVERUSED, test)

    def add_allocatable(self, room: Callable[[Queue, Job, TaskClass], int], *, by_demand: bool = False) -> None:
        """Registers a function that returns how many more tasks of a class the queue may get; a negative number counts
        as 0, since a queue may hold more than its limit. If it returns 0, it calls ``refuse`` for the job; otherwise
        the reason has only the name of the plugin. Terminating tasks need not be counted: a queue may use their part
        again. (On a node they count until they exit; see ``node_limit``.) ``by_demand``: as for ``add_job_pipelined``;
        the refusal must not depend on anything else either."""
        self._add_by_demand(points.ALLOCATABLE, room, by_demand)

    def add_allocatable_now(self, room: Callable[[Queue, Job, TaskClass], int], *, by_demand: bool = False) -> None:
        """Registers a function that returns how many of these may be bound while tasks terminate. The others can be
        pipelined. ``by_demand``: as for ``add_allocatable``."""
        self._add_by_demand(points.ALLOCATABLE_NOW, room, by_demand)

    def add_preemptive(self, test: Callable[[Queue, Sequence[Task]], bool], *, by_demand: bool = False) -> None:
        """Registers a function that says whether the queue may reclaim what these tasks need from other queues.
        ``by_demand``: the answer depends only on the queue and the classes of the tasks."""
        self._add_by_demand(points.PREEMPTIVE, test, by_demand)

    def add_handlers(self, allocate: AllocateHandler, deallocate: DeallocateHandler) -> None:
        """Registers functions that are called for every placement, and for every rollback and eviction: for plugins
        that keep books."""
        check(self._option.name, "Allocate", allocate, ("Job", "Sequence[Task]", "Sequence[int]", "bool"))
        check(self._option.name, "Deallocate", deallocate, ("Job", "Sequence[Task]", "Sequence[int]"))
        self._allocate.append(allocate)
        self._deallocate.append(deallocate)
        self._own(allocate)
        self._own(deallocate)

    # --- evictions ---
    def add_preemptable(self, victims: Victims, *, bound: Bound | None = None, by_demand: bool = False) -> None:
        """Registers a function that returns the candidates on one node that may be evicted for a task in the same
        queue; None: no opinion.

        ``bound`` returns the same as a column over all candidates of the cluster (see ``eviction_candidates``): False
        where the function refuses the task in any case. ``by_demand``: the answer depends only on these properties of
        the preemptor and its job: class, queue, priorities, amounts, and which candidates are its own. A search that
        found no victims is then not repeated for tasks with equal properties.
        """
        self._add_victims(points.PREEMPTABLE, victims, bound, by_demand)

    def add_reclaimable(self, victims: Victims, *, bound: Bound | None = None, by_demand: bool = False) -> None:
        """Registers a function that returns the candidates on one node that may be evicted for a task in another queue.
        The parameters are those of ``add_preemptable``."""
        self._add_victims(points.RECLAIMABLE, victims, bound, by_demand)

    def add_unified_evictable(
        self, evictable: Callable[[EvictionContext, Sequence[Task]], Sequence[Task]], *, bound: Bound | None = None
    ) -> None:
        """Registers a function that returns the candidates that gangpreempt and gangreclaim may evict. ``bound``: see
        ``add_preemptable``."""
        self._add_victims(points.UNIFIED_EVICTABLE, evictable, bound, by_demand=True)

    def add_keeps_deserved(
        self,
        losses: Callable[[ReclaimContext, Sequence[Task]], Sequence[Task]],
        *,
        bound: Bound | None = None,
        most: Most | None = None,
    ) -> None:
        """Registers a function of a plugin that divides the cluster among queues: it returns the candidates whose
        eviction, in this order, leaves their queues what the context says. It is asked before every eviction across
        queues, in whatever tier the plugin stands, and no flag disables it. The answer may depend on the queue of the
        job, the classes and the request. ``bound``: see ``add_preemptable``. ``most``: see ``Most``."""
        self._add_victims(points.KEEPS_DESERVED, losses, bound, by_demand=True)
        if most is not None:
            self._most.append(most)
            self._own(most)

    def add_victim_tasks(self, victims: Callable[[Sequence[Task]], Sequence[Task] | None]) -> None:
        """Registers a function that returns the tasks that shuffle evicts."""
        self.register(points.VICTIM_TASKS, victims)

    def add_victim_limit(self, allowed: Callable[[Sequence[Task]], Sequence[Task]]) -> None:
        """Registers a function that returns the victims of shuffle that may be evicted."""
        self.register(points.VICTIM_LIMIT, allowed)

    def add_veto(self, point: ExtensionPoint, spared: Callable[[Any, Task], bool]) -> None:
        """Registers ``spared(preemptor, task)``: whether the task is never a victim at this point, whatever plugins and
        tiers return. The plugin decides which flags disable a veto."""
        check(self._option.name, f"veto of {point.name}", spared, ("Task | EvictionContext", "Task"))
        self.insert_veto(point, spared)
        self._own(spared)

    # --- bindings and reports ---
    def add_bind_annotations(self, annotations: Callable[[Task, int], Mapping[str, str]]) -> None:
        """Registers a function of a task and the row of its node that returns the annotations that the binding call
        writes to the Pod."""
        self.register(points.BIND_ANNOTATIONS, annotations)

    def add_cards(self, cards: Callable[[Job, TaskClass, Sequence[int]], Mapping[int, Mapping[str, str]]]) -> None:
        """Registers a function that returns row -> resource -> the card that the queue is charged for."""
        self.register(points.CARDS, cards)

    def add_preparations(self, preparations: Callable[[Task, int], Iterable[Preparation]]) -> None:
        """Registers a function that returns the Preparations that the binding of a task to a row waits for."""
        self.register(points.PREPARATIONS, preparations)

    def add_queue_usage(self, usage: Callable[[Queue], Mapping[str, QueueUsage]]) -> None:
        """Registers a function that returns the usage of each name that the plugin limits, such as a card model. It is
        shown wherever resources of queues are: in their status, in metrics and by the command line."""
        self.register(points.QUEUE_USAGE, usage)

    def add_node_devices(self, devices: Callable[[], Iterable[Device]]) -> None:
        """Registers a function that returns the devices of nodes and their state, for reports."""
        self.register(points.NODE_DEVICES, devices)

    def add_device_faults(self, faults: Callable[[], Iterable[DeviceFault]]) -> None:
        """Registers a function that returns the devices that do not work although Pods use them, for conditions and
        Events. It is called when the session is closed."""
        self.register(points.DEVICE_FAULTS, faults)

    def add_held_amounts(self, held: Callable[[], Iterable[tuple[Task, Mapping[str, int]]]]) -> None:
        """Registers a function that returns the tasks that hold other amounts than they request, for
        ``status.allocated`` of queues."""
        self.register(points.HELD_AMOUNTS, held)

    def add_deserved(self, deserved: Callable[[], Mapping[str, Vector]]) -> None:
        """Registers a function that returns queue -> the amounts that it deserves, of a plugin that divides the cluster
        among queues. They are shown in place of those of the spec, in the status of queues, in metrics and by the
        command line."""
        self.register(points.DESERVED, deserved)

    def add_figures(self, figures: Callable[[], Figures]) -> None:
        """Registers a function that returns shares and limits, for metrics."""
        self.register(points.FIGURES, figures)

    def add_close(self, close: Callable[[], object]) -> None:
        """Registers a function that is called after the actions, before statuses are computed."""
        self.register(points.CLOSE, close)

    def add_claim_state(self, state: Callable[[TaskClass], object]) -> None:
        """Registers ``state(cls)``: the state of the volume claims of a class on which filters and scores depend.
        Classes that differ only in their claims and have equal states share filters and scores. If the state of a class
        changes, they are created again."""
        check(self._option.name, "ClaimState", state, ("TaskClass",))
        self._claim_states.append(state)
        self._own(state)

    # --- registration ---
    def register(self, point: ExtensionPoint, function: Function) -> bool:
        """Registers a function of the plugin that is being opened, unless its flags disable the point. Returns whether
        it was registered. Raises RegistrationError if the function does not accept the parameters of the point. Plugins
        use the methods above, which have the types."""
        check(self._option.name, point.name, function, point.takes)
        if not self._option.enabled(point.flag):
            return False
        self._add(point, function, function)
        return True

    def _add(self, point: ExtensionPoint, function: Function, source: Function) -> None:
        """``source``: the plugin's function that ``function`` wraps."""
        self.insert(point, self._tier, function)
        self._owners[function] = (self._option.name, source)

    def _own(self, function: Function) -> None:
        """Remembers the plugin of a function that is not registered at an extension point itself."""
        self._owners.setdefault(function, (self._option.name, function))

    def _add_order(self, point: ExtensionPoint, key: Function, moving: bool, behind: str = "") -> None:
        if not self.register(point, key):
            return
        if moving:
            self._moving.add(point)
        if behind:
            self._behind.append((point, behind, key))
        for where, plugin, later in self._behind:
            if where is point and plugin in (behind, self._option.name):
                others = [function for function in self.all_functions(point) if self.plugin_of(function) == plugin]
                self.move(point, later, others[-1] if others else None)

    def _add_by_demand(self, point: ExtensionPoint, function: Function, by_demand: bool) -> None:
        if self.register(point, function) and not by_demand:
            self._by_task.add(point)

    def _add_victims(self, point: ExtensionPoint, victims: Function, bound: Bound | None, by_demand: bool) -> None:
        if not self.register(point, victims):
            return
        if bound is not None:
            check(self._option.name, f"bound of {point.name}", bound, (point.takes[0], "EvictionCandidates"))
            self._bounds[victims] = bound
        if not by_demand:
            self._by_task.add(point)

    def _add_of_class(self, point: ExtensionPoint, function: Function, per_queue: Any, per_job: Any) -> bool:
        """Registers a function whose answer is kept per class and per value of its other parameter. Returns whether it
        is enabled."""
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
            return False
        queues = self.queues
        if per_queue is not None:
            given = self._queue_part(per_queue)
            self._add_part(_queue_name if per_queue is True else given, point)
            self._add(point, lambda cls, job: function(cls, given(job)) if job.queue in queues else (), function)
        elif per_job is True:
            self._add_part(_job_key, point)
            self._add(point, function, function)
        elif per_job is not None:
            self._add_part(per_job, point)
            self._add(point, lambda cls, job: function(cls, per_job(job)), function)
        else:
            self._add(point, lambda cls, job: function(cls), function)
        return True

    def _queue_part(self, per_queue: Any) -> Part:
        """Returns the part of the key that a job's queue adds; None if the queue does not exist. Filters and scores
        with the same key share one part."""
        part = self._queue_parts.get(per_queue)
        if part is None:
            queues = self.queues
            if per_queue is True:
                part = lambda job: queues.get(job.queue)  # noqa: E731
            else:
                part = lambda job: per_queue(queues[job.queue]) if job.queue in queues else None  # noqa: E731
            self._queue_parts[per_queue] = part
        return part

    def _add_part(self, part: Part, point: ExtensionPoint) -> None:
        if part not in self._parts:
            self._parts.append(part)
            self._part_points.append(point)
            self._own(part)


def _queue_name(job: Job) -> str:
    return job.queue


def _job_key(job: Job) -> str:
    return job.key
