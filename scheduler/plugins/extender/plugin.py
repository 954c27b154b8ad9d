"""extender: when the extender is called, and what a missing answer means."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, TypeVar

import msgspec

from scheduler.api.job import Job
from scheduler.api.objects import ConfigMap
from scheduler.api.queue import Queue
from scheduler.api.reasons import Refusal
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.arguments import Arguments
from scheduler.framework.cache_requirements import CacheRequirements
from scheduler.framework.columns import Filter, Score
from scheduler.framework.extension import Vote
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin
from scheduler.framework.statement import AllocationError
from scheduler.plugins.extender import client
from scheduler.plugins.extender.client import ExtenderClient, ExtenderSettings, NoAnswerError
from scheduler.plugins.extender.columns import CachedResults, ExtenderScore, PredicateFilter, SequentialFilter
from scheduler.plugins.extender.wire import ExtenderObjects

A = TypeVar("A")


@register_plugin
class Extender:
    """Arguments: ``extender.urlPrefix``, ``extender.httpTimeout`` (1s), ``extender.ignorable`` (false),
    ``extender.managedResources`` (a list; without it the extender is called for all tasks), and a verb for each call
    that is enabled: ``extender.<call>Verb`` for onSessionOpen, onSessionClose, predicate, prioritize, preemptable,
    reclaimable, queueOverused, jobEnqueueable, jobEnqueued, jobReady, allocateFunc and deallocateFunc."""

    name: ClassVar[str] = "extender"

    def __init__(self, arguments: Arguments) -> None:
        self._settings = ExtenderSettings(arguments)

    @classmethod
    def cache_requirements(cls, arguments: Arguments, config_maps: Mapping[str, ConfigMap]) -> CacheRequirements:
        return CacheRequirements(originals=True)

    def open(self, session: PluginSession) -> None:
        settings = self._settings
        self._session = session
        self._cached: dict[object, tuple[int, Any]] = {}
        """Question -> (length of the node log, answer)."""
        self._asks_others = False
        """Whether the other plugins are asked if a job is ready."""
        self._ranking_errors: dict[tuple[str, int], str] = {}
        """(job key, class id) -> why the nodes were not ranked, so that the tasks are not placed."""
        self._client = ExtenderClient(session.external_calls, settings, self._report)
        self._wire = ExtenderObjects(session)
        if settings.session_close:
            session.add_close(lambda: self._notify(settings.session_close, {}))
        notified = not settings.session_open or self._notify(settings.session_open, self._wire.session())
        if notified or settings.ignorable:
            self._open(session)

    def _open(self, session: PluginSession) -> None:
        settings = self._settings
        if settings.predicate or settings.allocate:
            session.add_filter(self._filters, per_job=True)
        if settings.prioritize:
            session.add_score(self._scores, per_job=True)
        if settings.preemptable:
            session.add_preemptable(partial(self._victims, settings.preemptable))
        if settings.reclaimable:
            session.add_reclaimable(partial(self._victims, settings.reclaimable))
        if settings.queue_overused:
            session.add_overused(self._overused)
        if settings.job_enqueueable:
            session.add_job_enqueueable(self._enqueueable)
        if settings.job_enqueued:
            session.add_job_enqueued(lambda job: self._notify(settings.job_enqueued, {"job": self._wire.job(job)}))
        if settings.job_ready:
            session.add_job_ready(self._missing)
        if settings.allocate or settings.deallocate or settings.prioritize:
            session.add_handlers(self._allocated, self._deallocated)

    def _report(self, problem: str) -> None:
        self._session.problems.append(f"plugin {self.name}: {problem}")

    def _notify(self, verb: str, message: object) -> bool:
        """Sends a notification, and returns whether the extender answered."""
        try:
            self._client.notify(verb, message)
        except NoAnswerError:
            return False
        return True

    def _cached_answer(self, question: object, call: Callable[[], A]) -> A:
        """Calls ``call``, or returns its last answer if nothing has been placed or evicted since."""
        version = len(self._session.nodes.log)
        cached = self._cached.get(question)
        if cached is None or cached[0] != version:
            cached = self._cached[question] = (version, call())
        answer: A = cached[1]
        return answer

    # --- nodes ---
    def _filters(self, cls: TaskClass, job: Job) -> list[Filter]:
        if not self._settings.manages(cls):
            return []
        if not self._settings.predicate:
            return [SequentialFilter()]
        results = CachedResults(
            self._session.nodes, partial(self._call_predicate, cls, job), ignorable=self._settings.ignorable
        )
        return [PredicateFilter(results, unresolvable=True), PredicateFilter(results, unresolvable=False)]

    def _call_predicate(
        self, cls: TaskClass, job: Job, rows: Sequence[int]
    ) -> Sequence[client.Predicate | NoAnswerError]:
        task = self._next(cls, job)
        questions = [{"task": task, "node": self._wire.node(row)} for row in rows]
        return self._client.call_all(self._settings.predicate, questions, client.Predicate)

    def _scores(self, cls: TaskClass, job: Job) -> list[Score]:
        if not self._settings.manages(cls):
            return []
        return [ExtenderScore(self._session.nodes, partial(self._call_scores, cls, job))]

    def _call_scores(self, cls: TaskClass, job: Job, rows: Sequence[int]) -> Mapping[str, float] | None:
        """If the extender does not rank the nodes, no task is placed, unless it is ignorable."""
        question = {"task": self._next(cls, job), "nodes": [self._wire.node(row) for row in rows]}
        self._ranking_errors.pop((job.key, cls.id), None)
        try:
            answer = self._client.call(self._settings.prioritize, question, client.Prioritize)
        except NoAnswerError as error:
            if not self._settings.ignorable:
                self._ranking_errors[job.key, cls.id] = str(error)
            return None
        if answer.errormessage or answer.nodescore is None:
            where, why = f"{self._settings.prefix}/{self._settings.prioritize}", answer.errormessage or "no nodeScore"
            self._ranking_errors[job.key, cls.id] = f"extender {where}: the nodes are not ranked: {why}"
            return None
        return answer.nodescore

    def _next(self, cls: TaskClass, job: Job) -> msgspec.Raw:
        """The task of the class that is placed next; it represents the others."""
        waiting = [task for task in job.of(TaskStatus.PENDING).values() if task.cls is cls]
        task = min(waiting or (t for t in job.tasks() if t.cls is cls), key=self._session.task_key)
        return msgspec.Raw(msgspec.json.encode(self._wire.task(job, task)))

    # --- victims ---
    def _victims(self, verb: str, evictor: Task, evictees: Sequence[Task]) -> list[Task] | None:
        if not self._settings.manages(evictor.cls):
            return None
        return self._cached_answer(
            (verb, evictor.uid, *(task.uid for task in evictees)),
            lambda: self._call_victims(verb, evictor, evictees),
        )

    def _call_victims(self, verb: str, evictor: Task, evictees: Sequence[Task]) -> list[Task] | None:
        question = {"evictor": self._task(evictor), "evictees": [self._task(task) for task in evictees]}
        try:
            answer = self._client.call(verb, question, client.Victims)
        except NoAnswerError:
            return None if self._settings.ignorable else []
        uids = answer.uids
        return [task for task in evictees if task.uid in uids] if answer.status else None

    def _task(self, task: Task) -> object:
        return self._wire.task(self._session.jobs.get(task.job), task)

    # --- queues and jobs ---
    def _overused(self, queue: Queue) -> Refusal | None:
        return self._cached_answer(("overused", queue.name), lambda: self._call_overused(queue))

    def _call_overused(self, queue: Queue) -> Refusal | None:
        verb = self._settings.queue_overused
        try:
            answer = self._client.call(verb, {"queue": self._wire.queue(queue)}, client.Overused)
        except NoAnswerError as error:
            return None if self._settings.ignorable else Refusal("Extender", f"queue {queue.name}: {error}")
        if not answer.overused:
            return None
        return Refusal("Extender", f"queue {queue.name} is overused, says the extender {self._settings.prefix}/{verb}")

    def _enqueueable(self, job: Job) -> Vote:
        try:
            question = {"job": self._wire.job(job)}
            status = self._client.call(self._settings.job_enqueueable, question, client.VoteResponse).status
        except NoAnswerError:
            status = 1 if self._settings.ignorable else -1
        return Vote.PERMIT if status > 0 else Vote.REJECT if status < 0 else Vote.ABSTAIN

    def _missing(self, job: Job) -> int:
        """Calls the extender only if all other plugins consider the job ready."""
        if self._asks_others:
            return 0
        self._asks_others = True
        try:
            if self._session.job_missing(job):
                return 0
        finally:
            self._asks_others = False
        return self._cached_answer(("ready", job.key), lambda: self._call_missing(job))

    def _call_missing(self, job: Job) -> int:
        try:
            question = {"job": self._wire.job(job)}
            return int(not self._client.call(self._settings.job_ready, question, client.Ready).status)
        except NoAnswerError:
            return int(not self._settings.ignorable)

    # --- placements ---
    def _allocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        """Raises AllocationError if the extender rejects a placement. It cannot reject the undoing of an eviction."""
        ranking_error = self._ranking_errors.pop((job.key, tasks[0].cls.id), "")
        if ranking_error and not tasks[0].node:
            raise AllocationError(ranking_error)
        for position, task in enumerate(tasks):
            rejection = self._event(self._settings.allocate, job, task)
            if rejection and not task.node:
                for earlier in reversed(tasks[: position + 1]):
                    self._event(self._settings.deallocate, job, earlier, TaskStatus.PENDING)
                raise AllocationError(rejection)

    def _deallocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        for task in tasks:
            self._event(self._settings.deallocate, job, task, None if task.node else TaskStatus.PENDING)

    def _event(self, verb: str, job: Job, task: Task, status: TaskStatus | None = None) -> str:
        """Sends an allocation or deallocation, and returns why the extender rejects it, or "". ``status``: replaces the
        current status of the task."""
        if not verb or not self._settings.manages(task.cls):
            return ""
        question = {"task": self._wire.task(job, task, status)}
        try:
            return self._client.call(verb, question, client.EventResponse).errormessage
        except NoAnswerError as error:
            return "" if self._settings.ignorable else str(error)
