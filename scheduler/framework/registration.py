"""The methods by which plugins register functions, and the checks of these functions.

A method is made from its extension point, whose type and docstring it has. A function receives exactly what its answer
may depend on. Answers to ``add_filter`` and ``add_score`` are kept for each class of tasks, so these functions receive
the class alone. ``per_queue`` and ``per_job`` add a parameter and, at the same time, extend the key under which the
answer is kept. A function with other parameters is refused (``signatures``).
"""

import inspect
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, overload

from scheduler.api.job import Job
from scheduler.api.queue import Queue
from scheduler.api.task import Task, TaskClass
from scheduler.framework import extension as points
from scheduler.framework.columns import Filter, PinUse, Score
from scheduler.framework.combining import AllocateHandler, DeallocateHandler, Function, Part, PluginFunctions
from scheduler.framework.configuration import PluginOption
from scheduler.framework.eviction_candidates import Bound, Most
from scheduler.framework.extension import ExtensionPoint, F, TypedExtensionPoint
from scheduler.framework.failures import RegistrationError
from scheduler.framework.signatures import check

H = TypeVar("H", bound=Hashable)
Options = ParamSpec("Options")


def _registers(
    point: TypedExtensionPoint[F], add: Callable[Concatenate[Any, ExtensionPoint, Function, Options], object]
) -> Callable[Concatenate["Registration", F, Options], None]:
    """Returns the method that registers functions at a point. ``add``: the method that it calls, with its options."""

    def method(self: "Registration", function: F, /, *args: Options.args, **options: Options.kwargs) -> None:
        add(self, point, function, *args, **options)

    session, _, function, *options = inspect.signature(add).parameters.values()
    function = function.replace(annotation=f"Callable[[{', '.join(point.takes)}], {point.answer}]")
    signature = inspect.Signature([session, function, *options], return_annotation=None)
    method.__signature__ = signature  # type: ignore[attr-defined]
    method.__name__, method.__qualname__ = point.method, f"Registration.{point.method}"
    method.__doc__ = _documentation(point, add if options else None)
    return method


def _shows(point: ExtensionPoint) -> Callable[[F], F]:
    """Decorator that puts the docstring of a point in front of that of a method."""

    def documented(method: F) -> F:
        method.__doc__ = _documentation(point, method)
        return method

    return documented


def _documentation(point: ExtensionPoint, options: Callable[..., object] | None) -> str:
    """Returns what a function of a point means, and the docstring of the method that has the options."""
    return point.meaning if options is None else f"{point.meaning}\n\n{inspect.getdoc(options)}"


