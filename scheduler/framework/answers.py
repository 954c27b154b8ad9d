"""The combined answers of the plugins of a session: orders, votes, limits, victims, nodes."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from scheduler.api.hypernode import HyperNode
from scheduler.api.job import Job
from scheduler.api.node import Column, Nodes
from scheduler.api.queue import Queue
from scheduler.api.reasons import Refusal
from scheduler.api.resource import Vector
from scheduler.api.sub_job import SubJob
from scheduler.api.task import Task, TaskClass
from scheduler.framework.columns import ColumnAnswer, Filter, Scope, Score
from scheduler.framework.combining import Function, PluginFunctions
from scheduler.framework.extension import (
    ALLOCATABLE,
    ALLOCATABLE_NOW,
    CARDS_IN_USE,
    DESERVED,
    FIGURES,
    FILTER,
    HYPER_NODE_GRADIENT,
    HYPER_NODE_ORDER,
    JOB_ENQUEUEABLE,
    JOB_ENQUEUED,
    JOB_ORDER,
    JOB_PIPELINED,
    JOB_READY,
    JOB_STARVING,
    JOB_VALID,
    OVERUSED,
    PREEMPTIVE,
    QUEUE_ORDER,
    QUEUE_USAGE,
    SCORE,
    SUB_JOB_ORDER,
    SUB_JOB_PIPELINED,
    SUB_JOB_READY,
    TASK_ORDER,
    VICTIM_LIMIT,
    VICTIM_QUEUE_ORDER,
    VICTIM_TASKS,
    ExtensionPoint,
)
from scheduler.framework.figures import CardsByUser, Figures, QueueUsage

Key = tuple[Any, ...]


class Answers(PluginFunctions):
    """Calls the functions that plugins registered and combines their answers, for actions."""

    nodes: Nodes
    queues: dict[str, Queue]

    def __init__(self, tiers: int) -> None:
        """``tiers``: the number of tiers in the configuration."""
        super().__init__(tiers)
        self._returned: list[tuple[Function, ExtensionPoint, Sequence[Any]]] = []
        """Functions and the Filters or Scores that they returned, to name the plugin when one of these raises."""

    # --- orders ---
    @cached_property
    def job_rank(self) -> Callable[[Job], Key]:
        """Returns the key of a job by plugins. Jobs with equal keys are ordered by age."""
        return self.combined_key(JOB_ORDER)

    @cached_property
    def job_key(self) -> Callable[[Job], Key]:
        rank = self.job_rank
        return lambda job: (*rank(job), job.creation, job.key)

    @cached_property
    def queue_key(self) -> Callable[[Queue], Key]:
        rank = self.combined_key(QUEUE_ORDER)
        return lambda queue: (*rank(queue), queue.creation, queue.name)

    @cached_property
    def victim_queue_key(self) -> Callable[[Queue, Queue], Key]:
        """Returns a key of (a victim's queue, the preemptor's): tasks of the smaller are evicted first; among equals,
        the reverse order of queues decides."""
        return self.combined_key(VICTIM_QUEUE_ORDER)

    @cached_property
    def task_key(self) -> Callable[[Task], Key]:
        rank = self.combined_key(TASK_ORDER)
        return lambda task: (*rank(task), task.index, task.creation, task.uid)

    @cached_property
    def sub_job_key(self) -> Callable[[SubJob], Key]:
        rank = self.combined_key(SUB_JOB_ORDER)
        return lambda sub_job: (*rank(sub_job), sub_job.index, sub_job.key)

    # --- jobs ---
    def job_valid(self, job: Job) -> Refusal | None:
        refusal: Refusal | None = self.ask(JOB_VALID, job)
        return refusal

    def job_missing(self, job: Job) -> int:
        """Returns 0 if the job is ready, else a lower bound of the number of tasks that must still be placed."""
        missing: int = self.ask(JOB_READY, job)
        return missing

    def job_ready(self, job: Job) -> bool:
        return self.job_missing(job) == 0

    def job_pipelined(self, job: Job) -> bool:
        return bool(self.ask(JOB_PIPELINED, job))

    def sub_job_missing(self, job: Job, sub_job: SubJob | None) -> int:
        """Returns ``job_missing`` of a sub-group, or of the job if it has none."""
        if sub_job is None or not job.has_sub_groups:
            return self.job_missing(job)
        missing: int = self.ask(SUB_JOB_READY, sub_job)
        return missing

    def sub_job_ready(self, job: Job, sub_job: SubJob | None) -> bool:
        return self.sub_job_missing(job, sub_job) == 0

    def sub_job_pipelined(self, job: Job, sub_job: SubJob | None) -> bool:
        """Returns ``job_pipelined`` of a sub-group, or of the job if it has none."""
        if sub_job is None or not job.has_sub_groups:
            return self.job_pipelined(job)
        return bool(self.ask(SUB_JOB_PIPELINED, sub_job))

    def job_starving(self, job: Job) -> bool:
        return bool(self.ask(JOB_STARVING, job))

    def job_enqueueable(self, job: Job) -> bool:
        return bool(self.ask(JOB_ENQUEUEABLE, job))

    def job_enqueued(self, job: Job) -> None:
        self.ask(JOB_ENQUEUED, job)

    # --- queues ---
    def overused(self, queue: Queue) -> Refusal | None:
        refusal: Refusal | None = self.ask(OVERUSED, queue)
        return refusal

    def allocatable(self, queue: Queue, job: Job, cls: TaskClass, wanted: int) -> int:
        """Returns how many of ``wanted`` tasks of the class the queue may get when terminating tasks have exited."""
        room: int = self.ask(ALLOCATABLE, queue, job, cls, wanted)
        return room

    def allocatable_now(self, queue: Queue, job: Job, cls: TaskClass, wanted: int) -> int:
        """Returns how many of ``wanted`` tasks that are ``allocatable`` may be bound while tasks terminate."""
        room: int = self.ask(ALLOCATABLE_NOW, queue, job, cls, wanted)
        return room

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        return bool(self.ask(PREEMPTIVE, queue, tasks))

    # --- victims ---
    def victim_tasks(self, candidates: Sequence[Task]) -> list[Task]:
        """Returns the tasks that shuffle evicts."""
        victims: list[Task] = self.ask(VICTIM_LIMIT, self.ask(VICTIM_TASKS, candidates))
        return victims

    # --- nodes and HyperNodes ---
    def filters(self, cls: TaskClass, job: Job) -> list[Filter]:
        return self._of_class(FILTER, cls, job)

    def scores(self, cls: TaskClass, job: Job) -> list[Score]:
        return self._of_class(SCORE, cls, job)

    def _of_class(self, point: ExtensionPoint, cls: TaskClass, job: Job) -> list[Any]:
        """Returns all Filters or Scores for a class. Raises PluginError, also if a function returns anything else, or a
        column that does not have one value per node."""
        result: list[Any] = []
        method = "room" if point is FILTER else "values"
        try:
            for function in self.all_functions(point):
                found = function(cls, job)
                if not isinstance(found, Sequence):
                    self._wrong_answer(function, found, f"a list of {point.name}s")
                for each in found:
                    if not (isinstance(getattr(each, "scope", None), Scope) and hasattr(each, method)):
                        self._wrong_answer(function, found, f"a list of {point.name}s")
                    column = each.column if isinstance(each, ColumnAnswer) else None
                    if column is not None and np.shape(column) != (len(self.nodes),):
                        shape = f"a {type(each).__name__} of shape {np.shape(column)}"
                        self._refuse_answer(function, f"{shape}; there are {len(self.nodes)} nodes")
                result += found
                self._returned.append((function, point, found))
        except Exception as error:  # the code of others may raise anything
            self._fail(point, function, error, cls, job)
        return result

    def fail_column(self, column: object, method: str, error: Exception, row: int | None = None) -> NoReturn:
        """Raises an exception of a Filter or Score, or of the use of its answer, as a PluginError. See
        ``ColumnFailure``."""
        for function, point, returned in self._returned:
            if any(each is column for each in returned):
                traceback = error.__traceback__
                inside = traceback is not None and traceback.tb_next is not None
                where = f"{point.name} ({type(column).__name__}.{method})" if inside else point.name
                self._fail(where, function, error, node="" if row is None else self.nodes.names[row])
        raise error

    def gradients(self, target: Job | SubJob, within: HyperNode, evict: bool = False) -> list[list[HyperNode]]:
        """Returns the HyperNodes within a HyperNode that may take the tasks of a job or sub-job, the first to be tried
        in front: one list per network distance. ``evict``: tasks there may be evicted."""
        answer: list[list[HyperNode]] | None = self.ask(HYPER_NODE_GRADIENT, target, within, evict)
        return [[within]] if answer is None else answer

    def hyper_node_scores(self, sub_job: SubJob, hyper_nodes: Sequence[HyperNode]) -> Column:
        """Returns the score of each HyperNode for a sub-job as a whole; higher is better."""
        scores: Column = np.zeros(len(hyper_nodes)) + self.ask(HYPER_NODE_ORDER, sub_job, hyper_nodes)
        return scores

    # --- reports ---
    def queue_usage(self, queue: Queue) -> dict[str, QueueUsage]:
        """Returns the usage of a queue for each name that plugins limit."""
        return {name: usage for by_name in self.ask(QUEUE_USAGE, queue) for name, usage in by_name.items()}

    def cards_in_use(self) -> CardsByUser:
        """Returns the cards that Pods use. Called when the session is closed."""
        return {user: cards for found in self.ask(CARDS_IN_USE) for user, cards in found.items()}

    def deserved(self) -> dict[str, Vector]:
        """Returns queue -> the amounts that it deserves: as the plugin that divides the cluster has computed them; of a
        queue that no plugin gives a part, those of its spec."""
        amounts = {name: queue.deserved for name, queue in self.queues.items()}
        for computed in self.ask(DESERVED):
            amounts |= {name: its for name, its in computed.items() if name in amounts}
        return amounts

    def figures(self) -> list[Figures]:
        """Returns the figures of plugins about queues, jobs and namespaces. Called when the session is closed."""
        figures: list[Figures] = self.ask(FIGURES)
        return figures