class Registration:
    """The part of a plugin's session that registers functions."""

    def __init__(self, functions: PluginFunctions, queues: Mapping[str, Queue]) -> None:
        """``functions``: receives the functions; ``queues``: by name."""
        self._functions = functions
        self._queues = queues
        self._queue_parts: dict[Any, Part] = {}
        self._behind: list[tuple[str, Function]] = []
        """Plugin -> a key of jobs that is compared right behind those of the plugin."""
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

    def _add(self, point: ExtensionPoint, function: Function, /) -> bool:
        """Registers a function of the plugin that is being opened, unless its flags disable the point. Returns whether
        it was registered. Raises RegistrationError if the function does not accept the parameters of the point."""
        check(self._option.name, point.name, function, point.takes)
        if not self._option.enabled(point.flag):
            return False
        self._functions.insert(point, self._tier, function, self._option.name)
        return True

    def _own(self, function: Function) -> None:
        """Remembers the plugin of a function that is not registered at an extension point itself."""
        self._functions.own(function, self._option.name)

    # --- options of registering methods ---
    def _add_order(self, point: ExtensionPoint, key: Function, /, *, moving: bool = False) -> bool:
        """``moving``: a placement may also change the keys of other jobs or queues."""
        added = self._add(point, key)
        if added and moving:
            self._functions.moving_orders.add(point)
        return added

    def _add_job_order(
        self, point: ExtensionPoint, key: Function, /, *, moving: bool = False, behind: str = ""
    ) -> None:
        """``moving``: a placement may also change the keys of other jobs. ``behind``: a plugin right behind whose key
        this one is compared, wherever the two stand in the configuration; if that plugin orders no jobs, this key is
        the first."""
        if not self._add_order(point, key, moving=moving):
            return
        if behind:
            self._behind.append((behind, key))
        functions = self._functions
        for leader, later in self._behind:
            if leader in (behind, self._option.name):
                others = [each for each in functions.all_functions(point) if functions.plugin_of(each) == leader]
                functions.move(point, later, others[-1] if others else None)

    def _add_task_order(self, point: ExtensionPoint, key: Function, /, *, fixed: bool = False) -> None:
        """``fixed``: the key of a task is the same in every session with the same configuration, so the order of a job
        that waits need not be computed in each."""
        if self._add(point, key) and not fixed:
            self._functions.task_order_is_fixed = False

    def _add_by_demand(self, point: ExtensionPoint, function: Function, /, *, by_demand: bool = False) -> None:
        """``by_demand``: the answer, and the refusal if there is one, depend only on these properties of the job:
        queue, priority, minimums, labels, annotations, and the number, statuses, roles and classes of its tasks. If all
        functions that an action asks say so, it does not repeat a search that failed for jobs with equal
        properties. The answer of JOB_READY may depend on the job itself while none of its tasks is placed, that of
        PREEMPTIVE depends only on the queue and the classes of the tasks."""
        if self._add(point, function) and not by_demand:
            self._functions.by_task.add(point)

    def _add_bounded(self, point: ExtensionPoint, victims: Function, /, *, bound: Bound | None = None) -> bool:
        """``bound`` returns the same as a column over all candidates of the cluster (see ``eviction_candidates``):
        False where the function refuses the task in any case."""
        if not self._add(point, victims):
            return False
        if bound is not None:
            check(self._option.name, f"bound of {point.name}", bound, (point.takes[0], "EvictionCandidates"))
            self._functions.bounds[victims] = bound
        return True

    def _add_victims(
        self, point: ExtensionPoint, victims: Function, /, *, bound: Bound | None = None, by_demand: bool = False
    ) -> None:
        """``bound`` returns the same as a column over all candidates of the cluster (see ``eviction_candidates``):
        False where the function refuses the task in any case. ``by_demand``: the answer depends only on these
        properties of the preemptor and its job: class, queue, priorities, amounts, and which candidates are its own. A
        search that found no victims is then not repeated for tasks with equal properties."""
        if self._add_bounded(point, victims, bound=bound) and not by_demand:
            self._functions.by_task.add(point)

    def _add_losses(
        self, point: ExtensionPoint, losses: Function, /, *, bound: Bound | None = None, most: Most | None = None
    ) -> None:
        """``bound``: see ``add_preemptable``. ``most`` returns what each queue can lose at most (see ``Most``)."""
        self._add_bounded(point, losses, bound=bound)
        if most is not None:
            self._functions.most_losses.append(most)
            self._own(most)

    # --- extension points ---
    add_job_order = _registers(points.JOB_ORDER, _add_job_order)
    add_queue_order = _registers(points.QUEUE_ORDER, _add_order)
    add_victim_queue_order = _registers(points.VICTIM_QUEUE_ORDER, _add)
    add_task_order = _registers(points.TASK_ORDER, _add_task_order)
    add_sub_job_order = _registers(points.SUB_JOB_ORDER, _add)

    add_job_valid = _registers(points.JOB_VALID, _add)
    add_job_ready = _registers(points.JOB_READY, _add_by_demand)
    add_job_pipelined = _registers(points.JOB_PIPELINED, _add_by_demand)
    add_job_starving = _registers(points.JOB_STARVING, _add_by_demand)
    add_sub_job_ready = _registers(points.SUB_JOB_READY, _add)
    add_sub_job_pipelined = _registers(points.SUB_JOB_PIPELINED, _add)
    add_job_enqueueable = _registers(points.JOB_ENQUEUEABLE, _add)
    add_job_enqueued = _registers(points.JOB_ENQUEUED, _add)
    add_ungated = _registers(points.UNGATED, _add)

    add_overused = _registers(points.OVERUSED, _add)
    add_allocatable = _registers(points.ALLOCATABLE, _add_by_demand)
    add_allocatable_now = _registers(points.ALLOCATABLE_NOW, _add_by_demand)
    add_preemptive = _registers(points.PREEMPTIVE, _add_by_demand)

    add_best_node = _registers(points.BEST_NODE, _add)
    add_node_assignment = _registers(points.NODE_ASSIGNMENT, _add)
    add_hyper_node_order = _registers(points.HYPER_NODE_ORDER, _add)
    add_hyper_node_gradient = _registers(points.HYPER_NODE_GRADIENT, _add)

    add_preemptable = _registers(points.PREEMPTABLE, _add_victims)
    add_reclaimable = _registers(points.RECLAIMABLE, _add_victims)
    add_unified_evictable = _registers(points.UNIFIED_EVICTABLE, _add_bounded)
    add_keeps_deserved = _registers(points.KEEPS_DESERVED, _add_losses)
    add_victim_tasks = _registers(points.VICTIM_TASKS, _add)
    add_victim_limit = _registers(points.VICTIM_LIMIT, _add)

    add_bind_annotations = _registers(points.BIND_ANNOTATIONS, _add)
    add_cards = _registers(points.CARDS, _add)
    add_preparations = _registers(points.PREPARATIONS, _add)
    add_queue_usage = _registers(points.QUEUE_USAGE, _add)
    add_cards_in_use = _registers(points.CARDS_IN_USE, _add)
    add_node_devices = _registers(points.NODE_DEVICES, _add)
    add_device_faults = _registers(points.DEVICE_FAULTS, _add)
    add_held_amounts = _registers(points.HELD_AMOUNTS, _add)
    add_deserved = _registers(points.DESERVED, _add)
    add_figures = _registers(points.FIGURES, _add)
    add_close = _registers(points.CLOSE, _add)

    # --- functions that are not called through an extension point ---
    def add_handlers(self, allocate: AllocateHandler, deallocate: DeallocateHandler) -> None:
        """Registers functions that are called for every placement, and for every rollback and eviction: for plugins
        that keep books."""
        check(self._option.name, "Allocate", allocate, ("Job", "Sequence[Task]", "Sequence[int]", "bool"))
        check(self._option.name, "Deallocate", deallocate, ("Job", "Sequence[Task]", "Sequence[int]"))
        self._functions.allocate_handlers.append(allocate)
        self._functions.deallocate_handlers.append(deallocate)
        self._own(allocate)
        self._own(deallocate)

    def add_veto(self, point: ExtensionPoint, spared: Callable[[Any, Task], bool]) -> None:
        """Registers ``spared(preemptor, task)``: whether the task is never a victim at this point, whatever plugins and
        tiers return. The plugin decides which flags disable a veto."""
        check(self._option.name, f"veto of {point.name}", spared, ("Task | EvictionContext", "Task"))
        self._functions.insert_veto(point, spared)
        self._own(spared)

    def add_claim_state(self, state: Callable[[TaskClass], object]) -> None:
        """Registers ``state(cls)``: the state of the volume claims of a class on which filters and scores depend.
        Classes that differ only in their claims and have equal states share filters and scores. If the state of a class
        changes, they are created again."""
        check(self._option.name, "ClaimState", state, ("TaskClass",))
        self._functions.claim_states.append(state)
        self._own(state)

    # --- filters and scores, whose answers are kept for each class of tasks ---
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
    @_shows(points.FILTER)
    def add_filter(
        self, function: Function, *, per_queue: Any = None, per_job: Any = None, pin: PinUse = PinUse.ASKED
    ) -> None:
        """``per_queue=True``: ``function(cls, queue)``, called once per class and queue. ``per_queue=key``, where
        ``key(queue)`` is hashable: ``function(cls, key(queue))``, called once per class and value, so that queues with
        equal values share the answer. ``per_job`` is the same for the job. A function with ``per_queue`` is not called
        for jobs whose queue does not exist.

        ``pin``: if no function of the session is ASKED, most of the classes that differ only in the node to which they
        are pinned are placed without a call.
        """
        if self._add_of_class(points.FILTER, function, per_queue, per_job):
            self._functions.pin_uses.add(pin)

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
    @_shows(points.SCORE)
    def add_score(self, function: Function, *, per_queue: Any = None, per_job: Any = None) -> None:
        """``per_queue`` and ``per_job``: as for ``add_filter``."""
        self._add_of_class(points.SCORE, function, per_queue, per_job)

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
        queues, answer = self._queues, function
        if per_queue is not None:
            given = self._queue_part(per_queue)
            self._add_part(_queue_name if per_queue is True else given, point)
            answer = lambda cls, job: function(cls, given(job)) if job.queue in queues else ()  # noqa: E731
        elif per_job is None:
            answer = lambda cls, job: function(cls)  # noqa: E731
        elif per_job is True:
            self._add_part(_job_key, point)
        else:
            self._add_part(per_job, point)
            answer = lambda cls, job: function(cls, per_job(job))  # noqa: E731
        self._functions.insert(point, self._tier, answer, plugin, source=function)
        return True

    def _queue_part(self, per_queue: Any) -> Part:
        """Returns the part of the key that a job's queue adds; None if the queue does not exist. Filters and scores
        with the same key share one part."""
        part = self._queue_parts.get(per_queue)
        if part is None:
            queues = self._queues
            if per_queue is True:
                part = lambda job: queues.get(job.queue)  # noqa: E731
            else:
                part = lambda job: per_queue(queues[job.queue]) if job.queue in queues else None  # noqa: E731
            self._queue_parts[per_queue] = part
        return part

    def _add_part(self, part: Part, point: ExtensionPoint) -> None:
        if part not in self._functions.parts:
            self._functions.parts.append(part)
            self._functions.part_points.append(point)
            self._own(part)


def _queue_name(job: Job) -> str:
    return job.queue


def _job_key(job: Job) -> str:
    return job.key
